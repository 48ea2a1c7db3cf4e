"""All rows of a table after a step, out of the servers' snapshots: in the order of ids, in pieces."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables.snapshots import rows_of
from sqlflow_elastic.models.tables.spec import TableSpec

_BLOCK_BYTES = 256 << 20


def merged(
    folder: Path, step: int, table: int, spec: TableSpec, block_bytes: int = _BLOCK_BYTES
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Ids [n], ascending through all pieces, and weights [n, width], without slots.

    Snapshots are read once for each block of ids; memory is a few blocks'.

    Args:
        folder: of the snapshots.
        step: of a complete one.
        table: its index among the tables.
        spec: what it is.
        block_bytes: of the rows in a block, about.

    Raises:
        SnapshotError: there is no such snapshot, or it is damaged.
    """
    total = sum(len(ids) for ids, _ in rows_of(folder, step, table))
    blocks = max(1, math.ceil(total * spec.row_bytes / block_bytes))
    bounds = [spec.rows * block // blocks for block in range(blocks + 1)]
    for low, high in itertools.pairwise(bounds):
        all_ids, all_rows = [np.empty(0, np.int64)], [np.empty((0, spec.width), spec.dtype)]
        for ids, whole in rows_of(folder, step, table):
            chosen = np.flatnonzero((ids >= low) & (ids < high))
            all_ids.append(ids[chosen])
            all_rows.append(whole[chosen, : spec.width])
        ids = np.concatenate(all_ids)
        # The last of equal ids: later segments take the place of earlier ones.
        last = len(ids) - 1 - np.unique(ids[::-1], return_index=True)[1]
        if len(last):
            yield ids[last], np.concatenate(all_rows)[last]
