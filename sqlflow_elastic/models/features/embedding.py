"""Layers that turn ids into numbers: tables of learned vectors, and indicators. An id of -1 is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from sqlflow_elastic.models.features.layers import PACKAGE
from sqlflow_elastic.models.tables.initial import initial_rows
from sqlflow_elastic.models.tables.initializers import initial_of
from sqlflow_elastic.models.tables.spec import Part

#: Gives a served table's layer, in a call of the model, the vectors of its ids: [batch, length, size], zeros for -1.
Given: TypeAlias = Callable[[Any], Any]

_GIVEN: ContextVar[Mapping[str, Given]] = ContextVar("given")


@contextmanager
def given(vectors: Mapping[str, Given]) -> Iterator[None]:
    """Within, layers of served tables have these vectors, by the layers' names. For graph code.

    Each function takes the layer's variable, whose gradient is that of the vectors (see `look_up`).
    """
    token = _GIVEN.set(vectors)
    try:
        yield
    finally:
        _GIVEN.reset(token)


#: How vectors begin that are multiplied with each other: normal, of deviation 0.05, so that the sum of all products of
#: some ten or hundred of them begins near zero.
SMALL = "random_normal"


@keras.saving.register_keras_serializable(PACKAGE)
class EmbeddingBag(keras.layers.Layer):  # type: ignore[misc]
    """The vectors of a list of ids, combined.

    Rows are gathered from the table's variable itself, so the gradient is a `tf.IndexedSlices` of the rows looked up.
    A row without any id gives zeros.

    The table of a *served* layer is elsewhere: its variable has no rows. Those that a batch needs are `given` to the
    call, and the variable's gradient is a `tf.IndexedSlices` of them.

    Args:
        rows: how many vectors the table has.
        size: numbers in a vector.
        combiner: "sum", "mean" (divided by the weights' sum), "sqrtn" (by the root of the sum of their squares), or
            None: one vector for each id, not combined, with a Keras mask.
        initializer: a Keras initializer; by default a truncated normal distribution of deviation 1 / sqrt(size). Rows
            are drawn one by one where it allows that (see `sqlflow_elastic.models.tables.initial`).
        columns: of the array of ids, those that it looks up; for who gives rows.
        stream, seed: of its random numbers.
        served: whether its table is elsewhere, if rows can be drawn one by one.

    Input: ids int32 [batch, length], weights float32 [batch, length] or None (1 each).
    Output: float32 [batch, size]; without combiner [batch, length, size].
    """

    def __init__(
        self,
        rows: int,
        size: int,
        combiner: str | None = "sum",
        initializer: Any = None,
        *,
        columns: Sequence[int] = (),
        stream: int = 0,
        seed: int = 0,
        served: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.rows = rows
        self.size = size
        self.combiner = combiner
        if initializer is None:
            initializer = keras.initializers.TruncatedNormal(stddev=1 / math.sqrt(size))
        self.initializer = keras.initializers.get(initializer)
        self.columns = tuple(columns)
        self.stream = stream
        self.seed = seed
        self.served = served and self.part is not None
        self.supports_masking = True

    @property
    def part(self) -> Part | None:
        """How its rows begin, if they are drawn one by one."""
        initial = initial_of(self.initializer, self.rows, self.size)
        return None if initial is None else Part(self.size, initial, self.stream)

    def build(self, ids_shape: Any, weights_shape: Any = None) -> None:
        """Make the table, float32 [rows, size]; [0, size] if it is elsewhere."""
        part = self.part
        shape = (0 if self.served else self.rows, self.size)
        initializer = self.initializer if part is None else _rows_of(part, self.seed)
        self.table = self.add_weight(name="table", shape=shape, initializer=initializer, autocast=False)

    def call(self, ids: Any, weights: Any = None) -> Any:
        """Look up and combine."""
        served = _GIVEN.get()[self.name](self.table.value) if self.served else None
        if served is not None and weights is None and self.combiner in (None, "sum"):
            return self._summed(tf.cast(served, self.compute_dtype))
        present = tf.cast(ids >= 0, self.compute_dtype)
        factors = present if weights is None else present * tf.cast(weights, self.compute_dtype)
        vectors = tf.gather(self.table.value, tf.maximum(ids, 0)) if served is None else served
        combined = self._summed(tf.cast(vectors, self.compute_dtype) * factors[..., None])
        if self.combiner == "mean":
            return tf.math.divide_no_nan(combined, tf.reduce_sum(factors, axis=1, keepdims=True))
        if self.combiner == "sqrtn":
            return tf.math.divide_no_nan(combined, tf.sqrt(tf.reduce_sum(factors * factors, axis=1, keepdims=True)))
        return combined

    def _summed(self, vectors: Any) -> Any:
        """[batch, length, size] → [batch, size], if they are combined at all."""
        if self.combiner is None:
            return vectors
        return tf.squeeze(vectors, 1) if vectors.shape[1] == 1 else tf.reduce_sum(vectors, axis=1)

    def compute_mask(self, ids: Any, weights: Any = None, previous_mask: Any = None) -> Any:
        """Which steps there are, bool [batch, length]; None where vectors are combined."""
        return ids >= 0 if self.combiner is None else None

    def compute_output_spec(self, ids: Any, weights: Any = None) -> Any:
        """[batch, size], or [batch, length, size]."""
        shape = (ids.shape[0], self.size) if self.combiner else (*ids.shape, self.size)
        return keras.KerasTensor(shape, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "rows": self.rows,
            "size": self.size,
            "combiner": self.combiner,
            "initializer": keras.initializers.serialize(self.initializer),
            "columns": self.columns,
            "stream": self.stream,
            "seed": self.seed,
            "served": self.served,
        }


def _rows_of(part: Part, seed: int) -> Any:
    """An initializer that draws row by row."""

    def initializer(shape: Sequence[int], dtype: Any = None) -> Any:
        return tf.constant(initial_rows(part, seed, np.arange(shape[0]), np.dtype(dtype)))

    return initializer


def look_up(anchor: Any, rows: Any, places: Any) -> Any:
    """Rows [n, size] by their places, int32 [batch, length]; zeros for a place below 0. → [batch, length, size].

    The gradient of the rows is that of ``anchor``, the variable of a served table's layer: a `tf.IndexedSlices`.
    """
    present = tf.cast(places >= 0, rows.dtype)[..., None]
    indices = tf.maximum(places, 0)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def gathered(anchor: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            values = tf.reshape(upstream * present, [-1, rows.shape[1]])
            return tf.IndexedSlices(values, tf.reshape(indices, [-1]), tf.constant((0, rows.shape[1])))

        return tf.gather(rows, indices) * present, gradient

    return gathered(anchor)


@keras.saving.register_keras_serializable(PACKAGE)
class MultiHot(keras.layers.Layer):  # type: ignore[misc]
    """How often each id is in the list, or the sum of its weights.

    Input: ids int32 [batch, length], weights float32 [batch, length] or None. Output: float32 [batch, rows].
    """

    def __init__(self, rows: int, **options: Any) -> None:
        super().__init__(**options)
        self.rows = rows

    def call(self, ids: Any, weights: Any = None) -> Any:
        """Count."""
        if ids.shape[1] == 1 and weights is None:
            return tf.one_hot(ids[:, 0], self.rows, dtype=self.compute_dtype)
        values = tf.cast(tf.ones_like(ids) if weights is None else weights, self.compute_dtype)
        batch = tf.shape(ids)[0]
        places = tf.where(ids >= 0, ids, self.rows) + tf.range(batch)[:, None] * (self.rows + 1)
        counts = tf.math.unsorted_segment_sum(values, places, batch * (self.rows + 1))
        return tf.reshape(counts, (batch, self.rows + 1))[:, : self.rows]

    def compute_output_spec(self, ids: Any, weights: Any = None) -> Any:
        """[batch, rows]."""
        return keras.KerasTensor((ids.shape[0], self.rows), self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "rows": self.rows}


@keras.saving.register_keras_serializable(PACKAGE)
class NumberVectors(keras.layers.Layer):  # type: ignore[misc]
    """Each number times a learned vector: float32 [batch, numbers] → [batch, numbers, size].

    Args:
        size: numbers in a vector.
    """

    def __init__(self, size: int, **options: Any) -> None:
        super().__init__(**options)
        self.size = size

    def build(self, input_shape: Any) -> None:
        """Make the vectors, float32 [numbers, size]."""
        initializer = keras.initializers.get(SMALL)
        self.vectors = self.add_weight(name="vectors", shape=(input_shape[-1], self.size), initializer=initializer)

    def call(self, inputs: Any) -> Any:
        """Multiply."""
        return inputs[:, :, None] * self.vectors

    def compute_output_shape(self, input_shape: Any) -> Any:
        """[batch, numbers, size]."""
        return (*input_shape, self.size)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "size": self.size}


@keras.saving.register_keras_serializable(PACKAGE)
class AddBias(keras.layers.Layer):  # type: ignore[misc]
    """Adds a learned number to each place: float32 [batch, units] → the same."""

    def build(self, input_shape: Any) -> None:
        """Make the bias, float32 [units]."""
        self.bias = self.add_weight(name="bias", shape=(input_shape[-1],), initializer="zeros")

    def call(self, inputs: Any) -> Any:
        """Add."""
        return inputs + self.bias

    def compute_output_shape(self, input_shape: Any) -> Any:
        """As the input's."""
        return input_shape
