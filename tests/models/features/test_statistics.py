import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlflow_elastic.errors import DataError
from sqlflow_elastic.models.features import (
    CategoryHash,
    CategoryId,
    ClassLabel,
    Column,
    Dense,
    Embedding,
    Field,
    Indicator,
    Kind,
    Label,
    NumberLabel,
    Sparse,
    TimeParts,
    Vocabulary,
    WeightedCategory,
)
from sqlflow_elastic.models.features.statistics import Statistics, learn
from tests.models.features.rows import fields_of

KV = Sparse("x", 5, kv_delimiter=":")


def learned(columns: list[Column], kind: Kind, *values: list[Any], label: Label | None = None) -> Statistics:
    """From batches of one field ``x``."""
    return learn(columns, [Field("x", kind)], label, [pa.record_batch({"x": batch}) for batch in values])


def test_numbers() -> None:
    found = learned([Dense("x")], "float", [1.0, None], [3.0, 8.0]).numbers['Dense("x")']
    assert (found.missing, found.mean, found.minimum, found.maximum) == (1, (4.0,), (1.0,), (8.0,))
    assert found.deviation == pytest.approx([np.std([1, 3, 8])])
    assert found.logarithmic == (False,)


def test_lists_of_numbers_have_statistics_for_each_place() -> None:
    found = learned([Dense("x", 2)], "text", ["1,10", None], ["3,"]).numbers['Dense("x", shape=2)']
    assert (found.missing, found.mean, found.deviation) == (2, (2.0, 10.0), (1.0, 0.0))


def test_a_column_of_nulls_only_has_statistics() -> None:
    found = learned([Dense("x")], "float", [None, None]).numbers['Dense("x")']
    assert (found.missing, found.mean, found.deviation, found.minimum) == (2, (0.0,), (0.0,), (0.0,))


def test_large_numbers_keep_their_deviation() -> None:
    values = [1e9 + i % 2 for i in range(1000)]
    found = learned([Dense("x")], "float", values[:300], values[300:]).numbers['Dense("x")']
    assert found.deviation == pytest.approx([0.5], rel=1e-6)


def test_extremely_skewed_numbers_take_a_logarithm() -> None:
    """As debt ratios do, where 0.3 and 5710 stand side by side."""
    values = [0.3, 0.5, 0.1, 0.4] * 50 + [5710.0, *[50.0, 230.0, 1000.0] * 4]
    found = learned([Dense("x")], "float", values).numbers['Dense("x")']
    assert found.logarithmic == (True,)
    assert found.mean == pytest.approx([np.log1p(values).mean()])
    assert found.deviation == pytest.approx([np.log1p(values).std()])
    as_it_is = learned([Dense("x", normalize=False)], "float", values)
    assert not as_it_is.numbers['Dense("x", normalize=False)'].logarithmic[0]


def test_vocabulary_is_ordered_by_frequency_then_value() -> None:
    batches = ["b", "a", None], ["c", "a", "b", "", "男"]
    found = learned([Indicator("x")], "text", *batches)
    assert found.vocabularies == {'Vocabulary("x")': ("a", "b", "", "c", "男")}
    assert found.nulls == {"x": 1}
    capped = learned([Vocabulary("x", 2)], "text", *batches)
    assert list(capped.vocabularies.values()) == [("a", "b")]


def test_a_vocabulary_of_too_many_values_keeps_the_frequent_ones_in_bounded_memory() -> None:
    batches = [["often", *(f"{i}-{j}" for j in range(100))] for i in range(50)]
    found = learned([Vocabulary("x", 10)], "text", *batches)
    assert next(iter(found.vocabularies.values()))[0] == "often"


def test_longest_lists() -> None:
    found = learned([Embedding(CategoryId("x", 9), 4)], "text", ["1,2", None, ""], [" 3 , 4,5,"])
    assert found.lengths == {'Sparse("x", 9)': 3}
    assert learned([WeightedCategory(KV)], "text", ["0:0.5, 1:2", ""]).lengths == {repr(KV): 2}


