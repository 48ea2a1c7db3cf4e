import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from sqlflow_elastic.errors import DataError
from sqlflow_elastic.models.features import Field, Kind
from sqlflow_elastic.models.features.raw import Rows, kind_of

UTC = datetime.UTC


@pytest.mark.parametrize(
    ("arrow", "kind"),
    [
        (pa.int8(), "integer"),
        (pa.uint64(), "integer"),
        (pa.float32(), "float"),
        (pa.decimal128(10, 2), "float"),
        (pa.decimal128(10, 0), "integer"),
        (pa.decimal128(30, 0), "float"),
        (pa.bool_(), "boolean"),
        (pa.string(), "text"),
        (pa.large_string(), "text"),
        (pa.dictionary(pa.int32(), pa.string()), "text"),
        (pa.date32(), "time"),
        (pa.timestamp("us", "UTC"), "time"),
        (pa.time64("us"), "time"),
        (pa.null(), "text"),
        (pa.list_(pa.int64()), None),
        (pa.duration("s"), None),
    ],
)
def test_kinds(arrow: pa.DataType, kind: Kind | None) -> None:
    assert kind_of(arrow) == kind


def values(array: pa.Array, kind: Kind) -> list[Any]:
    converted: list[Any] = Rows(pa.record_batch({"x": array})).values(Field("x", kind)).to_pylist()
    return converted


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        (pa.array([1, None], pa.int32()), "float", [1.0, None]),
        (pa.array([1.5, float("nan"), None]), "float", [1.5, None, None]),
        (pa.array([decimal.Decimal("0.25"), None]), "float", [0.25, None]),
        (pa.array([True, None]), "float", [1.0, None]),
        (pa.array([" 1e3", "+2", "-.5", "", None]), "float", [1000.0, 2.0, -0.5, None, None]),
        (pa.array([2**63 + 1], pa.uint64()), "float", [2.0**63]),
        (pa.array([1.0, None, float("nan")]), "integer", [1, None, None]),
        (pa.array([2**60 + 1, None]), "integer", [2**60 + 1, None]),
        (pa.array([2**63 + 1, 5], pa.uint64()), "integer", [-(2**63) + 1, 5]),
        (pa.array([decimal.Decimal("7")]), "integer", [7]),
        (pa.array([" 7", "+8", ""]), "integer", [7, 8, None]),
        (pa.array([True, False, None]), "boolean", [1, 0, None]),
        (pa.array([1, 0, None]), "boolean", [1, 0, None]),
        (pa.array([None, None], pa.null()), "boolean", [None, None]),
        (pa.array(["男", "", "\\N", None]), "text", ["男", "", None, None]),
        (pa.array([b"a"]), "text", ["a"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "text", ["a", "b", "a"]),
        (pa.array([7, None]), "text", ["7", None]),
        (pa.array([datetime.date(1970, 1, 2), None]), "time", [86_400, None]),
        (pa.array([datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000)]), "time", [-1]),
        (pa.array([datetime.datetime(1970, 1, 1, 1, tzinfo=UTC)]), "time", [3600]),
        (pa.array([datetime.time(1, 0, 1)]), "time", [3601]),
        (pa.array(["1970-01-02", "1970-01-01 00:00:05", ""]), "time", [86_400, 5, None]),
        (pa.array([None], pa.null()), "time", [None]),
    ],
)
def test_values_of_any_type_that_converts(array: pa.Array, kind: Kind, expected: list[Any]) -> None:
    assert values(array, kind) == expected


@pytest.mark.parametrize(
    ("array", "kind", "message"),
    [
        (["1", "x"], "float", "row 102: field 'x' is 'x', expected a number"),
        (["1", "1,5"], "float", "row 102: field 'x' is '1,5', expected a number"),
        ([datetime.date(2020, 1, 1)], "float", "row 101: field 'x' is 2020-01-01, expected a number"),
        ([1.0, 1.5], "integer", "row 102: field 'x' is 1.5, expected a whole number of 64 bits"),
        ([1, 2], "boolean", "row 102: field 'x' is 2, expected true or false"),
        ([1.5], "text", "row 101: field 'x' is 1.5, expected a text"),
        ([None, 7], "time", "row 102: field 'x' is 7, expected a date or a time"),
        (["2020-13-01"], "time", "row 101: field 'x' is '2020-13-01', expected a date or a time"),
        ([[1]], "float", "row 101: field 'x' is [1], expected a number"),
    ],
)
def test_wrong_values_are_named(array: list[Any], kind: Kind, message: str) -> None:
    with pytest.raises(DataError) as error:
        Rows(pa.record_batch({"x": array}), first_row=100).values(Field("x", kind))
    assert str(error.value) == message


def test_a_field_that_is_there_twice_is_named() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    with pytest.raises(DataError, match="the rows have 2 fields 'x'"):
        Rows(twice).values(Field("x", "float"))


def test_a_missing_field_is_named() -> None:
    with pytest.raises(DataError, match="the rows have no field 'y'"):
        Rows(pa.record_batch({"x": [1]})).values(Field("y", "float"))
