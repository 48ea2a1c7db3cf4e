"""Encoded rows as arrays, in memory or mapped from files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class ArrayDataset:
    """Rows of features, labels and weights; row i is ``array[i]`` of each.

    Arrays may be memory maps larger than memory: only the rows that a batch names are read.

    Args:
        features: each ``[rows, …]``, any dtype TensorFlow knows.
        labels: ``[rows, …]``, or None for a model without a label.
        weights: ``[rows]`` numbers: a sample's weight times its class's weight; None for 1 each.
    """

    def __init__(
        self, features: Mapping[str, Array], labels: Array | None = None, weights: Array | None = None
    ) -> None:
        self.features = dict(features)
        self.labels = labels
        self.weights = weights
        sizes = {name: len(array) for name, array in self.arrays().items()}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"arrays of one dataset must have the same number of rows: {sizes or 'there is none'}")
        self._rows = next(iter(sizes.values()))

    def __len__(self) -> int:
        """Number of rows."""
        return self._rows

    def arrays(self) -> dict[str, Array]:
        """All arrays by what they are, for messages: features by their names, then "the label" and "the weights"."""
        arrays = dict(self.features)
        if self.labels is not None:
            arrays["the label"] = self.labels
        if self.weights is not None:
            arrays["the weights"] = self.weights
        return arrays

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of all arrays."""
        return sum(array.dtype.itemsize * int(np.prod(array.shape[1:])) for array in self.arrays().values())