def test_classes() -> None:
    found = learned([], "text", ["b", "a"], ["b"], label=ClassLabel("x"))
    assert (found.classes, found.class_counts) == (("a", "b"), (1, 2))
    found = learned([], "integer", [2, 0, 2], label=ClassLabel("x", [2, 1, 0]))
    assert (found.classes, found.class_counts) == ((2, 1, 0), (2, 0, 1))
    found = learned([], "boolean", [True, False], label=ClassLabel("x"))
    assert found.classes == (False, True)
    assert learned([], "float", [1.0, 0.0], label=ClassLabel("x")).classes == (0, 1)
    assert learned([], "integer", [1, 0], label=ClassLabel("x", ["0", "1"])).classes == ("0", "1")


def test_number_label() -> None:
    found = learned([], "float", [1.0], [3.0], label=NumberLabel("x"))
    assert (found.label_mean, found.label_deviation) == ((2.0,), (1.0,))
    assert learned([], "text", ["1,2"], ["3,6"], label=NumberLabel("x", 2)).label_mean == (2.0, 4.0)


@pytest.mark.parametrize(
    ("column", "kind", "values", "message"),
    [
        (Dense("x"), "float", ["1", "n/a"], "row 3: field 'x' is 'n/a', expected a number"),
        (Dense("x"), "text", ["1", "n/a"], "row 3: field 'x' is 'n/a', expected a number"),
        (Dense("x"), "float", [1.0, float("inf")], "row 3: field 'x' is inf, expected a finite number"),
        (Dense("x", 2), "text", ["1,2", "1,2,3"], "row 3: field 'x' is '1,2,3', expected 2 numbers separated by ','"),
        (Dense("x", 2, ";"), "text", ["1;2", "1;b"], "row 3: field 'x' is '1;b', expected 2 numbers separated by ';'"),
        (CategoryId("x", 3), "integer", [2, 3], "row 3: field 'x' is 3, expected an id from 0 to 2"),
        (CategoryId("x", 3), "integer", [0, -1], "row 3: field 'x' is -1, expected an id from 0 to 2"),
        (CategoryId("x", 3), "text", ["0,2", "1,3"], "row 3: field 'x' is '1,3', expected ids from 0 to 2"),
        (CategoryId("x", 3), "text", ["0", "-1"], "row 3: field 'x' is '-1', expected ids from 0 to 2"),
        (CategoryId("x", 3), "text", ["0", "1,b"], "row 3: field 'x' is '1,b', expected ids from 0 to 2"),
        (Sparse("x", 3), "text", ["0", "9" * 30], f"row 3: field 'x' is '{'9' * 30}', expected ids from 0 to 2"),
        (KV, "text", ["0:1", "1"], "row 3: field 'x' is '1', expected pairs of an id and a number like '3:0.5'"),
        (KV, "text", ["0:1", "1:"], "row 3: field 'x' is '1:', expected pairs of an id and a number like '3:0.5'"),
        (KV, "text", ["0:1", "1:b"], "row 3: field 'x' is '1:b', expected pairs of an id and a number like '3:0.5'"),
        (KV, "text", ["0:1", "5:1"], "row 3: field 'x' is '5:1', expected ids from 0 to 4"),
        (TimeParts("x"), "time", ["2020-01-01", "soon"], "row 3: field 'x' is 'soon', expected a date or a time"),
    ],
)
def test_wrong_values(column: Column, kind: Kind, values: list[Any], message: str) -> None:
    with pytest.raises(DataError) as error:
        learned([column], kind, values[:1], values)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("label", "kind", "values", "message"),
    [
        (ClassLabel("x"), "text", ["a", None], "row 2: field 'x' is NULL, expected a class"),
        (ClassLabel("x", [0, 1]), "integer", [0, None], "row 2: field 'x' is NULL, expected a class out of 0, 1"),
        (ClassLabel("x", [0, 1]), "integer", [0, 2], "row 2: field 'x' is 2, expected a class out of 0, 1"),
        (ClassLabel("x", ["a", "b"]), "text", ["a", "c"], "row 2: field 'x' is 'c', expected a class out of 'a', 'b'"),
        (ClassLabel("x"), "float", [1.0, 0.5], "row 2: field 'x' is 0.5, expected a whole number of 64 bits"),
        (ClassLabel("x"), "integer", [7, 7], "label 'x' is 7 in all rows, expected at least two classes to tell apart"),
        (ClassLabel("x"), "boolean", [True, True],
         "label 'x' is True in all rows, expected at least two classes to tell apart"),
        (ClassLabel("x"), "integer", list(range(10_001)),
         "label 'x' has more than 10000 different values, too many classes"),
        (NumberLabel("x"), "float", [1.0, None], "row 2: field 'x' is NULL, expected a number"),
        (NumberLabel("x"), "float", [1.0, float("inf")], "row 2: field 'x' is inf, expected a number"),
        (NumberLabel("x"), "text", ["1", "b"], "row 2: field 'x' is 'b', expected a number"),
        (NumberLabel("x", 2), "text", ["1,2", "1"], "row 2: field 'x' is '1', expected 2 numbers separated by ','"),
        (NumberLabel("x", 2), "text", ["1,2", "1,"], "row 2: field 'x' is '1,', expected numbers"),
    ],
)  # fmt: skip
def test_wrong_labels(label: Label, kind: Kind, values: list[Any], message: str) -> None:
    with pytest.raises(DataError) as error:
        learned([], kind, values, label=label)
    assert str(error.value) == message


