"""From any Arrow type to the few types that the contract of data sources knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyarrow import types

from sqlflow_elastic.errors import DataSourceError

MICROSECONDS = pa.timestamp("us")
UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")
TIME_OF_DAY = pa.time64("us")
_DECIMAL128_DIGITS = 38


def decimal(precision: int, scale: int) -> pa.DataType:
    """The smallest decimal type of the contract for these digits; string where no Arrow decimal is wide enough."""
    if precision > 76 or scale > precision:
        return pa.string()
    return pa.decimal128(precision, scale) if precision <= _DECIMAL128_DIGITS else pa.decimal256(precision, scale)


def contract_type(kind: pa.DataType) -> pa.DataType:
    """The contract's type for an Arrow type (see the page of `sqlflow_elastic.datasource.base`)."""
    if types.is_dictionary(kind):
        return contract_type(kind.value_type)
    if types.is_integer(kind):
        return kind if types.is_uint64(kind) else pa.int64()
    if types.is_decimal(kind):
        return decimal(kind.precision, kind.scale)
    if types.is_timestamp(kind):
        return MICROSECONDS if kind.tz is None else UTC_MICROSECONDS
    for belongs, target in _TARGETS:
        if belongs(kind):
            return target
    return pa.string()


_TARGETS = (
    (types.is_boolean, pa.bool_()),
    (types.is_float64, pa.float64()),
    (types.is_floating, pa.float32()),
    (types.is_date, pa.date32()),
    (types.is_time, TIME_OF_DAY),
    (types.is_binary, pa.binary()),
    (types.is_large_binary, pa.binary()),
    (types.is_fixed_size_binary, pa.binary()),
)


def contract_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with the contract's types, all nullable, without metadata."""
    return pa.schema([pa.field(field.name, contract_type(field.type)) for field in schema])


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch's columns, by position, in the schema's types.

    Raises: DataSourceError: a value does not fit.
    """
    if batch.schema.equals(schema):
        return batch
    return pa.record_batch(
        [_cast(column, field) for column, field in zip(batch.columns, schema, strict=True)], schema=schema
    )


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type.equals(field.type):
        return column
    try:
        # Finer times than microseconds lose their last digits; everything else must fit.
        return column.cast(field.type, safe=not types.is_temporal(field.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataSourceError(f"column {field.name!r}: {error}") from error


def regrouped(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int, size: int = 1 << 25
) -> Iterator[pa.RecordBatch]:
    """The same rows in the schema's types, in batches of about ``rows`` rows or ``size`` bytes."""
    held: list[pa.RecordBatch] = []
    held_rows = held_size = 0
    for batch in batches:
        held.append(conform(batch, schema))
        held_rows += batch.num_rows
        held_size += batch.nbytes
        if held_rows >= rows or held_size >= size:
            yield pa.concat_batches(held)
            held, held_rows, held_size = [], 0, 0
    if held:
        yield pa.concat_batches(held)
