"""Small models that tests train, with their gradient functions."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sqlflow_elastic.elastic.batch import Batch
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.optimizers import Optimizers
from sqlflow_elastic.models.features.embedding import EmbeddingBag


class Table(keras.layers.Layer):  # type: ignore[misc]
    """Vectors by id, looked up in the variable itself."""

    def __init__(self, rows: int, size: int, initializer: str = "uniform", **options: Any) -> None:
        super().__init__(**options)
        self.rows, self.size, self.initializer = rows, size, initializer

    def build(self, shape: Any) -> None:
        self.table = self.add_weight(name="table", shape=(self.rows, self.size), initializer=self.initializer)

    def call(self, ids: Any) -> Any:
        return tf.gather(self.table.value, ids)

    def compute_output_spec(self, ids: Any) -> Any:
        return keras.KerasTensor((*ids.shape, self.size), self.compute_dtype)


class Counter(keras.Model):  # type: ignore[misc]
    """Its weights count samples: ``total`` all of them, ``table`` those of each row; nothing else is in them."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.total = self.add_weight(name="total", shape=(), initializer="zeros")
        self.counts = Table(rows, 1, "zeros")
        self.counts.build((None,))

    def call(self, features: Any) -> Any:
        return self.counts(features["row"])[:, 0] + self.total

    def seen(self) -> tuple[float, NDArray[np.float32]]:
        return float(self.total.value), np.asarray(self.counts.table.value)[:, 0]


def count_gradients(model: Any, batch: Batch) -> tuple[tf.Tensor, list[Any]]:
    """Each sample adds one, whatever its batch's size: descending by a rate of 1."""
    with tf.GradientTape() as tape:
        loss = -tf.reduce_sum(tf.sign(batch.weights) * model(batch.features))
    return loss, tape.gradient(loss, model.trainable_variables)


def counter(rows: int) -> tuple[Counter, ArrayDataset, Optimizers]:
    model = Counter(rows)
    dataset = ArrayDataset({"row": np.arange(rows, dtype=np.int32)})
    return model, dataset, [(keras.optimizers.SGD(1.0), model.trainable_variables)]


def classifier(
    *, dropout: float = 0.0, normalized: bool = False, l2: float = 0.0, optimizer: str = "adam", seed: int = 7
) -> tuple[Any, Optimizers]:
    """Ids through a table, and numbers, to two logits of classes; with whatever else has state."""
    keras.utils.set_random_seed(seed)
    ids = keras.Input((2,), dtype="int32", name="ids")
    numbers = keras.Input((4,), name="numbers")
    x = keras.layers.Concatenate()([keras.layers.Flatten()(Table(50, 3)(ids)), numbers])
    x = keras.layers.Dense(16, activation="tanh", kernel_regularizer=keras.regularizers.L2(l2) if l2 else None)(x)
    if normalized:
        x = keras.layers.BatchNormalization()(x)
    if dropout:
        x = keras.layers.Dropout(dropout)(x)
    model = keras.Model({"ids": ids, "numbers": numbers}, keras.layers.Dense(2)(x))
    return model, [(keras.optimizers.get(optimizer), model.trainable_variables)]


def classifier_rows(rows: int, seed: int = 0) -> ArrayDataset:
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(rows, 4)).astype(np.float32)
    ids = rng.integers(0, 50, (rows, 2)).astype(np.int32)
    labels = (numbers.sum(axis=1) + (ids[:, 0] % 3 - 1) > 0).astype(np.int32)
    return ArrayDataset({"ids": ids, "numbers": numbers}, labels)


def sample_losses(labels: Any, outputs: Any) -> tf.Tensor:
    return keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=True)


def class_gradients(model: Any, batch: Batch) -> tuple[tf.Tensor, list[Any]]:
    with tf.GradientTape() as tape:
        losses = sample_losses(batch.labels, model(batch.features, training=True))
        loss = tf.reduce_sum(batch.weights * losses) + batch.share * sum(model.losses)
    return loss, tape.gradient(loss, model.trainable_variables)


def weights(model: Any) -> list[NDArray[Any]]:
    return [np.asarray(variable.value) for variable in model.variables]


def perceptron(*, optimizer: str = "adam", seed: int = 7) -> tuple[Any, Optimizers]:
    """Numbers, ids among them, to two logits; nothing but dense layers, which also have a loss of their own."""
    keras.utils.set_random_seed(seed)
    ids = keras.Input((2,), dtype="int32", name="ids")
    numbers = keras.Input((4,), name="numbers")
    x = keras.layers.Concatenate()([keras.ops.cast(ids, keras.config.floatx()) / 50, numbers])
    x = keras.layers.Dense(16, activation="relu", activity_regularizer=keras.regularizers.L2(0.05))(x)
    model = keras.Model({"ids": ids, "numbers": numbers}, keras.layers.Dense(2)(x))
    return model, [(keras.optimizers.get(optimizer), model.trainable_variables)]


def wide_and_deep(seed: int = 7) -> tuple[Any, Optimizers]:
    """Ids through a table of logits by FTRL, ids and numbers through a network by Adagrad."""
    keras.utils.set_random_seed(seed)
    ids = keras.Input((2,), dtype="int32", name="ids")
    numbers = keras.Input((4,), name="numbers")
    wide = Table(50, 2, "zeros")
    x = keras.layers.Concatenate()([keras.layers.Flatten()(Table(50, 3)(ids)), numbers])
    deep = keras.layers.Dense(2)(keras.layers.Dense(8, activation="relu")(x))
    outputs = keras.layers.Add()([keras.layers.Lambda(lambda logits: tf.reduce_sum(logits, 1))(wide(ids)), deep])
    model = keras.Model({"ids": ids, "numbers": numbers}, outputs)
    linear = [wide.table]
    others = [v for v in model.trainable_variables if v is not wide.table]
    return model, [(keras.optimizers.Ftrl(0.1), linear), (keras.optimizers.Adagrad(0.05), others)]


def weighted_rows(rows: int, seed: int = 0) -> ArrayDataset:
    """The classifier's rows, each class and some samples with weights of their own."""
    dataset = classifier_rows(rows, seed)
    samples = np.random.default_rng(seed).uniform(0, 2, rows)
    return ArrayDataset(dataset.features, dataset.labels, samples * np.where(dataset.labels == 1, 3.0, 1.0))


def tabled(*, optimizer: str = "adam", served: bool = True, seed: int = 7, scale: int = 1) -> tuple[Any, Optimizers]:
    """Ids through three embeddings, two of them over the same ids, and numbers to two logits.

    For `classifier_rows`. The tables are on servers, or in the model: either way they begin with the same numbers.
    """
    keras.utils.set_random_seed(seed)
    ids = keras.Input((2,), dtype="int32", name="ids")
    numbers = keras.Input((4,), name="numbers")

    def bag(columns: tuple[int, ...], size: int, stream: int, initializer: Any = None) -> Any:
        layer = EmbeddingBag(
            50 * scale, size, "sum", initializer, columns=columns, stream=stream, served=served, name=f"bag_{stream}"
        )
        return layer(ids[:, columns[0] : columns[-1] + 1])

    x = keras.layers.Concatenate()([bag((0,), 3, 0), bag((1,), 3, 1), bag((0, 1), 5, 2), numbers])
    x = keras.layers.Dense(16, activation="tanh")(x)
    outputs = keras.layers.Dense(2)(x) + bag((0,), 2, 3, "zeros") + bag((1,), 2, 4, "zeros")
    model = keras.Model({"ids": ids, "numbers": numbers}, outputs)
    return model, [(keras.optimizers.get(optimizer), model.trainable_variables)]