def test_no_rows() -> None:
    with pytest.raises(DataError, match="there are no rows to learn from"):
        learned([Dense("x")], "float", [])


FIELDS = fields_of({"f": "float", "t": "text", "ids": "text", "i": "integer", "y": "integer"})
COLUMNS: list[Column] = [
    Dense("f"),
    Indicator("t"),
    Embedding(CategoryId("ids", 100), 4),
    Embedding(CategoryHash("i", 10), 4),
]
ROWS = st.lists(
    st.tuples(
        st.none() | st.floats(-1e6, 1e6),
        st.none() | st.text(max_size=3),
        st.none() | st.lists(st.integers(0, 99), max_size=4).map(lambda ids: ",".join(map(str, ids))),
        st.none() | st.integers(-(2**62), 2**62),
        st.integers(0, 3),
    ),
    min_size=2,
    max_size=40,
)


def batch_of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    types = [pa.float64(), pa.string(), pa.string(), pa.int64(), pa.int64()]
    columns = [pa.array(values, t) for values, t in zip(zip(*rows, strict=True), types, strict=True)]
    return pa.record_batch(columns, [field.name for field in FIELDS])


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, data=st.data())
def test_pieces_teach_what_all_rows_at_once_teach(rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    label = ClassLabel("y", [0, 1, 2, 3])
    if len({row[-1] for row in rows}) < 2:
        rows = [*rows, (None, None, None, None, (rows[0][-1] + 1) % 4)]
    whole = learn(COLUMNS, FIELDS, label, [batch_of(rows)])
    cut = data.draw(st.integers(1, len(rows) - 1))
    pieces = learn(COLUMNS, FIELDS, label, [batch_of(rows[:cut]), batch_of(rows[cut:])])
    one, other = (s.numbers.pop('Dense("f")') for s in (whole, pieces))
    assert whole == pieces
    assert (one.missing, one.minimum, one.maximum) == (other.missing, other.minimum, other.maximum)
    if one.logarithmic == other.logarithmic:  # rounding decides at the threshold
        assert one.mean == pytest.approx(other.mean, rel=1e-9, abs=1e-6)
        assert one.deviation == pytest.approx(other.deviation, rel=1e-6, abs=1e-4)


def test_json_round_trip() -> None:
    rows = [(1.5, "男", "1,2", 2**60, 0), (None, None, None, None, 1)]
    found = learn(COLUMNS, FIELDS, ClassLabel("y"), [batch_of(rows)])
    assert Statistics.from_json(json.loads(json.dumps(found.to_json()))) == found
