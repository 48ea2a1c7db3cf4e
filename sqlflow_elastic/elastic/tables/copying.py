"""Rows as they are at one moment, copied piece by piece while they change."""

from __future__ import annotations

import numpy as np

from sqlflow_elastic.elastic.tables.memory import lazy_zeros
from sqlflow_elastic.elastic.tables.segments import Ids, Numbers
from sqlflow_elastic.elastic.tables.table import Table, Undo


class TableCopy:
    """A copy of a table's rows as they are when this is made. No row may be dropped from then on.

    What a step changes is kept as it was, if it is still to be copied; so memory is that of these rows.

    Args:
        table: whose rows.
        whole: all rows are copied; else those that changed since they were last taken as changed. They are taken.
        piece_bytes: of a piece, about.
    """

    def __init__(self, table: Table, whole: bool, piece_bytes: int) -> None:
        spec = table.spec
        self._table = table
        self._end = len(table)
        self._next = 0
        self._rows_at_a_time = max(1, piece_bytes // spec.row_bytes)
        self._copied = lazy_zeros((spec.rows,), np.bool_)
        changed = table.take_changed()
        if whole:
            self._copied[: self._end] = True
        else:
            self._copied[changed] = True
        #: For each position one more than the place where the row is kept; 0 for none.
        self._place_of = lazy_zeros((spec.rows,), np.int32)
        self._kept = lazy_zeros((self._end, spec.width * (1 + spec.slots)), spec.dtype)
        self._count = 0

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(np.count_nonzero(self._copied[: self._end]))

    @property
    def ended(self) -> bool:
        """Whether all is copied."""
        return self._next >= self._end

    def piece(self) -> tuple[Ids, Numbers]:
        """The next rows: ids [n] and rows with slots [n, width * (1 + slots)]; n may be 0."""
        positions = self._positions(self._next)
        self._next += self._rows_at_a_time
        whole = self._table.whole(positions)
        if self._count:
            places = self._place_of[positions]
            chosen = np.flatnonzero(places)
            whole[chosen] = self._kept[places[chosen] - 1]
        return self._table.ids_at(positions), whole

    def noticed(self, undo: Undo) -> None:
        """Rows have just been changed."""
        if self.ended:
            return
        lacking = self._copied[undo.positions] & (self._place_of[undo.positions] == 0)
        chosen = np.flatnonzero(lacking & (undo.positions >= self._next))
        end = self._count + len(chosen)
        self._kept[self._count : end] = undo.before[chosen]
        self._place_of[undo.positions[chosen]] = np.arange(self._count + 1, end + 1)
        self._count = end

    def give_back(self) -> None:
        """All its rows have changed, as far as the next copy is concerned."""
        for start in range(0, self._end, self._rows_at_a_time):
            self._table.mark_changed(self._positions(start))

    def _positions(self, start: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        stop = min(start + self._rows_at_a_time, self._end)
        return (start + np.flatnonzero(self._copied[start:stop])).astype(np.int32)
