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
ARROW_TYPES: dict[Kind, pa.DataType] = {
    "float": pa.float64(),
    "integer": pa.int64(),
    "text": pa.string(),
    "time": pa.int64(),
    "boolean": pa.int64(),
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
            index = self._batch.schema.get_field_index(field.name)
            if index < 0:
                raise DataError(f"the rows have no field '{field.name}'")
            self._values[key] = self._convert(self._batch.column(index), field)
        return self._values[key]

    def require(self, valid: pa.Array, field: Field, expected: str, shown: pa.Array | None = None) -> None:
        """Raise the `DataError` of the first row whose ``valid`` is false or NULL.

        Args:
            valid: a boolean for each row.
            field: the field the values are of.
            expected: what would be right: "a number".
            shown: what to show as the value; the field's column by default.
        """
        valid = pc.fill_null(valid, False)
        index = pc.index(valid, False).as_py()
        if index >= 0:
            shown = self._batch.column(self._batch.schema.get_field_index(field.name)) if shown is None else shown
            value = shown[index].as_py()
            text = "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)
            row = self._first_row + index + 1
            raise DataError(f"row {row}: field '{field.name}' is {text}, expected {expected}")

    def _convert(self, column: pa.Array, field: Field) -> pa.Array:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_null(column.type):
            return column.cast(ARROW_TYPES[field.kind])
        try:
            converted = _CONVERTERS[field.kind](column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            self._show_wrong(column, field)
            raise
        if converted is None:
            self._show_wrong(column, field)
        return converted

    def _show_wrong(self, column: pa.Array, field: Field) -> None:
        """Raise for the first value that does not convert by itself."""

        def converts(value: pa.Array) -> bool:
            try:
                return value.null_count == 1 or _CONVERTERS[field.kind](value) is not None
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return False

        valid = pa.array([converts(column.slice(i, 1)) for i in range(len(column))], pa.bool_())
        self.require(valid, field, EXPECTED[field.kind])


def _is_text(arrow: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(arrow)
        or types.is_large_string(arrow)
        or types.is_string_view(arrow)
        or types.is_binary(arrow)
        or types.is_large_binary(arrow)
    )


def _text(column: pa.Array) -> pa.Array | None:
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
        return None
    text = column.cast(pa.string())
    return pc.if_else(pc.equal(text, TEXT_NULL), pa.scalar(None, text.type), text)


def blank_is_null(text: pa.Array) -> pa.Array:
    """The texts without spaces around them; NULL for those of nothing else."""
    text = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), text)


def text_to_number(text: pa.Array) -> pa.Array:
    """Numbers written as text, as float64; blank ones are NULL. Raises: pa.ArrowInvalid."""
    text = blank_is_null(text)
    if pc.all(pc.match_substring_regex(text, NUMBER)).as_py() is False:
        raise pa.ArrowInvalid("not a number")
    return pc.utf8_ltrim(text, "+").cast(pa.float64())


def text_to_integer(text: pa.Array) -> pa.Array:
    """Whole numbers written as text, as int64; blank ones are NULL. Raises: pa.ArrowInvalid."""
    text = blank_is_null(text)
    if pc.all(pc.match_substring_regex(text, INTEGER)).as_py() is False:
        raise pa.ArrowInvalid("not a whole number")
    return pc.utf8_ltrim(text, "+").cast(pa.int64())


def _float(column: pa.Array) -> pa.Array | None:
    if _is_text(column.type):
        return text_to_number(column.cast(pa.string()))
    if pa.types.is_temporal(column.type):
        return None
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column) if _has_nan(column) else column
        return column.cast(pa.float64())
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return column.cast(pa.float64(), safe=False)


def _has_nan(column: pa.Array) -> bool:
    return bool(pc.any(pc.is_nan(column)).as_py())


def _integer(column: pa.Array) -> pa.Array | None:
    if _is_text(column.type):
        return text_to_integer(column.cast(pa.string()))
    if pa.types.is_uint64(column.type):
        return column.view(pa.int64())  # the upper half wraps: still one id for each value
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    if pa.types.is_temporal(column.type):
        return None
    return column.cast(pa.int64())


def _time(column: pa.Array) -> pa.Array | None:
    if _is_text(column.type):
        column = blank_is_null(column.cast(pa.string())).cast(pa.timestamp("us"))
    if pa.types.is_time(column.type):
        ticks = column.cast(pa.time64("ns")).cast(pa.int64())
        return pc.divide(ticks, 1_000_000_000)
    if not pa.types.is_temporal(column.type):
        return None
    return (
        pc.floor_temporal(column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None))), unit="second")
        .cast(pa.timestamp("s", tz=getattr(column.type, "tz", None)))
        .cast(pa.int64())
    )


def _boolean(column: pa.Array) -> pa.Array | None:
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int64())
    integers = _integer(column)
    if integers is None or pc.all(pc.is_in(integers, value_set=pa.array([0, 1]))).as_py() is False:
        return None if integers is None or integers.null_count < len(integers) else integers
    return integers


_CONVERTERS: dict[Kind, Callable[[pa.Array], pa.Array | None]] = {
    "float": _float,
    "integer": _integer,
    "text": _text,
    "time": _time,
    "boolean": _boolean,
}
