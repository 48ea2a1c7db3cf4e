"""All rows of a table after a step, out of the servers' snapshots: in the order of ids, in pieces."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sqlflow_elastic.elastic.tables.segments import Ids, Numbers
from sqlflow_elastic.elastic.tables.snapshots import manifests_of, rows_of
from sqlflow_elastic.models.tables.spec import TableSpec

_BLOCK_BYTES = 64 << 20
#: Into so many ranges of ids rows are counted, at most.
_RANGES = 1 << 16


def merged(
    folder: Path, step: int, table: int, spec: TableSpec, block_bytes: int = _BLOCK_BYTES
) -> Iterator[tuple[Ids, Numbers]]:
    """Ids [n], ascending through all pieces, and weights [n, width], without slots.

    Rows are sorted into blocks by their ids as they are read, once; then each block is sorted. Several blocks are
    kept in a file without a name beside the snapshots meanwhile, so memory is that of about three blocks.

    Args:
        folder: of the snapshots.
        step: of a complete one.
        table: its index among the tables.
        spec: what it is.
        block_bytes: of the rows in a block, about.

    Raises:
        SnapshotError: there is no such snapshot, or it is damaged.
        OSError: there is no room for the file.
    """
    ids_per_range = max(1, -(-spec.rows // _RANGES))
    in_range = np.zeros(-(-spec.rows // ids_per_range), np.int64)
    manifests = manifests_of(folder, step)
    for ids, _ in rows_of(folder, manifests, table, spec, check=False):
        in_range += np.bincount(ids // ids_per_range, minlength=len(in_range))
    row_bytes = 8 + spec.width * np.dtype(spec.dtype).itemsize
    block_of_range = (np.cumsum(in_range) - in_range) * row_bytes // block_bytes
    _, block_of_range = np.unique(block_of_range, return_inverse=True)
    ends = np.cumsum(np.bincount(block_of_range, weights=in_range).astype(np.int64))
    starts = np.concatenate([[0], ends])[:-1]
    with contextlib.ExitStack() as stack:
        all_ids, all_rows = _room(stack, folder, spec, int(in_range.sum()), len(ends) > 1)
        filled = starts.copy()
        for ids, whole in rows_of(folder, manifests, table, spec):
            blocks = block_of_range[ids // ids_per_range]
            order = np.argsort(blocks, kind="stable")
            counts = np.bincount(blocks, minlength=len(ends))
            places = np.repeat(filled - (np.cumsum(counts) - counts), counts) + np.arange(len(ids))
            all_ids[places], all_rows[places] = ids[order], whole[order, : spec.width]
            filled += counts
        for start, end in zip(starts, ends, strict=True):
            order = np.argsort(all_ids[start:end], kind="stable")
            ids = all_ids[start:end][order]
            # The last of equal ids: later pieces take the place of earlier ones.
            last = np.flatnonzero(np.diff(ids, append=-1))
            if len(last):
                yield ids[last], all_rows[start:end][order[last]]


def _room(stack: contextlib.ExitStack, folder: Path, spec: TableSpec, count: int, on_disk: bool) -> tuple[Ids, Numbers]:
    """Place for so many ids and rows. Raises: OSError: the disk has none."""
    dtype = np.dtype(spec.dtype)
    if not on_disk:
        return np.empty(count, np.int64), np.empty((count, spec.width), dtype)
    size = count * (8 + spec.width * dtype.itemsize)
    file = stack.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115 - the stack closes it
    os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error here; later it would be a signal
    room = np.memmap(file, np.uint8, "r+", shape=(size,))
    return room[: 8 * count].view(np.int64), room[8 * count :].view(dtype).reshape(count, spec.width)
