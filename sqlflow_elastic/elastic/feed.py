"""From row numbers to the tensors of one call."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sqlflow_elastic.elastic.dataset import Array, ArrayDataset
from sqlflow_elastic.elastic.sampling import Rows


class Feed:
    """Gathers rows of a dataset into buffers that are used again for every call.

    Args:
        dataset: where the rows are.
        capacity: the most rows of a call.
    """

    def __init__(self, dataset: ArrayDataset, capacity: int) -> None:
        self._dataset = dataset
        self._features = {name: _buffer(array, capacity) for name, array in dataset.features.items()}
        self._labels = None if dataset.labels is None else _buffer(dataset.labels, capacity)
        self._weights = np.empty(capacity, keras.config.floatx())

    def rows(self, indices: Rows, scale: float) -> tuple[dict[str, tf.Tensor], tf.Tensor | None, tf.Tensor]:
        """One slice of any size: features and labels ``[b, …]``, weights ``[b]`` as `Batch` defines them.

        Args:
            indices: int64 ``[b]``.
            scale: what samples' weights are multiplied with: one by the number of samples of the global batch.
        """
        b = len(indices)
        self._gather(indices, scale)
        features = {name: tf.convert_to_tensor(buffer[:b]) for name, buffer in self._features.items()}
        labels = None if self._labels is None else tf.convert_to_tensor(self._labels[:b])
        return features, labels, tf.convert_to_tensor(self._weights[:b])

    def stacked(self, indices: Rows, batch_size: int) -> tuple[dict[str, tf.Tensor], tf.Tensor | None, tf.Tensor]:
        """Whole batches as ``[capacity / batch_size, batch_size, …]``; rows past ``indices`` are undefined."""
        self._gather(indices, 1 / batch_size)

        def stack(buffer: Array) -> tf.Tensor:
            return tf.convert_to_tensor(buffer.reshape(-1, batch_size, *buffer.shape[1:]))

        features = {name: stack(buffer) for name, buffer in self._features.items()}
        return features, None if self._labels is None else stack(self._labels), stack(self._weights)

    def batches(self, indices: Rows, scale: float) -> tuple[dict[str, tf.Tensor], tf.Tensor | None, tf.Tensor]:
        """Slices of ``k`` batches: features and labels ``[k, b, …]``, weights ``[k, b]``.

        Args:
            indices: int64 ``[k, b]``.
            scale: see `rows`.
        """
        self._gather(indices.reshape(-1), scale)

        def stack(buffer: Array) -> tf.Tensor:
            return tf.convert_to_tensor(buffer[: indices.size].reshape(*indices.shape, *buffer.shape[1:]))

        features = {name: stack(buffer) for name, buffer in self._features.items()}
        return features, None if self._labels is None else stack(self._labels), stack(self._weights)

    def _gather(self, indices: Rows, scale: float) -> None:
        b = len(indices)
        for name, array in self._dataset.features.items():
            _take(array, indices, self._features[name][:b])
        if self._labels is not None and self._dataset.labels is not None:
            _take(self._dataset.labels, indices, self._labels[:b])
        if self._dataset.weights is None:
            self._weights[:b] = scale
        else:
            np.multiply(self._dataset.weights[indices], scale, out=self._weights[:b])


def _buffer(array: Array, rows: int) -> NDArray[Any]:
    # Zeros, so that rows no batch has filled yet hold valid ids.
    return np.zeros((rows, *array.shape[1:]), array.dtype)


def _take(array: Array, indices: Rows, out: Array) -> None:
    # Indices are in range; the mode spares numpy a copy of the result.
    np.take(array, indices, axis=0, out=out, mode="clip")
