"""Rows as they are at one moment, copied piece by piece while they change."""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlflow_elastic.elastic.tables.compiled import compiled
from sqlflow_elastic.elastic.tables.memory import lazy_zeros
from sqlflow_elastic.elastic.tables.segments import Ids, Numbers
from sqlflow_elastic.elastic.tables.table import Positions, Table, Undo

#: Marks of rows: to be copied as they are; to be copied as they were. Rows that are not copied have none.
_COPIED, _KEPT = 1, 2


class TableCopy:
    """A copy of a table's rows as they are when this is made. No row may be dropped from then on.

    What a step changes is kept as it was, if it is still to be copied; so memory is that of these rows, and a byte a
    row.

    Args:
        table: whose rows.
        whole: all rows are copied; else those that changed since they were last taken as changed. They are taken.
        piece_bytes: of a piece, about.

    Attributes:
        rows: how many are copied.
    """

    def __init__(self, table: Table, whole: bool, piece_bytes: int) -> None:
        spec = table.spec
        self._table = table
        self._end = len(table)
        self._next = 0
        self._rows_at_a_time = max(1, piece_bytes // spec.row_bytes)
        self._marks = lazy_zeros((spec.rows,), np.uint8)
        changed = table.take_changed()
        if whole:
            self._marks[: self._end] = _COPIED
        else:
            self._marks[changed] = _COPIED
        self.rows = self._end if whole else len(changed)
        self._kept = lazy_zeros((self.rows, spec.width * (1 + spec.slots)), spec.dtype, filled=True)
        self._count = 0
        #: Where kept rows are.
        self._place_of = lazy_zeros((spec.rows,), np.int32)

    @property
    def ended(self) -> bool:
        """Whether all is copied."""
        return self._next >= self._end

    def piece(self) -> tuple[Ids, Numbers]:
        """The next rows: ids [n] and rows with slots [n, width * (1 + slots)]; n may be 0."""
        positions = self._positions(self._next)
        whole = self._table.whole(positions)
        _lay_over(positions, self._marks, self._place_of, self._kept, whole)
        self._next += self._rows_at_a_time
        return self._table.ids_at(positions), whole

    def noticed(self, undo: Undo) -> None:
        """Rows have just been changed."""
        if not self.ended:
            self._count = _keep(
                undo.positions, undo.before, self._next, self._marks, self._place_of, self._kept, self._count
            )

    def give_back(self) -> None:
        """All its rows have changed, as far as the next copy is concerned."""
        for start in range(0, self._end, self._rows_at_a_time):
            self._table.mark_changed(self._positions(start))

    def _positions(self, start: int) -> Positions:
        stop = min(start + self._rows_at_a_time, self._end)
        return (start + np.flatnonzero(self._marks[start:stop])).astype(np.int32)


@compiled
def _keep(positions: Any, before: Any, first: int, marks: Any, place_of: Any, kept: Any, count: int) -> int:
    """Keep rows from the position ``first`` on that are to be copied and not kept yet. Returns how many are kept."""
    for i in range(len(positions)):
        position = positions[i]
        if position >= first and marks[position] == _COPIED:
            marks[position] = _KEPT
            place_of[position] = count
            for j in range(kept.shape[1]):
                kept[count, j] = before[i, j]
            count += 1
    return count


@compiled
def _lay_over(positions: Any, marks: Any, place_of: Any, kept: Any, whole: Any) -> None:
    """Put kept rows in the place of what they are now."""
    for i in range(len(positions)):
        position = positions[i]
        if marks[position] == _KEPT:
            place = place_of[position]
            for j in range(whole.shape[1]):
                whole[i, j] = kept[place, j]
