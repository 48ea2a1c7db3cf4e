"""Inference over many rows: one trace, large batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sqlflow_elastic.elastic.batch import SampleLosses
from sqlflow_elastic.elastic.dataset import Array, ArrayDataset
from sqlflow_elastic.elastic.served import ServedTables
from sqlflow_elastic.elastic.tables.access import Rows


class Predictor:
    """Runs a model over datasets, without training it. Traced once; any batch size uses that trace.

    Args:
        model: built.
        served: its tables that are elsewhere; None without.
        rows: where they are.
    """

    def __init__(self, model: keras.Model, served: ServedTables | None = None, rows: Rows | None = None) -> None:
        self._model = model
        self._served = served
        self._rows = rows
        self._call: Any = tf.function(self._predict, autograph=False)

    def run(self, dataset: ArrayDataset, batch_rows: int = 4096) -> Iterator[NDArray[Any]]:
        """The model's outputs, ``[b, …]`` for each ``b`` rows in the dataset's order; the last piece may be shorter."""
        call = None
        for rows in slices(0, len(dataset), batch_rows):
            features = {name: np.ascontiguousarray(array[rows]) for name, array in dataset.features.items()}
            looked_up = looked_up_in(self._served, features, self._rows)
            inputs = tf.nest.map_structure(tensor, (features, looked_up))
            if call is None:
                call = self._call.get_concrete_function(*any_rows(inputs))
            yield np.asarray(call(*inputs))

    def _predict(self, features: Any, looked_up: tuple[tf.Tensor, ...]) -> Any:
        with nullcontext() if self._served is None else self._served.using(*looked_up):
            return self._model(features, training=False)


class Evaluator:
    """Outputs and losses of a model over labelled rows.

    Args:
        model: built.
        sample_losses: losses of single samples; None to know outputs only.
        served: its tables that are elsewhere; None without.
    """

    def __init__(
        self, model: keras.Model, sample_losses: SampleLosses | None, served: ServedTables | None = None
    ) -> None:
        self._model = model
        self._losses = sample_losses
        self._served = served
        self._call: Any = None

    def run(
        self, dataset: ArrayDataset, start: int, stop: int, batch_rows: int, rows: Rows | None = None
    ) -> Iterator[tuple[float, Any, Array | None, Any]]:
        """Evaluate the rows ``[start, stop)``; ``rows``: where served tables are.

        Yields:
            For each ``b`` rows: the sum of their weighted losses (NaN without `sample_losses`), their outputs ``[b,
            …]``, labels ``[b, …]`` and rows.
        """
        for piece in slices(start, stop, batch_rows):
            features = {name: np.ascontiguousarray(array[piece]) for name, array in dataset.features.items()}
            looked_up = looked_up_in(self._served, features, rows)
            labels = None if dataset.labels is None else np.ascontiguousarray(dataset.labels[piece])
            count = piece.stop - piece.start
            ones = np.ones(count) if dataset.weights is None else dataset.weights[piece]
            weights = np.asarray(ones, keras.config.floatx())
            inputs = tf.nest.map_structure(tensor, (features, labels, weights, looked_up))
            if self._call is None:
                self._call = tf.function(self._evaluate, autograph=False).get_concrete_function(*any_rows(inputs))
            loss, outputs = self._call(*inputs)
            yield float(loss), tf.nest.map_structure(np.asarray, outputs), labels, count

    def _evaluate(
        self, features: Any, labels: Any, weights: tf.Tensor, looked_up: tuple[tf.Tensor, ...]
    ) -> tuple[tf.Tensor, Any]:
        with nullcontext() if self._served is None else self._served.using(*looked_up):
            outputs = self._model(features, training=False)
        if self._losses is None:
            return tf.constant(float("nan")), outputs
        losses = self._losses(labels, outputs)
        return tf.reduce_sum(tf.cast(weights, losses.dtype) * losses), outputs


def looked_up_in(served: ServedTables | None, features: dict[str, Array], rows: Rows | None) -> tuple[Array, ...]:
    """What a graph needs to look up rows of served tables; nothing without any."""
    if served is None:
        return ()
    if rows is None:
        raise ValueError("served tables are nowhere")
    return served.inputs(features, rows)


def tensor(array: Array | None) -> tf.Tensor | None:
    """An array as a tensor; None for None."""
    return None if array is None else tf.convert_to_tensor(array)


def any_rows(tensors: Any) -> Any:
    """The specs of tensors with any number of rows."""
    return tf.nest.map_structure(lambda t: None if t is None else tf.TensorSpec((None, *t.shape[1:]), t.dtype), tensors)


def slices(start: int, stop: int, batch_rows: int) -> Iterator[slice]:
    """The rows ``[start, stop)`` cut into pieces."""
    for first in range(start, stop, batch_rows):
        yield slice(first, min(first + batch_rows, stop))
