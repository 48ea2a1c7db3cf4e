"""Which different ids a batch names, and where each of them is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables.compiled import compiled

_MIX = np.uint64(0x9E3779B97F4A7C15)


class UniqueIds:
    """Finds them for some tables, again and again. Ids of categories become ids of tables.

    Args:
        columns: of each category: how many columns of a batch of ids it has.
        tables: of each category: the table that its rows are in, ascending from 0.
        bases: of each category: its first id in the table.
    """

    def __init__(self, columns: list[int], tables: list[int], bases: list[int]) -> None:
        self._starts = np.concatenate([[0], np.cumsum(columns)]).astype(np.int64)
        self._tables = np.array(tables, np.int64)
        self._bases = np.array(bases, np.int64)
        self._widest = max(columns)

    def __call__(self, ids: NDArray[np.int32]) -> tuple[list[NDArray[np.int64]], NDArray[np.int32]]:
        """Those of a batch.

        Args:
            ids: [b, columns], the categories' columns one after the other; an id below 0 counts as 0.

        Returns:
            The different ids of each table, each category's in the order in which they come; and for each place [b,
            columns] where its id is among its table's; -1 for an id below 0.
        """
        ids = np.ascontiguousarray(ids)
        found = np.empty(ids.size, np.int64)
        counts = np.zeros(self._tables[-1] + 1, np.int64)
        places = np.empty(ids.shape, np.int32)
        slots = np.empty(1 << max(4, int(2 * ids.shape[0] * self._widest - 1).bit_length()), np.int32)
        total = _unique(ids, self._starts, self._tables, self._bases, found, counts, places, slots)
        return np.split(found[:total], np.cumsum(counts)[:-1]), places


@compiled
def _unique(ids: Any, starts: Any, tables: Any, bases: Any, found: Any, counts: Any, places: Any, slots: Any) -> int:
    """Open addressing: ``slots`` holds one more than a place among the category's ids in ``found``."""
    total = 0
    mask = np.uint64(len(slots) - 1)
    for category in range(len(tables)):
        slots[:] = 0
        count = 0
        base = bases[category]
        table = tables[category]
        for row in range(ids.shape[0]):
            for column in range(starts[category], starts[category + 1]):
                absent = ids[row, column] < 0
                key = np.int64(max(ids[row, column], 0)) + base
                mixed = np.uint64(key) * _MIX
                slot = (mixed ^ (mixed >> np.uint64(29))) & mask
                while slots[slot] and found[total + slots[slot] - 1] != key:
                    slot = (slot + np.uint64(1)) & mask
                if not slots[slot]:
                    found[total + count] = key
                    count += 1
                    slots[slot] = count
                places[row, column] = -1 if absent else counts[table] + slots[slot] - 1
        counts[table] += count
        total += count
    return total
