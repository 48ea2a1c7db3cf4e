"""MySQL's types and values: from the wire's bytes to Arrow, and from Arrow to the text of an INSERT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pymysql.constants import FIELD_TYPE, FLAG

from sqlflow_elastic.datasource.arrow import MICROSECONDS, TIME_OF_DAY, UTC_MICROSECONDS, decimal
from sqlflow_elastic.datasource.text import from_text
from sqlflow_elastic.errors import DataSourceError

#: The "character set" of what has none.
_BINARY = 63
#: A TIME is a time of day or any duration from -838:59:59 to 838:59:59.
_DURATION = r"^(-|2[4-9]|[3-9]\d|\d{3})"
_FIXED = {
    FIELD_TYPE.FLOAT: pa.float32(),
    FIELD_TYPE.DOUBLE: pa.float64(),
    FIELD_TYPE.DATE: pa.date32(),
    FIELD_TYPE.NEWDATE: pa.date32(),
    FIELD_TYPE.TIME: TIME_OF_DAY,
    FIELD_TYPE.DATETIME: MICROSECONDS,
    FIELD_TYPE.TIMESTAMP: MICROSECONDS,
    FIELD_TYPE.GEOMETRY: pa.binary(),
    FIELD_TYPE.JSON: pa.string(),
    FIELD_TYPE.NULL: pa.string(),
}
_INTEGERS = {
    *(FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.INT24, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG, FIELD_TYPE.YEAR)
}

#: The contract's types in CREATE TABLE.
NAMES = {
    pa.bool_(): "TINYINT(1)",
    pa.int64(): "BIGINT",
    pa.uint64(): "BIGINT UNSIGNED",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "LONGTEXT",
    pa.binary(): "LONGBLOB",
    pa.date32(): "DATE",
    TIME_OF_DAY: "TIME(6)",
    MICROSECONDS: "DATETIME(6)",
    UTC_MICROSECONDS: "DATETIME(6)",
}


def decimal_name(kind: pa.DataType) -> str:
    """A decimal type in CREATE TABLE; text where MySQL's decimals (65 digits, 30 after the point) are too narrow."""
    fits = kind.precision <= 65 and 0 <= kind.scale <= 30
    return f"DECIMAL({kind.precision}, {kind.scale})" if fits else "LONGTEXT"


@dataclass(frozen=True)
class Column:
    """A column of a result: its Arrow field, and how its bytes become values."""

    field: pa.Field
    bits: bool

    def array(self, values: Sequence[bytes | None]) -> pa.Array:
        """The values of a column as the wire brings them, in the field's type."""
        if self.bits:
            numbers = [None if value is None else int.from_bytes(value, "big") for value in values]
            return pa.array(numbers, self.field.type)
        raw = pa.array(values, pa.binary())
        if types.is_binary(self.field.type):
            return raw
        try:
            texts = raw.cast(pa.string())
        except pa.ArrowInvalid:
            raise DataSourceError(f"column {self.field.name!r} holds text that is not UTF-8") from None
        if types.is_time(self.field.type):
            self._check_times(texts)
        return from_text(texts, self.field)

    def _check_times(self, texts: pa.Array) -> None:
        durations = texts.filter(pc.match_substring_regex(texts, _DURATION))
        if durations:
            name, value = self.field.name, durations[0]
            message = f"column {name!r} holds {value}, a duration and no time of day; select TIME_TO_SEC({name})"
            raise DataSourceError(message)


def column_of(field: Any) -> Column:
    """The column that a field descriptor of the wire protocol announces."""
    return Column(pa.field(field.name, _arrow_type(field)), field.type_code == FIELD_TYPE.BIT)


def _arrow_type(field: Any) -> pa.DataType:
    code, unsigned = field.type_code, bool(field.flags & FLAG.UNSIGNED)
    if code in _FIXED:
        return _FIXED[code]
    if code in _INTEGERS:
        return pa.uint64() if unsigned and code == FIELD_TYPE.LONGLONG else pa.int64()
    if code in {FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL}:
        # The length is that of the text: digits, a point, a sign.
        return decimal(field.length - (field.scale > 0) - (not unsigned), field.scale)
    if code == FIELD_TYPE.BIT:
        return pa.uint64() if field.length == 64 else pa.int64()
    if field.charsetnr == _BINARY and not field.flags & (FLAG.ENUM | FLAG.SET):
        return pa.binary()
    return pa.string()


def insert_values(batch: pa.RecordBatch, backslashes: bool, size: int) -> Iterator[bytes]:
    """The rows as ``(…),(…)``, in pieces of about ``size`` bytes.

    Args:
        batch: columns in the contract's types.
        backslashes: whether a backslash in a string literal escapes.
        size: a row longer than that makes a piece of its own.
    """
    columns = [_literals(column, field, backslashes) for column, field in zip(batch.columns, batch.schema, strict=True)]
    rows = pc.binary_join_element_wise(*columns, b",").to_pylist()
    start = length = 0
    for stop, row in enumerate(rows):
        if length and length + len(row) > size:
            yield _parenthesised(rows[start:stop])
            start, length = stop, 0
        length += len(row)
    if rows:
        yield _parenthesised(rows[start:])


def _parenthesised(rows: list[bytes]) -> bytes:
    return b"(" + b"),(".join(rows) + b")"


def _literals(column: pa.Array, field: pa.Field, backslashes: bool) -> pa.Array:
    """Each value as SQL text, in a binary column without NULLs."""
    kind = column.type
    if types.is_boolean(kind):
        texts = pc.if_else(column, "1", "0")
    elif types.is_integer(kind) or types.is_decimal(kind):
        texts = column.cast(pa.string())
    elif types.is_floating(kind):
        if not pc.all(pc.is_finite(column), min_count=0).as_py():
            raise DataSourceError(f"column {field.name!r}: MySQL cannot hold NaN or infinity")
        texts = column.cast(pa.string())
    elif types.is_binary(kind):
        return pa.array([b"NULL" if value is None else b"X'%s'" % value.hex().encode() for value in column.to_pylist()])
    else:
        texts = _quoted(column, backslashes)
    return texts.fill_null("NULL").cast(pa.binary())


def _quoted(column: pa.Array, backslashes: bool) -> pa.Array:
    if types.is_string(column.type):
        if backslashes:
            column = pc.replace_substring(column, "\\", "\\\\")
        column = pc.replace_substring(column, "'", "''")
    elif column.type.equals(UTC_MICROSECONDS):
        column = column.cast(MICROSECONDS)
    return pc.binary_join_element_wise("'", column.cast(pa.string()), "'", "")
