import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sqlflow_elastic.errors import DataError
from sqlflow_elastic.models.features import (
    Bucket,
    CategoryHash,
    CategoryId,
    ClassLabel,
    Column,
    Cross,
    Dense,
    Embedding,
    Encoder,
    Indicator,
    Kind,
    NumberLabel,
    SeqCategoryId,
    Sparse,
    TimeParts,
    Vocabulary,
    WeightedCategory,
)
from sqlflow_elastic.models.features.layers import SplitTime
from sqlflow_elastic.models.features.statistics import learn
from tests.models.features.rows import Data, encoded, encoder_of, fields_of


def farm_hash(value: str, n: int) -> int:
    """TensorFlow's hash of a text: FarmHash's fingerprint, the same in every process."""
    return int(tf.strings.to_hash_bucket_fast(value, n))


def test_numbers_are_standardised_and_null_is_the_mean() -> None:
    found = encoded(Dense("x"), {"x": "float"}, {"x": [1.0, None, 3.0]})
    assert found == {"numbers": [[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]}


def test_numbers_without_null_have_no_companion() -> None:
    assert encoded(Dense("x"), {"x": "integer"}, {"x": [1, 3]}) == {"numbers": [[-1.0], [1.0]]}


def test_a_constant_is_zero_and_stays_small_where_it_differs_later() -> None:
    encoder = encoder_of(Dense("x"), {"x": "float"}, pa.record_batch({"x": [0.1, 0.1, 0.1]}))
    found = encoder.encode(pa.record_batch({"x": [0.1, 1.1]}))["numbers"]
    np.testing.assert_allclose(found, [[0.0], [1.0]], atol=1e-9)


def test_numbers_as_they_are() -> None:
    assert encoded(Dense("x", normalize=False), {"x": "float"}, {"x": [1.5, 8.0, None]}) == {
        "numbers": [[1.5, 0.0], [8.0, 0.0], [4.75, 1.0]]
    }


def test_skewed_numbers_after_their_logarithm() -> None:
    values = np.expm1([0.0, 2.0] * 49 + [10.0, 11.0])
    logs = np.log1p(values)
    found = encoded(
        [Dense("x"), Dense("y")], {"x": "float", "y": "float"}, {"x": values.tolist(), "y": [0.0, 2.0] * 50}
    )
    expected = (11 - logs.mean()) / logs.std()
    assert found["numbers"][-1] == [1.0, pytest.approx(expected, abs=1e-3)]  # y first: x takes a logarithm


def test_numbers_far_from_those_of_training_stay_finite() -> None:
    encoder = encoder_of(Dense("x"), {"x": "float"}, pa.record_batch({"x": [1e-100, 2e-100]}))
    assert encoder.encode(pa.record_batch({"x": [1.0, -1.0]}))["numbers"].tolist() == [
        [pytest.approx(1e30)],
        [pytest.approx(-1e30)],
    ]


def test_large_numbers_keep_their_differences() -> None:
    found = encoded(Dense("x"), {"x": "integer"}, {"x": [1_700_000_000, 1_700_000_002]})
    assert found == {"numbers": [[-1.0], [1.0]]}


def test_lists_of_numbers() -> None:
    found = encoded(Dense("x", 2), {"x": "text"}, {"x": ["0,10", "2,30", None, "", "1,"]})
    rows = [[-np.sqrt(1.5), -1, 0], [np.sqrt(1.5), 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]]
    np.testing.assert_allclose(found["numbers"], rows, atol=1e-4)


def test_one_skewed_place_of_a_list() -> None:
    values = np.expm1([0.0, 2.0] * 49 + [10.0, 11.0])
    logs = np.log1p(values)
    found = encoded(Dense("x", 2), {"x": "text"}, {"x": [f"{value},{i % 2}" for i, value in enumerate(values)]})
    assert found["numbers"][-1] == [pytest.approx((11 - logs.mean()) / logs.std(), abs=1e-3), 1.0]


def test_time_parts() -> None:
    times = [datetime.datetime(2024, 1, 1, 6), None, datetime.datetime(2026, 1, 1, 18)]
    numbers = encoded(TimeParts("x"), {"x": "time"}, {"x": times})["numbers"]
    year, month, day, weekday, hour = numbers[0][0], numbers[0][1:3], numbers[0][3:5], numbers[0][5:7], numbers[0][7:9]
    assert year == -1.0
    assert month == [0.0, 1.0]
    assert day == [0.0, 1.0]
    assert weekday == [0.0, 1.0]  # a Monday
    assert hour == [1.0, 0.0]
    assert numbers[2][7:] == [-1.0, -0.0, 0.0]
    assert numbers[1] == [0.0] * 9 + [1.0]


def test_vocabulary() -> None:
    batch = pa.record_batch({"x": ["b", "a", None, "b", "", "男", "[UNK]"]})
    encoder = encoder_of(Indicator("x"), {"x": "text"}, batch)
    assert encoder.encode(batch)["ids"].ravel().tolist() == [2, 5, 0, 2, 3, 6, 4]
    assert encoder.encode(pa.record_batch({"x": ["new", "女"]}))["ids"].ravel().tolist() == [1, 1]
    assert encoder.layout.categories[Vocabulary("x")].rows == 7


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("integer", [2**60, -1, None, 2**60]),
        ("boolean", [True, False, None, True]),
        ("time", [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 2)]),
    ],
)
def test_vocabulary_of_other_kinds(kind: Kind, values: list[Any]) -> None:
    assert encoded(Indicator("x"), {"x": kind}, {"x": values})["ids"] == [[2], [3], [0], [2]]


