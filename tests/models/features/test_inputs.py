from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from sqlflow_elastic.models.features import (
    Bucket,
    CategoryHash,
    CategoryId,
    Cross,
    Dense,
    Embedding,
    FeatureInputs,
    Indicator,
    Kind,
    SeqCategoryId,
    Sparse,
    WeightedCategory,
)
from sqlflow_elastic.models.features.columns import INITIALIZERS
from sqlflow_elastic.models.features.embedding import EmbeddingBag, MultiHot
from tests.models.features.rows import encoder_of

IDS = np.array([[0, 2, 2], [1, -1, -1], [-1, -1, -1]], np.int32)
WEIGHTS = np.array([[0.5, 2.0, 1.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]], np.float32)
TABLE = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]], np.float32)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    ("combiner", "weighted", "expected"),
    [
        ("sum", False, [9, 2, 0]),
        ("mean", False, [3, 2, 0]),
        ("sqrtn", False, [9 / np.sqrt(3), 2, 0]),
        ("sum", True, [12.5, 6, 0]),
        ("mean", True, [12.5 / 3.5, 2, 0]),
        ("sqrtn", True, [12.5 / np.sqrt(0.25 + 4 + 1), 2, 0]),
        (None, False, [[1, 4, 4], [2, 0, 0], [0, 0, 0]]),
    ],
)
def test_embeddings_are_combined(combiner: str | None, weighted: bool, expected: Any, jit: bool) -> None:
    bag = EmbeddingBag(3, 2, combiner)
    arguments = (IDS, WEIGHTS) if weighted else (IDS,)
    bag(*arguments)
    bag.table.assign(TABLE)
    found = tf.function(bag, jit_compile=jit)(*arguments)
    np.testing.assert_allclose(found[..., 0], expected, rtol=1e-6)
    np.testing.assert_allclose(found[..., 1], 10 * np.array(expected), rtol=1e-6)


def test_an_embeddings_gradient_names_the_rows_it_looked_up() -> None:
    bag = EmbeddingBag(1000, 2)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(bag(np.array([[7], [9]], np.int32)))
    gradient = tape.gradient(loss, bag.table.value)
    assert isinstance(gradient, tf.IndexedSlices)
    assert gradient.indices.numpy().tolist() == [7, 9]


def test_embeddings_start_as_wide_as_tensorflows() -> None:
    bag = EmbeddingBag(10_000, 16)
    bag(np.array([[0]], np.int32))
    table = bag.table.numpy()
    assert np.abs(table).max() <= 0.5
    assert table.std() == pytest.approx(0.25 * 0.88, rel=0.02)  # of a normal distribution cut at two deviations


@pytest.mark.parametrize("initializer", sorted(INITIALIZERS))
def test_initializers_of_the_language_are_keras_ones(initializer: str) -> None:
    assert EmbeddingBag(4, 2, "sum", initializer)(np.array([[0]], np.int32)).shape == (1, 2)


@pytest.mark.parametrize("jit", [False, True])
def test_indicators_count(jit: bool) -> None:
    hot = tf.function(MultiHot(3), jit_compile=jit)
    assert hot(tf.constant(IDS)).numpy().tolist() == [[1, 0, 2], [0, 1, 0], [0, 0, 0]]
    assert hot(tf.constant(IDS[:, :1])).numpy().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    weighted = hot(tf.constant(IDS), tf.constant(WEIGHTS)).numpy()
    assert weighted.tolist() == [[0.5, 0, 3], [0, 3, 0], [0, 0, 0]]


KINDS: dict[str, Kind] = {"x": "float", "城市": "text", "kv": "text", "ids": "text"}
BATCH = pa.record_batch(
    {"x": [1.0, None, 3.0], "城市": ["a", None, "b"], "kv": ["0:2,1:3", "", None], "ids": ["1,2", "0", None]}
)
COLUMNS = [
    Dense("x"),
    Indicator("城市"),
    Indicator(WeightedCategory(Sparse("kv", 2, kv_delimiter=":"))),
    Embedding(SeqCategoryId("ids", 3), 2, "mean", "ones"),
]


