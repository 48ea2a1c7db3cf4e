"""The rows of one table that one server has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables import kernels
from sqlflow_elastic.elastic.tables.drawing import draw_rows
from sqlflow_elastic.elastic.tables.memory import lazy_zeros, release
from sqlflow_elastic.elastic.tables.rules import RowRule
from sqlflow_elastic.elastic.tables.sharding import shards_of
from sqlflow_elastic.models.tables.spec import TableSpec

Ids = NDArray[np.int64]
Positions = NDArray[np.int32]
Numbers = NDArray[Any]

#: Rows that are moved at a time.
_BLOCK = 1 << 16
#: Rows that are updated at a time, so that they stay in the processor's cache between two passes.
_UPDATED = 1 << 11


@dataclass(frozen=True)
class Undo:
    """What an update changed.

    Attributes:
        positions: [m], all different.
        before: [m, width * (1 + slots)]: what the rows were, weights first.
    """

    positions: Positions
    before: Numbers


class Table:
    """See the module's page. Not for several threads at once.

    A row has a position from its first touch on, until rows are dropped; rows lie one behind the other, so memory is
    in proportion to the rows that there are, but for 4 bytes an id in pages where any id was touched.

    Args:
        spec: what it is.
    """

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self._rule = RowRule(spec.optimizer, spec.dtype)
        self._begin()

    def _begin(self) -> None:
        spec = self.spec
        self._count = 0
        self._rows = lazy_zeros((spec.rows, spec.width * (1 + spec.slots)), spec.dtype, filled=True)
        self._id_of = lazy_zeros((spec.rows,), np.int64)
        self._position_of = lazy_zeros((spec.rows,), np.int32)
        self._place_of = lazy_zeros((spec.rows,), np.int32)
        self._changed = lazy_zeros((spec.rows,), np.uint8)

    def __len__(self) -> int:
        """Rows that are there."""
        return self._count

    @property
    def memory(self) -> int:
        """Bytes that rows and what belongs to them take, and the index of ids at most."""
        return self._count * (self.spec.row_bytes + 8 + 4 + 1) + min(4 * self.spec.rows, 4096 * self._count)

    def find(self, ids: Ids) -> Positions:
        """Where rows are, int32 [n]; those that are not there are made, with their first numbers.

        Raises:
            ValueError: an id is out of range, or a dense table lacks it.
        """
        if self.spec.dense:
            positions = self.where(ids)
            if (positions < 0).any():
                raise ValueError(f"rows of {self.spec.name} are given, not drawn")
            return positions
        self._check(ids)
        positions = np.empty(len(ids), np.int32)
        before = self._count
        self._count = kernels.find(self._position_of, ids, positions, self._id_of, before)
        if self._count > before:
            self._draw(before, self._count)
        return positions

    def where(self, ids: Ids) -> Positions:
        """Where rows are, int32 [n]; -1 for those that are not there."""
        self._check(ids)
        return self._position_of[ids] - 1

    def read(self, positions: Positions, out: Numbers | None = None) -> Numbers:
        """The weights of rows, [n, width]."""
        if out is None:
            out = np.empty((len(positions), self.spec.width), self.spec.dtype)
        kernels.read(self._rows, positions, out)
        return out

    def peek(self, ids: Ids) -> Numbers:
        """The weights of rows, [n, width], as they are or will begin. Makes none."""
        positions = self.where(ids)
        out = np.zeros((len(ids), self.spec.width), self.spec.dtype)
        kernels.read(self._rows, positions, out)
        lacking = np.flatnonzero(positions < 0)
        if len(lacking):
            first = np.empty((len(lacking), self.spec.width), self.spec.dtype)
            draw_rows(self.spec, ids[lacking], first)
            out[lacking] = first
        return out

    def update(
        self, positions: Sequence[Positions], gradients: Sequence[Numbers], learning_rate: float, iteration: int
    ) -> Undo:
        """One step of the optimizer on the rows that gradients name.

        Args:
            positions: of each worker, [n], all different.
            gradients: of each worker, [n, width]; those of one row are added up in this order.
            learning_rate, iteration: the optimizer's, before this step.
        """
        total = sum(map(len, positions))
        unique = np.empty(total, np.int32)
        sums = np.empty((total, self.spec.width), self.spec.dtype)
        count = 0
        for own, gradient in zip(positions, gradients, strict=True):
            count = kernels.add_up(own, gradient, self._place_of, unique, sums, count)
        unique, sums = unique[:count], sums[:count]
        before = np.empty((count, self._rows.shape[1]), self.spec.dtype)
        for start in range(0, count, _UPDATED):
            block = slice(start, start + _UPDATED)
            kernels.touch(self._rows, unique[block], before[block], self._changed, self._place_of)
            self._rule.apply(self._rows, unique[block], sums[block], learning_rate, iteration)
        return Undo(unique, before)

    def undo(self, undo: Undo) -> None:
        """Put back what an update changed; it is the last one. So the rows have changed again."""
        self._rows[undo.positions] = undo.before
        self._changed[undo.positions] = 1

    def whole(self, positions: Positions) -> Numbers:
        """Rows with their slots, [n, width * (1 + slots)], copied."""
        return self._rows[positions]

    def ids_at(self, positions: Positions) -> Ids:
        """The ids of rows, [n]."""
        return self._id_of[positions]

    def put(self, ids: Ids, whole: Numbers) -> None:
        """Set rows with their slots."""
        self._check(ids)
        positions = np.empty(len(ids), np.int32)
        self._count = kernels.find(self._position_of, ids, positions, self._id_of, self._count)
        self._rows[positions] = whole
        self._changed[positions] = 1

    def take_changed(self) -> Positions:
        """Positions of the rows that are new or have changed since this was called last, ascending."""
        positions = np.flatnonzero(self._changed[: self._count]).astype(np.int32)
        self._changed[: self._count] = 0
        return positions

    def mark_changed(self, positions: Positions) -> None:
        """`take_changed` is to name these rows again."""
        self._changed[positions] = 1

    def keep(self, shards: NDArray[np.bool_]) -> None:
        """Drop the rows of all other shards, in place; positions are new afterwards.

        Args:
            shards: [SHARDS].
        """
        end = 0
        for start in range(0, self._count, _BLOCK):
            stop = min(start + _BLOCK, self._count)
            ids = self._id_of[start:stop].copy()
            kept = shards[shards_of(ids)]
            self._position_of[ids[~kept]] = 0
            chosen, first, end = start + np.flatnonzero(kept), end, end + int(kept.sum())
            if end == stop:  # nothing was dropped so far
                continue
            self._position_of[ids[kept]] = np.arange(first + 1, end + 1)
            for array in (self._rows, self._id_of, self._changed):
                array[first:end] = array[chosen]
        self._count = end
        for array in (self._rows, self._id_of, self._changed, self._place_of):
            release(array, end)

    def clear(self) -> None:
        """Drop all rows."""
        self._begin()

    def _check(self, ids: Ids) -> None:
        if len(ids) and not (ids.min() >= 0 and ids.max() < self.spec.rows):
            raise ValueError(f"an id of {self.spec.name} is not in [0, {self.spec.rows})")

    def _draw(self, start: int, stop: int) -> None:
        width = self.spec.width
        for first in range(start, stop, _BLOCK):
            block = slice(first, min(first + _BLOCK, stop))
            draw_rows(self.spec, self._id_of[block], self._rows[block])
            for slot, value in enumerate(self.spec.optimizer.initial_slots):
                self._rows[block, width * (slot + 1) : width * (slot + 2)] = value
            self._changed[block] = 1
