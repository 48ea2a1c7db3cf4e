"""The rows of a table come out in the order of ids, as the newest segments have them, in little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlflow_elastic.elastic.tables.manifests import Manifest, segment_path, write_manifest
from sqlflow_elastic.elastic.tables.merging import merged
from sqlflow_elastic.elastic.tables.segments import SegmentWriter
from sqlflow_elastic.elastic.tables.sharding import owners, shards_of
from sqlflow_elastic.elastic.tables.snapshots import SnapshotError
from sqlflow_elastic.models.tables.spec import TableSpec
from tests.elastic.tables.specs import table

SERVERS = ("ps-0", "ps-1")
SPEC = table()

Pieces = list[tuple[int, list[int]]]


def write(folder: Path, spec: TableSpec, segments: list[Pieces]) -> dict[int, list[float]]:
    """Each server writes its ids of each segment's pieces (of tables 0 and 1). Returns what table 0 holds then."""
    owner = owners(SERVERS)[shards_of(np.arange(spec.rows))]
    state: dict[int, list[float]] = {}
    number = 0.0
    names: dict[str, list[str]] = {server: [] for server in SERVERS}
    for index, pieces in enumerate(segments):
        for at, server in enumerate(SERVERS):
            names[server].append(f"{index:012d}-{server}-x.rows")
            with SegmentWriter(segment_path(folder, names[server][-1])) as writer:
                for of_table, piece in pieces:
                    ids = np.array([each for each in piece if owner[each] == at], np.int64)
                    whole = number + np.arange(len(ids) * 8.0).reshape(-1, 8)
                    number += whole.size
                    writer.add(of_table, ids, whole)
                    if of_table == 0:
                        state |= dict(zip(ids.tolist(), whole[:, :4].tolist(), strict=True))
    for server in SERVERS:
        write_manifest(folder, 9, Manifest(server, SERVERS, tuple(names[server])))
    return state


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 1), st.lists(st.integers(0, SPEC.rows - 1), max_size=40, unique=True)), max_size=3
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([1, 100, 999, 1 << 20]),
)
def test_ids_ascend_and_the_newest_rows_count(tmp_path_factory: Any, segments: list[Pieces], block_bytes: int) -> None:
    folder = tmp_path_factory.mktemp("tables")
    state = write(folder, SPEC, segments)
    found: list[tuple[int, list[float]]] = []
    for ids, rows in merged(folder, 9, 0, SPEC, block_bytes):
        assert 0 < len(ids) == len(rows)
        found += zip(ids.tolist(), rows.tolist(), strict=True)
    assert found == sorted(state.items())
    assert not [path for path in folder.iterdir() if path.is_file()]


def test_a_snapshot_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="step 9"):
        list(merged(tmp_path, 9, 0, SPEC))


def test_rows_of_another_table_are_told(tmp_path: Path) -> None:
    write(tmp_path, SPEC, [[(0, [1, 70])]])
    for other in (table(dtype="float32"), table((30, 20))):
        with pytest.raises(SnapshotError, match="t"):
            list(merged(tmp_path, 9, 0, other))


MEASURE = """
import pathlib, sys
import numpy as np
from sqlflow_elastic.elastic.tables.merging import merged
from tests.elastic.tables.specs import table

def anonymous():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))

before, peak, count = anonymous(), 0, 0
for ids, rows in merged(pathlib.Path(sys.argv[1]), 9, 0, table((400_000,)), 1 << 20):
    peak, count = max(peak, anonymous() - before), count + len(ids)
print(count, peak)
"""


def test_memory_is_that_of_some_blocks(tmp_path: Path) -> None:
    spec = table((400_000,))
    write(tmp_path, spec, [[(0, list(range(start, start + 10_000)))] for start in range(0, 400_000, 10_000)])
    out = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)], check=True, capture_output=True, text=True, timeout=60
    )
    count, peak = map(int, out.stdout.split())
    assert count == 400_000
    assert peak < 12 << 20  # of 15 MB of ids and weights, in blocks of 1 MB; a piece of what is read is 1 MB too