def test_vocabulary_of_nothing() -> None:
    batch = pa.record_batch({"x": pa.array([None, None], pa.string())})
    encoder = encoder_of([Indicator("x")], {"x": "text"}, batch)
    assert encoder.encode(batch)["ids"].tolist() == [[0], [0]]
    assert encoder.encode(pa.record_batch({"x": ["a"]}))["ids"].tolist() == [[1]]


def test_buckets_hold_their_lower_boundary() -> None:
    column = Indicator(Bucket(Dense("x"), [0.1, 10, 20]))
    found = encoded(column, {"x": "float"}, {"x": [0.0, 0.1, 9.99, 10.0, 25.0, None]})
    assert found == {"ids": [[0], [1], [1], [2], [3], [4]]}
    assert encoded(Bucket("x", [1]), {"x": "integer"}, {"x": [0, 1]}) == {"ids": [[0], [1]]}
    assert encoded(Bucket(Dense("x"), [1]), {"x": "text"}, {"x": ["0.5", "1", None]}) == {"ids": [[0], [1], [2]]}


def test_null_that_training_never_saw_is_absent() -> None:
    columns = [Bucket("x", [1]), CategoryId("x", 9), CategoryHash("x", 9), Dense("x")]
    encoder = encoder_of(columns, {"x": "integer"}, pa.record_batch({"x": [1, 3]}))
    found = encoder.encode(pa.record_batch({"x": pa.array([None], pa.int64())}))
    assert (found["ids"].tolist(), found["numbers"].tolist()) == ([[-1, -1, -1]], [[0.0]])


def test_single_ids() -> None:
    assert encoded(CategoryId("x", 5), {"x": "integer"}, {"x": [0, 4, None]}) == {"ids": [[0], [4], [5]]}
    assert encoded(CategoryId(Dense("x"), 5), {"x": "integer"}, {"x": [0, 4]}) == {"ids": [[0], [4]]}
    assert encoded(CategoryId(Bucket("x", [1]), 2), {"x": "float"}, {"x": [0.5, 4]}) == {"ids": [[0], [1]]}


@pytest.mark.parametrize(
    "column",
    [
        CategoryId("x", 9),
        CategoryId(Sparse("x", 9), 9),
        CategoryId(Dense("x", 3, ","), 9),
        SeqCategoryId("x", 9),
        Sparse("x", 9),
    ],
)
def test_lists_of_ids(column: Column) -> None:
    found = encoded(Embedding(column, 2), {"x": "text"}, {"x": ["3,5,7", " 8 ", None, "", "1,,2"]})
    assert found == {"ids": [[3, 5, 7], [8, -1, -1], [-1, -1, -1], [-1, -1, -1], [1, 2, -1]]}


