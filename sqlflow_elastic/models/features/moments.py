"""Mean, deviation and skew of many columns of numbers in one pass, in pieces that can be merged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass
class Moments:
    """Sums of powers of the differences from the mean, of k columns (each array is float64 [k]).

    Merging follows Chan, Golub and LeVeque (1979) and, for the third power, Pébay (2008): stable also where the mean is
    large against the deviation.
    """

    count: Floats
    mean: Floats
    square: Floats
    cube: Floats

    @classmethod
    def of(cls, values: Floats) -> Moments:
        """The moments of ``values``, float64 [k, rows] with NaN where there is none."""
        present = ~np.isnan(values)
        count = present.sum(axis=1).astype(np.float64)
        filled = values if present.all() else np.where(present, values, 0.0)
        mean = filled.sum(axis=1) / np.maximum(count, 1)
        difference = np.where(present, filled - mean[:, None], 0.0)
        square = difference * difference
        return cls(count, mean, square.sum(axis=1), np.einsum("ij,ij->i", square, difference))

    def merge(self, other: Moments) -> Moments:
        """The moments of both sets of values."""
        count = self.count + other.count
        total = np.maximum(count, 1)
        delta = other.mean - self.mean
        product = self.count * other.count
        return Moments(
            count,
            self.mean + delta * other.count / total,
            self.square + other.square + delta**2 * product / total,
            self.cube
            + other.cube
            + delta**3 * product * (self.count - other.count) / total**2
            + 3 * delta * (self.count * other.square - other.count * self.square) / total,
        )

    @property
    def deviation(self) -> Floats:
        """The standard deviation, float64 [k]; 0 of a constant."""
        return np.sqrt(self.square / np.maximum(self.count, 1))

    @property
    def skew(self) -> Floats:
        """The skewness, float64 [k]; 0 of a constant."""
        deviation = self.deviation
        constant = is_constant(self.mean, deviation)
        third = self.cube / np.maximum(self.count, 1)
        return np.where(constant, 0.0, third / np.where(constant, 1.0, deviation) ** 3)


def is_constant(mean: Floats, deviation: Floats) -> Bools:
    """Whether numbers differ from their mean by rounding only, bool [k]."""
    constant: Bools = deviation <= 1e-12 * np.abs(mean)
    return constant
