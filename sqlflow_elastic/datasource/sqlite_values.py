"""SQLite's values: finding the type of a column that may hold anything, and from Arrow to what the driver takes.

Each column goes through two kinds of type. Its *stored* type is what its values are in SQLite: integers, floats, text,
bytes, or the widest of them. Its *declared* type is what CREATE TABLE says. The declared one is given out if every
value keeps to it, else the stored one.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from sqlite3 import Cursor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from sqlflow_elastic.datasource.arrow import MICROSECONDS, TIME_OF_DAY, UTC_MICROSECONDS, decimal
from sqlflow_elastic.datasource.text import from_text
from sqlflow_elastic.errors import DataSourceError

#: Rows fetched at a time: few enough that Python's collector stays quiet.
_FETCH_ROWS = 512
_BATCH_BYTES = 1 << 25
#: Every so many chunks one is weighed, since weighing takes time.
_CHUNKS_WEIGHED = 8

#: The contract's types in CREATE TABLE. SQLite takes its own idea of a column from parts of the name ("TEXT", "INT").
_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int64(): "INTEGER",
    pa.uint64(): "UNSIGNED_TEXT",
    pa.float32(): "FLOAT4",
    pa.float64(): "REAL",
    pa.string(): "TEXT",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    TIME_OF_DAY: "TIME",
    MICROSECONDS: "TIMESTAMP",
    UTC_MICROSECONDS: "TIMESTAMP WITH TIME ZONE",
}
_DECIMAL = re.compile(r"(?:DECIMAL|NUMERIC)\w*\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_DECLARED = (
    (re.compile(r"BOOL"), pa.bool_()),
    (re.compile(r"UNSIGNED_TEXT"), pa.uint64()),
    (re.compile(r"FLOAT4"), pa.float32()),
    (re.compile(r"TIMESTAMP.*ZONE|TIMESTAMPTZ"), UTC_MICROSECONDS),
    (re.compile(r"DATETIME|TIMESTAMP"), MICROSECONDS),
    (re.compile(r"DATE"), pa.date32()),
    (re.compile(r"TIME"), TIME_OF_DAY),
    (re.compile(r"INT"), pa.int64()),
    (re.compile(r"CHAR|CLOB|TEXT"), pa.string()),
    (re.compile(r"BLOB"), pa.binary()),
    (re.compile(r"REAL|FLOA|DOUB"), pa.float64()),
)
#: Stored types, each wider than those before it.
_WIDTH = [pa.null(), pa.int64(), pa.float64(), pa.string(), pa.binary()]


def type_name(kind: pa.DataType) -> str:
    """A type of the contract in CREATE TABLE. A decimal is kept as text, since SQLite would round it to a float."""
    return _NAMES.get(kind) or f"DECIMAL_TEXT({kind.precision}, {kind.scale})"


def declared_type(declaration: str) -> pa.DataType | None:
    """The type that a declaration means, or None if it means nothing to us."""
    upper = declaration.upper()
    if found := _DECIMAL.search(upper):
        return decimal(int(found.group(1)), int(found.group(2) or 0))
    return next((kind for pattern, kind in _DECLARED if pattern.search(upper)), None)


def python_values(column: pa.Array) -> Sequence[Any]:
    """A column in a contract's type as values that the driver stores."""
    kind = column.type
    if types.is_boolean(kind):
        column = column.cast(pa.int64())
    elif types.is_temporal(kind) or types.is_decimal(kind) or types.is_uint64(kind):
        column = column.cast(pa.string())
    if column.null_count == 0 and (types.is_integer(column.type) or types.is_floating(column.type)):
        numbers: list[Any] = column.to_numpy().tolist()
        return numbers
    values: list[Any] = column.to_pylist()
    return values


@dataclass
class _Column:
    """What is known of a column so far."""

    name: str
    declared: pa.DataType | None
    stored: pa.DataType = field(default_factory=pa.null)
    keeps: bool = True

    def take(self, values: tuple[Any, ...]) -> pa.Array:
        """Some values in their stored type, which becomes known to the column."""
        # Told the type, Arrow makes floats in a fifth of the time; integers among them are floats in the end.
        known = self.stored if types.is_floating(self.stored) else None
        try:
            array = pa.array(values, known)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            array = _stored(values)
        if types.is_null(array.type):
            return array
        if array.type != self.stored:
            self.stored = wider(self.stored, array.type)
        if self.keeps and self.declared is not None and not self.declared.equals(array.type):
            try:
                self._as_declared(array, self.declared)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, DataSourceError):
                self.keeps = False
        return array

    @property
    def type(self) -> pa.DataType:
        """The type to give out."""
        if self.declared is not None and (self.keeps or types.is_null(self.stored)):
            return self.declared
        return pa.string() if types.is_null(self.stored) else self.stored

    def give(self, array: pa.Array) -> pa.Array:
        """Values in a stored type, in the type to give out."""
        if types.is_null(array.type):
            return pa.nulls(len(array), self.type)
        if self.declared is not None and self.keeps:
            return self._as_declared(array, self.declared)
        return _widened(array, self.type)

    def _as_declared(self, array: pa.Array, kind: pa.DataType) -> pa.Array:
        """The values in the declared type. Raises if one does not keep to it."""
        stored = array.type
        if kind.equals(stored):
            return array
        if types.is_string(stored) and not types.is_floating(kind) and not types.is_binary(kind):
            return from_text(array, pa.field(self.name, kind))
        if types.is_boolean(kind) and types.is_integer(stored):
            if pc.any(pc.not_equal(pc.bit_wise_and(array, 1), array)).as_py():
                raise DataSourceError(f"column {self.name!r} holds more than 0 and 1")
            return pc.equal(array, 1)
        numbers = types.is_integer(stored) or types.is_floating(stored)
        if numbers and (types.is_floating(kind) or types.is_decimal(kind)):
            return array.cast(kind, safe=not types.is_float32(kind))
        raise DataSourceError(f"column {self.name!r} does not keep to its declaration")


def wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The stored type that holds the values of both."""
    return max(one, other, key=_WIDTH.index)


def _stored(values: tuple[Any, ...]) -> pa.Array:
    """Values of any kinds in the narrowest stored type that holds them all."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int}:
        return pa.array(values, pa.int64() if kinds else pa.null())
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if bytes not in kinds:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array(
        [value if value is None or isinstance(value, bytes) else str(value).encode() for value in values], pa.binary()
    )


def _widened(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if types.is_binary(kind) and not types.is_binary(array.type):
        array = array.cast(pa.string())
    # Integers beyond 2^53 in a column of floats lose their last digits.
    return array.cast(kind, safe=False)


class Spool:
    """A result's rows, read to the end, and the types found. All but the last batch wait in a temporary file.

    Args:
        names: of the columns.
        declared: their declarations, or an empty list.
        batch_rows: at most that many rows make a batch.
    """

    def __init__(self, names: list[str], declared: list[str], batch_rows: int) -> None:
        declarations = declared if len(declared) == len(names) else [""] * len(names)
        self._columns = [_Column(*pair) for pair in zip(names, map(declared_type, declarations), strict=True)]
        self._batch_rows = batch_rows
        self._file: Any = None
        self._writer: Any = None
        self._written: pa.Schema | None = None
        self._streams = 0
        self._last: pa.RecordBatch | None = None

    @property
    def schema(self) -> pa.Schema:
        """The types found; right after `fill`."""
        return pa.schema([pa.field(column.name, column.type) for column in self._columns])

    def fill(self, cursor: Cursor, limit: int = sys.maxsize) -> None:
        """Read the cursor to its end, or at most ``limit`` rows."""
        chunks: list[list[pa.Array]] = []
        rows = size = 0
        while limit and (values := cursor.fetchmany(min(_FETCH_ROWS, self._batch_rows - rows, limit))):
            limit -= len(values)
            arrays = [column.take(one) for column, one in zip(self._columns, zip(*values, strict=True), strict=True)]
            chunks.append(arrays)
            rows += len(values)
            if len(chunks) % _CHUNKS_WEIGHED == 0:
                size += sum(array.nbytes for array in arrays) * _CHUNKS_WEIGHED
            if rows == self._batch_rows or size >= _BATCH_BYTES:
                self._add(chunks)
                chunks, rows, size = [], 0, 0
        if chunks:
            self._add(chunks)

    def _add(self, chunks: list[list[pa.Array]]) -> None:
        if self._last is not None:
            self._write(self._last)
        columns = [_joined(arrays) for arrays in zip(*chunks, strict=True)]
        self._last = pa.record_batch(columns, names=[str(index) for index in range(len(columns))])

    def _write(self, batch: pa.RecordBatch) -> None:
        """Batches whose stored types differ stand in streams of their own, one after the other in the file."""
        if self._written is None or not self._written.equals(batch.schema):
            if self._writer is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
            else:
                self._writer.close()
            self._written = batch.schema
            self._writer = pa.ipc.new_stream(self._file, batch.schema)
            self._streams += 1
        self._writer.write_batch(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the types found."""
        schema = self.schema
        if self._writer is not None:
            self._writer.close()
            self._file.seek(0)
            for _ in range(self._streams):
                for batch in pa.ipc.open_stream(self._file):
                    yield self._given(batch, schema)
        if self._last is not None:
            yield self._given(self._last, schema)

    def _given(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        arrays = [column.give(array) for column, array in zip(self._columns, batch.columns, strict=True)]
        return pa.record_batch(arrays, schema=schema)

    def close(self) -> None:
        """Remove the temporary file."""
        if self._file is not None:
            self._file.close()


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    kind = pa.null()
    for array in arrays:
        kind = wider(kind, array.type)
    return pa.concat_arrays([array if array.type.equals(kind) else _widened(array, kind) for array in arrays])
