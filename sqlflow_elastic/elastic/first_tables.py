"""What servers begin with where training goes on from a trained model: a snapshot of its tables after no step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlflow_elastic.elastic.tables.manifests import complete_steps
from sqlflow_elastic.elastic.tables.segments import Ids, Numbers
from sqlflow_elastic.elastic.tables.whole_snapshot import write_whole_snapshot
from sqlflow_elastic.models.tables.initial import with_first_slots
from sqlflow_elastic.models.tables.spec import TableSpec
from sqlflow_elastic.models.trained_tables import TrainedTables


def write_first_tables(folder: Path, specs: Sequence[TableSpec], trained: TrainedTables) -> None:
    """Write the snapshot, unless there is one of any step already.

    Args:
        folder: of the snapshots.
        specs: of all tables.
        trained: where their rows are.

    Raises:
        ModelStoreError: a table is damaged.
        OSError: the snapshot cannot be written.
    """
    if complete_steps(folder):
        return
    trained.check()
    write_whole_snapshot(folder, 0, _pieces(specs, trained))


def _pieces(specs: Sequence[TableSpec], trained: TrainedTables) -> Iterator[tuple[int, Ids, Numbers]]:
    for index, spec in enumerate(specs):
        for each, base in zip(spec.ranges, spec.bases[:-1], strict=True):
            for ids, rows in trained.chunks(each):
                yield index, base + ids, with_first_slots(spec, rows)