def test_lists_longer_than_any_of_training_are_cut() -> None:
    encoder = encoder_of(Embedding(CategoryId("x", 9), 2), {"x": "text"}, pa.record_batch({"x": ["1", "2"]}))
    assert encoder.encode(pa.record_batch({"x": ["3,4"]}))["ids"].tolist() == [[3]]


@pytest.mark.parametrize("delimiters", [(",", ":"), (";", "="), (" ", ":"), ("\t", "."), ("|", "->")])
def test_pairs_of_ids_and_weights(delimiters: tuple[str, str]) -> None:
    comma, colon = delimiters
    one = "0:2,1:3".replace(",", comma).replace(":", colon)
    sparse = Sparse("x", 5, comma, kv_delimiter=colon)
    for column in (sparse, Indicator(WeightedCategory(CategoryId(sparse, 5)))):
        found = encoded(column, {"x": "text"}, {"x": [one, None, "4:1".replace(":", colon)]})
        assert found["ids"] == [[0, 1], [-1, -1], [4, -1]]
        assert found["weights"] == [[2.0, 3.0], [0.0, 0.0], [1.0, 0.0]]


def test_hashes() -> None:
    data = {"x": ["a", "男", "", None]}
    expected = [[farm_hash(text, 100)] for text in ("a", "男", "")] + [[100]]
    assert encoded(CategoryHash("x", 100), {"x": "text"}, data) == {"ids": expected}
    found = encoded(Embedding(CategoryHash(Sparse("x", 1), 100), 2), {"x": "text"}, {"x": ["7,b", "7", None]})
    assert found == {"ids": [[farm_hash("7", 100), farm_hash("b", 100)], [farm_hash("7", 100), -1], [-1, -1]]}
    large = 2**60 + 1
    assert encoded(CategoryHash("x", 100), {"x": "integer"}, {"x": [large]}) == {"ids": [[farm_hash(str(large), 100)]]}
    assert encoded(CategoryHash(Bucket("x", [1]), 100), {"x": "float"}, {"x": [3.0]}) == {
        "ids": [[farm_hash("1", 100)]]
    }


def test_unsigned_ids_of_64_bits_stay_apart() -> None:
    batch = pa.record_batch({"x": pa.array([2**64 - 1, 2**64 - 2, 1], pa.uint64())})
    ids = encoder_of(Vocabulary("x"), {"x": "integer"}, batch).encode(batch)["ids"]
    assert len(set(ids.ravel().tolist())) == 3


def test_crosses_combine_and_null_is_a_value_like_others() -> None:
    column = Embedding(Cross(["a", Bucket(Dense("b"), [1, 2])], 1_000_000), 8)
    data: Data = {"a": ["x", "x", "y", "x", None, None], "b": [0.0, 5.0, 0.0, 0.5, 0.0, 0.0]}
    ids = [row[0] for row in encoded(column, {"a": "text", "b": "float"}, data)["ids"]]
    assert ids[0] == ids[3]
    assert ids[4] == ids[5]
    assert len(set(ids)) == 4
    assert all(0 <= i < 1_000_000 for i in ids)


def test_crosses_of_lists_have_all_pairs() -> None:
    column = Cross(["a", CategoryId("b", 9)], 1_000_000)
    ids = encoded(column, {"a": "text", "b": "text"}, {"a": ["x", "y", "x"], "b": ["1,2", "1", None]})["ids"]
    assert ids[2] == [-1, -1]
    assert ids[1][1] == -1
    assert len({*ids[0], ids[1][0]}) == 3


def test_a_category_of_two_inputs_is_encoded_once() -> None:
    batch = pa.record_batch({"x": ["a", "b"]})
    columns: dict[str, list[Column]] = {"wide": [Indicator("x")], "deep": [Embedding("x", 4)]}
    fields = fields_of({"x": "text"})
    statistics = learn([column for group in columns.values() for column in group], fields, None, [batch])
    assert Encoder(columns, fields, statistics).encode(batch)["ids"].shape == (2, 1)


