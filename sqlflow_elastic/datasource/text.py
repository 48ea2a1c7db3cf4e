"""Values that an engine sends as text, turned into Arrow types a column at a time."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from sqlflow_elastic.datasource.arrow import MICROSECONDS, TIME_OF_DAY
from sqlflow_elastic.errors import DataSourceError

#: Dates that no calendar has: MySQL's with a zero month or day, PostgreSQL's infinite ones. And no decimal is NaN.
_NO_DATE = r"^(\d{4}-(00-|\d\d-00)|-?infinity$)"
_NO_DECIMAL = "^NaN$"


def from_text(texts: pa.Array, field: pa.Field) -> pa.Array:
    """The texts of a string column as the field's type; dates that no calendar has, and a decimal's NaN, become NULL.

    Raises: DataSourceError: a text is no value of the type; names the column.
    """
    try:
        return _convert(texts, field.type)
    except pa.ArrowInvalid as error:
        raise DataSourceError(f"column {field.name!r}: {error}") from error


def _convert(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if types.is_string(kind):
        return texts
    if types.is_time(kind):
        return pc.binary_join_element_wise("1970-01-01", texts, " ").cast(MICROSECONDS).cast(TIME_OF_DAY)
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        if not (types.is_temporal(kind) or types.is_decimal(kind)):
            raise
        none = _NO_DECIMAL if types.is_decimal(kind) else _NO_DATE
        real = pc.if_else(pc.match_substring_regex(texts, none), pa.scalar(None, pa.string()), texts)
        return real.cast(kind)
