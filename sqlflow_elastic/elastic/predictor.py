"""Inference over many rows: one trace, large batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sqlflow_elastic.elastic.batch import SampleLosses
from sqlflow_elastic.elastic.dataset import Array, ArrayDataset


class Predictor:
    """Runs a model over datasets, without training it. Traced once; any batch size uses that trace."""

    def __init__(self, model: keras.Model) -> None:
        self._call: Any = tf.function(lambda features: model(features, training=False), autograph=False)

    def run(self, dataset: ArrayDataset, batch_rows: int = 4096) -> Iterator[NDArray[Any]]:
        """The model's outputs, ``[b, …]`` for each ``b`` rows in the dataset's order; the last piece may be shorter."""
        call = None
        for rows in slices(0, len(dataset), batch_rows):
            features = {name: tensor(array[rows]) for name, array in dataset.features.items()}
            if call is None:
                call = self._call.get_concrete_function(any_rows(features))
            yield np.asarray(call(features))


class Evaluator:
    """Outputs and losses of a model over labelled rows.

    Args:
        model: built.
        sample_losses: losses of single samples; None to know outputs only.
    """

    def __init__(self, model: keras.Model, sample_losses: SampleLosses | None) -> None:
        self._model = model
        self._losses = sample_losses
        self._call: Any = None

    def run(
        self, dataset: ArrayDataset, start: int, stop: int, batch_rows: int
    ) -> Iterator[tuple[float, Any, Array | None, Any]]:
        """Evaluate the rows ``[start, stop)``.

        Yields:
            For each ``b`` rows: the sum of their weighted losses (NaN without `sample_losses`), their outputs ``[b,
            …]``, labels ``[b, …]`` and rows.
        """
        for piece in slices(start, stop, batch_rows):
            features = {name: tensor(array[piece]) for name, array in dataset.features.items()}
            labels = None if dataset.labels is None else tensor(dataset.labels[piece])
            count = piece.stop - piece.start
            ones = np.ones(count) if dataset.weights is None else dataset.weights[piece]
            weights = tf.constant(ones, keras.config.floatx())
            if self._call is None:
                self._call = tf.function(self._evaluate, autograph=False).get_concrete_function(
                    *any_rows((features, labels, weights))
                )
            loss, outputs = self._call(features, labels, weights)
            yield (
                float(loss),
                tf.nest.map_structure(np.asarray, outputs),
                None if labels is None else labels.numpy(),
                count,
            )

    def _evaluate(self, features: Any, labels: Any, weights: tf.Tensor) -> tuple[tf.Tensor, Any]:
        outputs = self._model(features, training=False)
        if self._losses is None:
            return tf.constant(float("nan")), outputs
        losses = self._losses(labels, outputs)
        return tf.reduce_sum(tf.cast(weights, losses.dtype) * losses), outputs


def tensor(array: Array) -> tf.Tensor:
    """Rows as a tensor; a memory map's rows are read here."""
    return tf.convert_to_tensor(np.ascontiguousarray(array))


def any_rows(tensors: Any) -> Any:
    """The specs of tensors with any number of rows."""
    return tf.nest.map_structure(lambda t: None if t is None else tf.TensorSpec((None, *t.shape[1:]), t.dtype), tensors)


def slices(start: int, stop: int, batch_rows: int) -> Iterator[slice]:
    """The rows ``[start, stop)`` cut into pieces."""
    for first in range(start, stop, batch_rows):
        yield slice(first, min(first + batch_rows, stop))
