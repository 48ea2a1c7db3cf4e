"""PostgreSQL's types and values: from COPY's CSV to Arrow, and back."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, types

from sqlflow_elastic.datasource.arrow import MICROSECONDS, TIME_OF_DAY, UTC_MICROSECONDS, decimal
from sqlflow_elastic.datasource.text import from_text
from sqlflow_elastic.errors import DataSourceError

_NUMERIC = 1700
_BLOCK_BYTES = 1 << 20
#: Arrow types by the OIDs of pg_type; what is not here (json, uuid, enums, arrays, intervals …) arrives as text.
_TYPES = {
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int64(),
    23: pa.int64(),
    26: pa.int64(),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1083: TIME_OF_DAY,
    1114: MICROSECONDS,
    1184: UTC_MICROSECONDS,
}
#: The contract's types in CREATE TABLE.
_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int64(): "BIGINT",
    pa.uint64(): "NUMERIC(20, 0)",
    pa.float32(): "REAL",
    pa.float64(): "DOUBLE PRECISION",
    pa.string(): "TEXT",
    pa.binary(): "BYTEA",
    pa.date32(): "DATE",
    TIME_OF_DAY: "TIME",
    MICROSECONDS: "TIMESTAMP",
    UTC_MICROSECONDS: "TIMESTAMPTZ",
}


def arrow_type(oid: int, modifier: int) -> pa.DataType:
    """The Arrow type of a result column, from its type's OID and modifier."""
    if oid != _NUMERIC:
        return _TYPES.get(oid, pa.string())
    if modifier < 0:
        return pa.float64()
    # 16 bits of precision, then 11 of scale, signed since version 15.
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    scale = (scale ^ 0x400) - 0x400
    return decimal(precision, scale) if scale >= 0 else pa.float64()


def type_name(kind: pa.DataType) -> str:
    """A type of the contract in CREATE TABLE."""
    return _NAMES.get(kind) or f"NUMERIC({kind.precision}, {kind.scale})"


def _parsed_by_csv(kind: pa.DataType) -> bool:
    return not (types.is_temporal(kind) or types.is_binary(kind) or types.is_decimal256(kind))


def batch_from_csv(data: bytearray, longest: int, schema: pa.Schema) -> pa.RecordBatch:
    """Whole rows of COPY's CSV as a batch.

    Args:
        data: the rows.
        longest: bytes of the longest row.
        schema: the types to read them in.

    Raises: DataSourceError: a value is none of its column's type.
    """
    kinds = [kind if _parsed_by_csv(kind) else pa.string() for kind in schema.types]
    try:
        table = _parsed(data, longest, kinds)
    except pa.ArrowInvalid:
        # A decimal may be NaN.
        texts = [pa.string() if types.is_decimal(kind) else kind for kind in kinds]
        try:
            table = _parsed(data, longest, texts)
        except pa.ArrowInvalid as error:
            raise DataSourceError(f"a value cannot be read: {error}") from error
    columns = [column.combine_chunks() for column in table.columns]
    return pa.record_batch(
        [
            column if column.type.equals(field.type) else _decoded(column, field)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def _parsed(data: bytearray, longest: int, kinds: Sequence[pa.DataType]) -> pa.Table:
    names = [str(index) for index in range(len(kinds))]  # a result may name two columns alike
    return csv.read_csv(
        pa.BufferReader(data),
        # Small blocks stay in the processor's cache, but each must hold a whole row.
        csv.ReadOptions(column_names=names, use_threads=False, block_size=max(_BLOCK_BYTES, 2 * longest)),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict(zip(names, kinds, strict=True)),
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def batch_from_texts(columns: Sequence[Sequence[bytes | None]], schema: pa.Schema) -> pa.RecordBatch:
    """Columns of values in PostgreSQL's text form as a batch."""
    return pa.record_batch(
        [
            _decoded(pa.array(values, pa.binary()).cast(pa.string()), field)
            for values, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def _decoded(texts: pa.Array, field: pa.Field) -> pa.Array:
    if types.is_binary(field.type):
        values = [None if text is None else bytes.fromhex(text[2:]) for text in texts.to_pylist()]
        return pa.array(values, pa.binary())
    if types.is_boolean(field.type):
        return pc.equal(texts, "t")
    return from_text(texts, field)


def batch_to_csv(batch: pa.RecordBatch) -> bytes:
    """A batch in the contract's types as CSV for COPY: nothing is NULL, an empty text is quoted."""
    columns = [_encoded(column) for column in batch.columns]
    data = io.BytesIO()
    named = pa.record_batch(columns, names=[str(index) for index in range(len(columns))])
    csv.write_csv(named, data, csv.WriteOptions(include_header=False))
    return data.getvalue()


def _encoded(column: pa.Array) -> pa.Array:
    if types.is_binary(column.type):
        texts = [None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    return column
