"""A process that trains a table on some servers and makes snapshots all the time, for tests that kill it.

What rows are after a step depends on the step only, not on how many servers there are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sqlflow_elastic.elastic.tables.manifests import complete_steps, forget
from sqlflow_elastic.elastic.tables.sharding import owners, shards_of
from sqlflow_elastic.elastic.tables.snapshots import Snapshots
from sqlflow_elastic.elastic.tables.table import Table, Undo
from tests.elastic.tables.specs import table

SPEC = table((4000,))
_PIECE_BYTES = 100 * SPEC.row_bytes


def train(served: Table, step: int, shards: np.ndarray) -> Undo:
    """Apply a step to the rows of some shards."""
    ids = np.random.default_rng(step).permutation(SPEC.rows)[:700]
    ids = ids[shards[shards_of(ids)]]
    return served.update([served.find(ids)], [np.outer(ids, np.arange(1.0, 5.0)) / 1000 + step], 0.1, step)


def run(folder: Path, names: Sequence[str]) -> None:
    """From the last complete step on, for ever. Says each step whose snapshot is complete."""
    step = max(complete_steps(folder), default=0)
    tables, shards = [Table(SPEC) for _ in names], [owners(names) == index for index in range(len(names))]
    servers = [Snapshots(folder, name, _PIECE_BYTES) for name in names]
    for served, snapshots, own in zip(tables, servers, shards, strict=True):
        snapshots.of([served])
        if step:
            snapshots.load(step, own)
    while True:
        for snapshots in servers:
            snapshots.begin(step, names)
        saved = step
        while any(snapshots.busy for snapshots in servers):
            step += 1
            for served, snapshots, own in zip(tables, servers, shards, strict=True):
                snapshots.noticed(0, train(served, step, own))
                snapshots.work(0.002)
        if any(snapshots.failure for snapshots in servers):
            raise RuntimeError([snapshots.failure for snapshots in servers])
        sys.stdout.write(f"{saved}\n")
        sys.stdout.flush()
        forget(folder, {saved})


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