def test_fields_are_found_by_name_and_may_have_another_type() -> None:
    columns = [Dense("a"), CategoryId("b", 9), CategoryHash("c", 9)]
    encoder = encoder_of(
        columns,
        {"a": "float", "b": "integer", "c": "text"},
        pa.record_batch({"a": [1.0, 3.0], "b": [1, 2], "c": ["x", "y"]}),
    )
    here = encoder.encode(pa.record_batch({"a": [1.0], "b": [1], "c": ["x"]}))
    moved = pa.record_batch({"c": pa.array(["x"]).dictionary_encode(), "other": [0], "b": [1.0], "a": ["1"]})
    assert all((here[name] == array).all() for name, array in encoder.encode(moved).items())


@pytest.mark.parametrize(
    ("column", "kind", "good", "bad", "message"),
    [
        (Dense("x"), "float", [1.0, 2.0], ["x"], "row 8: field 'x' is 'x', expected a number"),
        (Dense("x"), "float", [1.0, 2.0], [float("-inf")], "row 8: field 'x' is -inf, expected a finite number"),
        (Dense("x", 2), "text", ["1,2"], ["1"], "row 8: field 'x' is '1', expected 2 numbers separated by ','"),
        (CategoryId("x", 3), "integer", [1], [3], "row 8: field 'x' is 3, expected an id from 0 to 2"),
        (CategoryId("x", 3), "text", ["1"], ["1,4"], "row 8: field 'x' is '1,4', expected ids from 0 to 2"),
        (CategoryId("x", 3), "integer", [1], [0.5], "row 8: field 'x' is 0.5, expected a whole number of 64 bits"),
        (Dense("x"), "float", [1.0, 2.0], None, "the rows have no field 'x'"),
    ],
)
def test_wrong_values_are_named(
    column: Column, kind: Kind, good: list[Any], bad: list[Any] | None, message: str
) -> None:
    encoder = encoder_of(column, {"x": kind}, pa.record_batch({"x": good}))
    batch = pa.record_batch({"y": [1]} if bad is None else {"x": [None, None, *bad]})
    with pytest.raises(DataError) as error:
        encoder.encode(batch, first_row=5)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("kind", "values", "label"),
    [
        ("text", ["b", "a", "男"], ClassLabel("y")),
        ("integer", [7, -1, 3], ClassLabel("y")),
        ("boolean", [True, False, True], ClassLabel("y")),
        ("float", [1.0, 0.0, 1.0], ClassLabel("y")),
        ("integer", [0, 2, 1], ClassLabel("y", [2, 1, 0])),
    ],
)
def test_class_labels_there_and_back(kind: Kind, values: list[Any], label: ClassLabel) -> None:
    batch = pa.record_batch({"x": [1.0, 2.0, 3.0], "y": values})
    encoder = encoder_of(Dense("x"), {"x": "float", "y": kind}, batch, label)
    indices = encoder.encode_label(batch)
    assert indices.dtype == np.int32
    assert indices.tolist() == [(label.classes or sorted(set(values))).index(value) for value in values]
    decoded = encoder.decode_label(indices).to_pylist()
    assert decoded == values
    assert [type(value) for value in decoded] == [type(value) if kind != "float" else int for value in values]


def test_labels_that_training_never_saw_are_named() -> None:
    batch = pa.record_batch({"x": [1.0, 2.0], "y": ["a", "b"]})
    encoder = encoder_of(Dense("x"), {"x": "float", "y": "text"}, batch, ClassLabel("y"))
    with pytest.raises(DataError, match="row 1: field 'y' is 'c', expected a class out of 'a', 'b'"):
        encoder.encode_label(pa.record_batch({"y": ["c"]}))


def test_number_labels() -> None:
    batch = pa.record_batch({"x": [1.0, 2.0], "y": [0.5, 3.0]})
    found = encoder_of(Dense("x"), {"x": "float", "y": "float"}, batch, NumberLabel("y")).encode_label(batch)
    assert (found.dtype.name, found.tolist()) == ("float32", [0.5, 3.0])
    batch = pa.record_batch({"x": [1.0, 2.0], "y": ["1,2", "3,4"]})
    found = encoder_of(Dense("x"), {"x": "float", "y": "text"}, batch, NumberLabel("y", 2)).encode_label(batch)
    assert found.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(ValueError, match="no label"):
        encoder_of(Dense("x"), {"x": "float"}, batch).encode_label(batch)


