"""From row numbers to the tensors of one call."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sqlflow_elastic.elastic.dataset import Array, ArrayDataset
from sqlflow_elastic.elastic.sampling import Rows

#: Features, labels if there are any, and weights.
Inputs: TypeAlias = tuple[dict[str, tf.Tensor], tf.Tensor | None, tf.Tensor]


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

    def rows(self, indices: Rows, scale: float) -> Inputs:
        """Slices of any size: features and labels ``[b, …]``, weights ``[b]`` as `Batch` defines them; or of several.

        Args:
            indices: int64 ``[b]``; or ``[k, b]`` of k batches, and so are the first sizes of the result.
            scale: what samples' weights are multiplied with: one by the number of samples of the global batch.
        """
        return self._gathered(indices.reshape(-1), scale, indices.shape)

    def stacked(self, indices: Rows, batch_size: int) -> Inputs:
        """Whole batches as ``[capacity / batch_size, batch_size, …]``; rows past ``indices`` are undefined."""
        return self._gathered(indices, 1 / batch_size, (len(self._weights) // batch_size, batch_size))

    def _gathered(self, indices: Rows, scale: float, shape: tuple[int, ...]) -> Inputs:
        """Gather rows; features, labels and weights whose first sizes these are, from the buffers' begin."""
        self._gather(indices, scale)
        size = math.prod(shape)

        def tensor(buffer: Array) -> tf.Tensor:
            return tf.convert_to_tensor(buffer[:size].reshape(*shape, *buffer.shape[1:]))

        features = {name: tensor(buffer) for name, buffer in self._features.items()}
        return features, None if self._labels is None else tensor(self._labels), tensor(self._weights)

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
