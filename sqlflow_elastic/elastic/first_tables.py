"""What servers begin with where training goes on from a trained model: a snapshot of its tables after no step."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from sqlflow_elastic.elastic.tables.manifests import Manifest, complete_steps, segment_path, write_manifest
from sqlflow_elastic.elastic.tables.segments import SegmentWriter
from sqlflow_elastic.models.tables.initial import with_first_slots
from sqlflow_elastic.models.tables.spec import TableSpec
from sqlflow_elastic.models.trained_tables import TrainedTables

#: As whose manifest it is written; no server has this name.
_WRITER = "model"


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
    name = f"{0:012d}-{_WRITER}-{secrets.token_hex(4)}.rows"
    with SegmentWriter(segment_path(folder, name)) as writer:
        for index, spec in enumerate(specs):
            for each, base in zip(spec.ranges, spec.bases[:-1], strict=True):
                for ids, rows in trained.chunks(each):
                    writer.add(index, base + ids, with_first_slots(spec, rows))
    write_manifest(folder, 0, Manifest(_WRITER, (_WRITER,), (name,)))
