"""Layers that turn ids into numbers: tables of learned vectors, and indicators. An id of -1 is none."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from sqlflow_elastic.models.features.layers import PACKAGE


@keras.saving.register_keras_serializable(PACKAGE)
class EmbeddingBag(keras.layers.Layer):  # type: ignore[misc]
    """The vectors of a list of ids, combined.

    Rows are gathered from the table's variable itself, so the gradient is a `tf.IndexedSlices` of the rows looked up.
    A row without any id gives zeros.

    Args:
        rows: how many vectors the table has.
        size: numbers in a vector.
        combiner: "sum", "mean" (divided by the weights' sum), "sqrtn" (by the root of the sum of their squares), or
            None: one vector for each id, not combined, with a Keras mask.
        initializer: a Keras initializer; by default a truncated normal distribution of deviation 1 / sqrt(size).

    Input: ids int32 [batch, length], weights float32 [batch, length] or None (1 each).
    Output: float32 [batch, size]; without combiner [batch, length, size].
    """

    def __init__(
        self, rows: int, size: int, combiner: str | None = "sum", initializer: Any = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.rows = rows
        self.size = size
        self.combiner = combiner
        if initializer is None:
            initializer = keras.initializers.TruncatedNormal(stddev=1 / math.sqrt(size))
        self.initializer = keras.initializers.get(initializer)
        self.supports_masking = True

    def build(self, ids_shape: Any, weights_shape: Any = None) -> None:
        """Make the table, float32 [rows, size]."""
        self.table = self.add_weight(
            name="table", shape=(self.rows, self.size), initializer=self.initializer, autocast=False
        )

    def call(self, ids: Any, weights: Any = None) -> Any:
        """Look up and combine."""
        present = tf.cast(ids >= 0, self.compute_dtype)
        factors = present if weights is None else present * tf.cast(weights, self.compute_dtype)
        vectors = tf.cast(tf.gather(self.table.value, tf.maximum(ids, 0)), self.compute_dtype) * factors[..., None]
        if self.combiner is None:
            return vectors
        combined = tf.squeeze(vectors, 1) if ids.shape[1] == 1 else tf.reduce_sum(vectors, axis=1)
        if self.combiner == "mean":
            return tf.math.divide_no_nan(combined, tf.reduce_sum(factors, axis=1, keepdims=True))
        if self.combiner == "sqrtn":
            return tf.math.divide_no_nan(combined, tf.sqrt(tf.reduce_sum(factors * factors, axis=1, keepdims=True)))
        return combined

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
        }


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