def test_batches_longer_than_a_chunk() -> None:
    batch = pa.record_batch({"x": np.arange(70_000.0), "t": [str(i % 3) for i in range(70_000)]})
    encoder = encoder_of([Dense("x"), Indicator("t")], {"x": "float", "t": "text"}, batch)
    whole, end = encoder.encode(batch), encoder.encode(batch.slice(65_000))
    assert all((array[65_000:] == end[name]).all() for name, array in whole.items())
    assert {name: array.shape for name, array in encoder.encode(batch.slice(0, 0)).items()} == {
        "numbers": (0, 1),
        "ids": (0, 1),
    }


KINDS: dict[str, Kind] = {
    "f": "float",
    "t": "text",
    "ids": "text",
    "kv": "text",
    "csv": "text",
    "i": "integer",
    "d": "time",
}
EVERY = [
    Dense("f"),
    Dense("csv", 2),
    TimeParts("d"),
    Indicator("t"),
    Embedding("i", 3),
    Embedding(CategoryHash("t", 10), 3),
    Embedding(CategoryId("ids", 100), 4, "mean"),
    Indicator(WeightedCategory(Sparse("kv", 5, kv_delimiter=":"))),
    Embedding(Cross(["t", Bucket(Dense("f"), [1, 2])], 100), 8),
    Embedding(Cross(["i", CategoryId("ids", 100)], 100), 8, "sqrtn"),
]
OPTIONAL = {
    "f": st.none() | st.floats(-1e9, 1e9),
    "t": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    "ids": st.none() | st.lists(st.integers(0, 99), max_size=4).map(lambda ids: ",".join(map(str, ids))),
    "kv": st.none() | st.dictionaries(st.integers(0, 4), st.integers(-9, 9), max_size=4).map(
        lambda pairs: ",".join(f"{key}:{value}" for key, value in pairs.items())
    ),
    "csv": st.none() | st.tuples(*[st.sampled_from(["", "1", "-2.5", "1e3"])] * 2).map(",".join),
    "i": st.none() | st.integers(-(2**63) + 2, 2**63 - 1),
    "d": st.none() | st.dates(datetime.date(1, 1, 1)),
}  # fmt: skip
TYPES = {"f": pa.float64(), "i": pa.int64(), "d": pa.date32()}
ROWS = st.lists(st.fixed_dictionaries(OPTIONAL), min_size=1, max_size=20)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    arrays = {name: pa.array([row[name] for row in rows], TYPES.get(name, pa.string())) for name in KINDS}
    return pa.record_batch(arrays)


@settings(max_examples=15, deadline=None, phases=[Phase.reuse, Phase.generate])  # shrinking builds thousands of models
@given(training=ROWS, rows=ROWS)
def test_encoding_is_what_the_exported_layers_compute(
    training: list[dict[str, Any]], rows: list[dict[str, Any]]
) -> None:
    encoder = encoder_of(EVERY, KINDS, batch_of(training))
    batch = batch_of(rows)
    exported = encoder.model(encoder.raw_tensors(batch))
    found = encoder.encode(batch)
    assert found.keys() == exported.keys() == encoder.layout.arrays.keys()
    for name, array in found.items():
        np.testing.assert_allclose(array, exported[name].numpy(), rtol=1e-6, atol=1e-6)
        assert np.isfinite(array).all()
    for places in encoder.layout.categories.values():
        ids = found["ids"][:, places.ids]
        assert ids.min() >= -1
        assert ids.max() < places.rows


@settings(max_examples=200, deadline=None)
@given(st.datetimes(datetime.datetime(1600, 1, 1), datetime.datetime(2400, 1, 1)))
def test_the_calendar_is_pythons(time: datetime.datetime) -> None:
    seconds = (time - datetime.datetime(1970, 1, 1)) // datetime.timedelta(seconds=1)
    cycles = [(time.month - 1, 12), (time.day - 1, 31), (time.weekday(), 7), (seconds % 86_400 / 3600, 24)]
    expected = [
        part for at, period in cycles for part in (np.sin(2 * np.pi * at / period), np.cos(2 * np.pi * at / period))
    ]
    np.testing.assert_allclose(SplitTime()(tf.constant([seconds], tf.int64))[0, 1:], expected, atol=1e-9)
