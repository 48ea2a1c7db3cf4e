"""A snapshot of all tables that a worker writes, for servers to begin from."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from sqlflow_elastic.elastic.tables.manifests import Manifest, segment_path, write_manifest
from sqlflow_elastic.elastic.tables.segments import Ids, Numbers, SegmentWriter

#: As whose manifest it is written; no server has this name.
_WRITER = "model"


def write_whole_snapshot(folder: Path, step: int, pieces: Iterable[tuple[int, Ids, Numbers]]) -> None:
    """Write it: durable when this returns, whole or not at all. It takes the place of others of the step.

    Args:
        folder: of the snapshots.
        step: after which the rows are as they are.
        pieces: the index of a table, ids [n], and rows with their slots [n, width * (1 + slots)].

    Raises:
        OSError: it cannot be written.
    """
    name = f"{step:012d}-{_WRITER}-{secrets.token_hex(4)}.rows"
    with SegmentWriter(segment_path(folder, name)) as writer:
        for table, ids, whole in pieces:
            writer.add(table, ids, whole)
    write_manifest(folder, step, Manifest(_WRITER, (_WRITER,), (name,)))
