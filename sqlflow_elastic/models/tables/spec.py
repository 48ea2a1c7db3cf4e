"""What a table is: enough to make any of its rows, on whatever server."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Places: TypeAlias = NDArray[np.intp]


class Distribution(StrEnum):
    """How the first numbers of rows are distributed."""

    #: All are ``a``.
    CONSTANT = "constant"
    #: In [a, b).
    UNIFORM = "uniform"
    #: Mean ``a``, standard deviation ``b``.
    NORMAL = "normal"
    #: The same, but never further than two standard deviations from the mean.
    TRUNCATED = "truncated"


@dataclass(frozen=True)
class Initial:
    """What a part of a row holds before its first update."""

    distribution: Distribution
    a: float = 0.0
    b: float = 0.0


@dataclass(frozen=True)
class Part:
    """Some neighbouring numbers of a row: the vector that one layer looks up.

    Attributes:
        width: how many.
        initial: what they begin with.
        stream: which stream of random numbers they are drawn from; no two parts of a model have the same.
    """

    width: int
    initial: Initial
    stream: int


@dataclass(frozen=True)
class RowOptimizer:
    """How rows are updated: the rule of the Keras optimizer of that name, on the rows that a step touches.

    Attributes:
        name: "sgd", "adagrad", "adam", "rmsprop" or "ftrl".
        arguments: the Keras optimizer's own, numbers and booleans by name, without the learning rate.
        initial_slots: what each slot begins with, in the order of the rule (`row_updates`).
    """

    name: str
    arguments: Mapping[str, float]
    initial_slots: tuple[float, ...]


@dataclass(frozen=True)
class Range:
    """The rows of one category: neighbouring ids of a table.

    Attributes:
        name: of the layer whose vectors they are; of the first one if there are several.
        rows: how many.
        parts: of a row, side by side: one for each layer.
    """

    name: str
    rows: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class TableSpec:
    """A table: the rows of all categories that are alike but for their first numbers.

    Attributes:
        name: unique in its model.
        ranges: whose rows; ids count through all of them. Their parts have the same widths.
        optimizer: how rows are updated.
        dtype: "float32" or "float64", of weights, slots and gradients.
        seed: of the training.
        dense: its ids are all touched by each step, and its rows are given, not drawn.
    """

    name: str
    ranges: tuple[Range, ...]
    optimizer: RowOptimizer
    dtype: str
    seed: int
    dense: bool = False

    @property
    def rows(self) -> int:
        """Ids are in [0, rows)."""
        return sum(each.rows for each in self.ranges)

    @property
    def bases(self) -> list[int]:
        """The first id of each range, and ``rows`` at the end."""
        bases = [0]
        for each in self.ranges:
            bases.append(bases[-1] + each.rows)
        return bases

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the parts of a row."""
        return tuple(part.width for part in self.ranges[0].parts)

    @property
    def width(self) -> int:
        """Numbers of a row, without slots."""
        return sum(self.widths)

    def parts_of(self, ids: NDArray[np.int64]) -> Iterator[tuple[Part, Places, NDArray[np.int64], slice]]:
        """What some rows are made of, for each layer that has any of them.

        Args:
            ids: [n], in any order.

        Yields:
            The layer's part, where its ids are among these [m], the same ids from its range's first one on [m], and the
            columns of its numbers in a row.
        """
        bases = np.array(self.bases)
        range_of = np.searchsorted(bases, ids, "right") - 1
        for index in np.unique(range_of):
            places = np.flatnonzero(range_of == index)
            own, at = ids[places] - bases[index], 0
            for part in self.ranges[index].parts:
                yield part, places, own, slice(at, at + part.width)
                at += part.width

    @property
    def streams(self) -> list[int]:
        """Of all parts: each is of a layer of its own."""
        return [part.stream for each in self.ranges for part in each.parts]

    @property
    def slots(self) -> int:
        """Numbers beside each number of a row."""
        return len(self.optimizer.initial_slots)

    @property
    def row_bytes(self) -> int:
        """Of a row with its slots."""
        return self.width * (1 + self.slots) * (4 if self.dtype == "float32" else 8)

    def to_json(self) -> dict[str, Any]:
        """As JSON's types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises: KeyError, TypeError, ValueError: it is none."""
        optimizer = data["optimizer"]
        slots = tuple(map(float, optimizer["initial_slots"]))
        rule = RowOptimizer(optimizer["name"], dict(optimizer["arguments"]), slots)
        return cls(**{**data, "ranges": tuple(map(_range, data["ranges"])), "optimizer": rule})


def _range(data: Mapping[str, Any]) -> Range:
    return Range(data["name"], int(data["rows"]), tuple(map(_part, data["parts"])))


def _part(data: Mapping[str, Any]) -> Part:
    initial = data["initial"]
    distribution = Distribution(initial["distribution"])
    return Part(
        int(data["width"]), Initial(distribution, float(initial["a"]), float(initial["b"])), int(data["stream"])
    )
