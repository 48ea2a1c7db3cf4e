"""Raw values of a field: one Arrow type for each kind, whatever type the column came with.

A column whose type differs from training's is fine as long as its values convert without loss: whole floats for an
integer field, numbers written as text for a number field. Everything else is a `DataError` that names row, field and
value.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from sqlflow_elastic.errors import DataError
from sqlflow_elastic.models.features.columns import Field, Kind

INTEGER_NULL = -(2**63)
"""What stands for NULL among int64 ids and times."""

TEXT_NULL = "\\N"
"""What stands for NULL among texts."""

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
INTEGER = r"^[+-]?\d+$"

EXPECTED: dict[Kind, str] = {
    "float": "a number",
    "integer": "a whole number of 64 bits",
    "text": "a text",
    "time": "a date or a time",
    "boolean": "true or false",
}


def kind_of(arrow: pa.DataType) -> Kind | None:
    """The kind of a field whose column has this type; None if no feature can be made of it (a list, a struct …)."""
    types = pa.types
    if types.is_dictionary(arrow):
        return kind_of(arrow.value_type)
    if types.is_boolean(arrow):
        return "boolean"
    if types.is_integer(arrow) or (types.is_decimal(arrow) and arrow.scale <= 0 and arrow.precision <= 18):
        return "integer"
    if types.is_floating(arrow) or types.is_decimal(arrow):
        return "float"
    if _is_text(arrow) or types.is_null(arrow):
        return "text"
    if types.is_temporal(arrow) and not types.is_duration(arrow) and not types.is_interval(arrow):
        return "time"
    return None


class Rows:
    """Columns of a batch as raw values, each converted when first asked for.

    Args:
        batch: the rows; columns are found by name.
        first_row: the number of the first of them, counted from 0 over the whole SELECT, for messages.
    """

    def __init__(self, batch: pa.RecordBatch, first_row: int = 0) -> None:
        self._batch = batch
        self._first_row = first_row
        self._values: dict[tuple[str, Kind], pa.Array] = {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def values(self, field: Field) -> pa.Array:
        """The field's column as float64, int64 (booleans as 0 and 1, times as seconds since 1970) or string."""
        key = (field.name, field.kind)
        if key not in self._values:
            self._values[key] = self._convert(self._column(field.name), field)
        return self._values[key]

    def require(self, valid: pa.Array, field: Field, expected: str) -> None:
        """Raise the `DataError` of the first row whose ``valid`` is false or NULL.

        Args:
            valid: a boolean for each row.
            field: the field the values are of.
            expected: what would be right: "a number".
        """
        valid = pc.fill_null(valid, False)
        index = pc.index(valid, False).as_py()
        if index >= 0:
            value = self._column(field.name)[index].as_py()
            text = "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)
            row = self._first_row + index + 1
            raise DataError(f"row {row}: field '{field.name}' is {text}, expected {expected}")

    def _column(self, name: str) -> pa.Array:
        indices = self._batch.schema.get_all_field_indices(name)
        if len(indices) != 1:
            raise DataError(f"the rows have {'no field' if not indices else f'{len(indices)} fields'} '{name}'")
        return self._batch.column(indices[0])

    def _convert(self, column: pa.Array, field: Field) -> pa.Array:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        convert = _CONVERTERS[field.kind]
        try:
            return convert(column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            self.require(convertible(column, convert), field, EXPECTED[field.kind])
            raise


Converter = Callable[[pa.Array], pa.Array]


def convertible(values: pa.Array, convert: Converter) -> pa.Array:
    """Which values convert, a boolean for each: one by one, hence slow, to find the one that does not."""

    def converts(value: pa.Array) -> bool:
        try:
            convert(value)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return False
        return True

    return pa.array([not v.is_valid or converts(values.slice(i, 1)) for i, v in enumerate(values)], pa.bool_())


def _is_text(arrow: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(arrow)
        or types.is_large_string(arrow)
        or types.is_string_view(arrow)
        or types.is_binary(arrow)
        or types.is_large_binary(arrow)
    )


def _null_where(condition: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(condition, False), pa.scalar(None, values.type), values)


def _refuse(arrow: pa.DataType) -> pa.Array:
    raise pa.ArrowInvalid(f"values of type {arrow} do not convert")


def blank_is_null(text: pa.Array) -> pa.Array:
    """The texts without spaces around them; NULL for those of nothing else."""
    text = pc.ascii_trim_whitespace(text)
    return _null_where(pc.equal(text, ""), text)


def text_to_number(text: pa.Array) -> pa.Array:
    """Numbers written as text, as float64; blank ones are NULL. Raises: pa.ArrowInvalid."""
    return _parse(text, NUMBER, pa.float64())


def text_to_integer(text: pa.Array) -> pa.Array:
    """Whole numbers written as text, as int64; blank ones are NULL. Raises: pa.ArrowInvalid."""
    return _parse(text, INTEGER, pa.int64())


def _parse(text: pa.Array, pattern: str, to: pa.DataType) -> pa.Array:
    text = blank_is_null(text)
    if pc.all(pc.match_substring_regex(text, pattern)).as_py() is False:
        return _refuse(text.type)
    return pc.utf8_ltrim(text, "+").cast(to)


def _text(column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
        return _refuse(column.type)
    text = column.cast(pa.string())
    return _null_where(pc.equal(text, TEXT_NULL), text)


def _float(column: pa.Array) -> pa.Array:
    if _is_text(column.type):
        return text_to_number(column.cast(pa.string()))
    if pa.types.is_temporal(column.type):
        return _refuse(column.type)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    numbers = column.cast(pa.float64(), safe=False)
    nan = pc.is_nan(numbers)
    return _null_where(nan, numbers) if pc.any(nan).as_py() else numbers


def _integer(column: pa.Array) -> pa.Array:
    if _is_text(column.type):
        return text_to_integer(column.cast(pa.string()))
    if pa.types.is_temporal(column.type):
        return _refuse(column.type)
    if pa.types.is_uint64(column.type):
        return column.view(pa.int64())  # the upper half wraps: still one id for each value
    if pa.types.is_floating(column.type):
        column = _null_where(pc.is_nan(column), column)
    return column.cast(pa.int64())


def _time(column: pa.Array) -> pa.Array:
    if _is_text(column.type):
        column = blank_is_null(column.cast(pa.string())).cast(pa.timestamp("us"))
    if pa.types.is_time(column.type):
        column = column.cast(pa.time64("us")).cast(pa.int64()).cast(pa.timestamp("us"))
    elif pa.types.is_null(column.type) or pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s"))
    elif not pa.types.is_timestamp(column.type):
        return _refuse(column.type)
    return pc.floor_temporal(column, unit="second").cast(pa.timestamp("s", column.type.tz)).cast(pa.int64())


def _boolean(column: pa.Array) -> pa.Array:
    integers = _integer(column)
    if pc.all(pc.is_in(integers.drop_null(), value_set=pa.array([0, 1]))).as_py() is False:
        return _refuse(column.type)
    return integers


_CONVERTERS: dict[Kind, Converter] = {
    "float": _float,
    "integer": _integer,
    "text": _text,
    "time": _time,
    "boolean": _boolean,
}