def test_dense_has_all_columns_side_by_side() -> None:
    encoder = encoder_of(COLUMNS, KINDS, BATCH)
    inputs = FeatureInputs(encoder)
    found = inputs.model(inputs.dense())(encoder.encode(BATCH))
    assert found.numpy().tolist() == [
        [-1, 0, 0, 0, 1, 0, 2, 3, 1, 1],
        [0, 1, 1, 0, 0, 0, 0, 0, 1, 1],
        [1, 0, 0, 0, 0, 1, 0, 0, 0, 0],
    ]


def test_columns_by_name() -> None:
    encoder = encoder_of([*COLUMNS, Embedding("城市", 4), Cross(["城市", Bucket("x", [2])], 9)], KINDS, BATCH)
    inputs = FeatureInputs(encoder)
    columns = inputs.columns()
    assert {name: tensor.shape for name, tensor in columns.items()} == {
        "x": (None, 2),
        "城市": (None, 4),
        "kv": (None, 2),
        "ids": (None, 2, 2),
        "城市_2": (None, 4),
        "城市_x_x": (None, 9),
    }
    found = inputs.model(columns)(encoder.encode(BATCH))
    assert found["ids"].numpy().tolist() == [[[1, 1], [1, 1]], [[1, 1], [0, 0]], [[0, 0], [0, 0]]]


def test_sequences_carry_a_mask() -> None:
    encoder = encoder_of([COLUMNS[-1]], {"ids": "text"}, BATCH.select(["ids"]))
    inputs = FeatureInputs(encoder)
    network = inputs.model(keras.layers.LSTM(3)(inputs.columns()["ids"]))
    shorter = network(encoder.encode(BATCH)).numpy()[1]
    one = encoder_of([COLUMNS[-1]], {"ids": "text"}, pa.record_batch({"ids": ["0"]}))
    alone = FeatureInputs(one)
    single = alone.model(keras.layers.LSTM(3)(alone.columns()["ids"]))
    single.set_weights(network.get_weights())
    np.testing.assert_allclose(single(one.encode(pa.record_batch({"ids": ["0"]}))).numpy()[0], shorter, rtol=1e-5)


def test_linear_looks_up_the_weights_of_ids() -> None:
    columns = [*COLUMNS, Indicator(CategoryHash("城市", 1_000_000))]
    encoder = encoder_of(columns, KINDS, BATCH)
    inputs = FeatureInputs(encoder)
    network = inputs.model(inputs.linear(units=2))
    assert network(encoder.encode(BATCH)).numpy().tolist() == [[0, 0]] * 3
    for variable in network.variables:
        variable.assign(np.ones(variable.shape))
    # x, its companion, the city's two weights, kv's weights times values, two embedded numbers, the bias
    sums = [-1 + 0 + 2 + 5 + 2 + 1, 0 + 1 + 2 + 0 + 2 + 1, 1 + 0 + 2 + 0 + 0 + 1]
    assert network(encoder.encode(BATCH)).numpy().tolist() == [[total, total] for total in sums]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(network(encoder.encode(BATCH)))
    tables = [v for v in network.trainable_variables if v.shape[0] > 1_000_000]
    assert isinstance(tape.gradient(loss, tables)[0], tf.IndexedSlices)


def test_names_that_layers_must_not_have() -> None:
    names = [
        "a/b",
        "a b",
        "ä",
        "男",
        "numbers",
        "ids",
        "dense",
        "sql'x",
        "cast",
        "stack",
        "concatenate",
        "to_id",
        "get_item_1",
    ]
    batch = pa.record_batch({name: ["1", "2"] for name in names})
    encoder = encoder_of([Embedding(name, 2) for name in names], dict.fromkeys(names, "text"), batch)
    inputs = FeatureInputs(encoder)
    hidden = keras.layers.Dense(2)(keras.layers.Dense(2)(inputs.dense()))
    network = inputs.model(hidden)
    assert tf.function(network)(encoder.encode(batch)).shape == (2, 2)
    assert len({variable.path for variable in network.variables}) == len(network.variables)


def test_a_category_id_of_null_has_its_own_vector() -> None:
    batch = pa.record_batch({"x": [0, None]})
    encoder = encoder_of(Embedding(CategoryId("x", 3), 2), {"x": "integer"}, batch)
    inputs = FeatureInputs(encoder)
    network = inputs.model(inputs.dense())
    assert network.variables[0].shape == (4, 2)
    assert np.abs(network(encoder.encode(batch)).numpy()).min() > 0
