"""Snapshots are the rows as they were when they began, whatever is done meanwhile, and whoever reads them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlflow_elastic.elastic.tables.manifests import complete_steps, forget, read_manifests, segment_path
from sqlflow_elastic.elastic.tables.merging import merged
from sqlflow_elastic.elastic.tables.segments import SegmentError, SegmentWriter, read_segment
from sqlflow_elastic.elastic.tables.sharding import SHARDS, owners
from sqlflow_elastic.elastic.tables.snapshots import SnapshotError, Snapshots
from sqlflow_elastic.elastic.tables.table import Table
from tests.elastic.tables.specs import table
from tests.waiting import wait_until

ALL = np.ones(SHARDS, np.bool_)
ONE = ("ps-0",)


def state(served: Table) -> dict[int, list[float]]:
    """Every row with its slots, by its id."""
    positions = np.arange(len(served), dtype=np.int32)
    rows = served.whole(positions).tolist()
    return dict(zip(served.ids_at(positions).tolist(), rows, strict=True))


def finish(snapshots: Snapshots) -> None:
    wait_until(lambda: snapshots.work(0.01), 20.0)


def update(served: Table, ids: list[int], snapshots: Snapshots | None = None) -> None:
    positions = served.find(np.array(ids))
    undo = served.update([positions], [np.ones((len(ids), 4))], 0.1, 0)
    if snapshots is not None:
        snapshots.noticed(0, undo)


def loaded(folder: Path, step: int, mask: Any = ALL) -> dict[int, list[float]]:
    served = Table(table())
    reader = Snapshots(folder, "reader")
    reader.of([served])
    reader.load(step, mask)
    return state(served)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.lists(st.integers(0, 79), min_size=1, max_size=20, unique=True)),
        st.tuples(st.just("work"), st.just([])),
        st.tuples(st.just("begin"), st.just([])),
        st.tuples(st.just("finish"), st.just([])),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(ACTIONS)
def test_a_snapshot_is_what_was_there_when_it_began(actions: list[tuple[str, list[int]]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        follow(Path(name), actions)


def follow(folder: Path, actions: list[tuple[str, list[int]]]) -> None:
    served, step = Table(table()), 0
    snapshots = Snapshots(folder, "ps-0", 3 * table().row_bytes)  # many pieces of few rows
    snapshots.of([served])
    begun: dict[int, dict[int, list[float]]] = {}
    for action, ids in [*actions, ("begin", []), ("update", [1, 2, 3]), ("finish", [])]:
        match action:
            case "update":
                update(served, ids, snapshots)
            case "begin":
                step += 1
                begun[step] = state(served)
                snapshots.begin(step, ONE)
            case "work":
                snapshots.work(0.0)
            case "finish" if snapshots.busy:
                finish(snapshots)
                assert snapshots.step == step
                assert loaded(folder, step) == begun[step]
    assert loaded(folder, step) == begun[step]
    snapshots.close()


def test_rows_are_shared_out_anew_from_the_snapshots_of_others(tmp_path: Path) -> None:
    names = ["ps-0", "ps-1"]
    ids = np.arange(80)
    whole: dict[int, list[float]] = {}
    for index, name in enumerate(names):
        served, snapshots = Table(table()), Snapshots(tmp_path, name)
        snapshots.of([served])
        update(served, ids.tolist())
        served.keep(owners(names) == index)
        whole |= state(served)
        snapshots.begin(4, names)
        finish(snapshots)
    assert complete_steps(tmp_path) == {4}
    found = [loaded(tmp_path, 4, owners(["a", "b", "c"]) == index) for index in range(3)]
    assert sum(map(len, found)) == 80
    assert {id_: row for part in found for id_, row in part.items()} == whole
    # And in the order of ids, in pieces, for the result.
    for block in (1 << 30, 7 * table().row_bytes):
        pieces = list(merged(tmp_path, 4, 0, table(), block))
        assert np.concatenate([each for each, _ in pieces]).tolist() == ids.tolist()
        for each, rows in pieces:
            assert rows.tolist() == [whole[id_][:4] for id_ in each.tolist()]


def test_a_step_that_a_server_lacks_is_not_complete(tmp_path: Path) -> None:
    served, snapshots = Table(table()), Snapshots(tmp_path, "ps-0")
    snapshots.of([served])
    snapshots.begin(3, ("ps-0", "ps-1"))
    finish(snapshots)
    assert complete_steps(tmp_path) == set()
    with pytest.raises(SnapshotError, match="step 3"):
        loaded(tmp_path, 3)


def test_what_cannot_be_written_is_in_the_next_one(tmp_path: Path) -> None:
    served, snapshots = Table(table()), Snapshots(tmp_path, "ps-0")
    snapshots.of([served])
    update(served, [5, 6])
    (tmp_path / "segments").write_text("in the way of a folder")
    snapshots.begin(1, ONE)
    finish(snapshots)
    assert snapshots.failure
    assert snapshots.step == -1
    (tmp_path / "segments").unlink()
    snapshots.begin(2, ONE)
    finish(snapshots)
    assert not snapshots.failure
    assert loaded(tmp_path, 2) == state(served)


def test_only_changes_are_written_until_they_are_too_many(tmp_path: Path) -> None:
    served, snapshots = Table(table()), Snapshots(tmp_path, "ps-0")
    snapshots.of([served])
    update(served, list(range(80)))
    lengths = []
    for step in range(1, 30):
        update(served, list(range(10)))
        snapshots.begin(step, ONE)
        finish(snapshots)
        (manifest,) = read_manifests(tmp_path, step)
        lengths.append(len(manifest.segments))
        ids = [len(ids) for ids, _ in read_segment(segment_path(tmp_path, manifest.segments[-1]), 0)]
        assert sum(ids) in (10, 80)
    assert lengths[:3] == [1, 2, 3]
    assert max(lengths) < 15
    assert 1 in lengths[5:]
    forget(tmp_path, {28, 29})
    assert complete_steps(tmp_path) == {28, 29}
    named = {name for step in (28, 29) for each in read_manifests(tmp_path, step) for name in each.segments}
    assert {path.name for path in (tmp_path / "segments").iterdir()} == named
    assert loaded(tmp_path, 29) == state(served)


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_damage_is_found(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.rows"
    with SegmentWriter(path) as writer:
        writer.add(0, np.arange(50), np.ones((50, 8)))
        writer.add(1, np.arange(20), np.ones((20, 8)))
    assert [len(ids) for ids, _ in read_segment(path, 1)] == [20]
    data = bytearray(path.read_bytes())
    match damage:
        case "cut":
            path.write_bytes(data[:-300])
        case "changed":
            data[256 + 100] ^= 1
            path.write_bytes(data)
        case "gone":
            path.unlink()
    with pytest.raises(SegmentError, match=r"a\.rows"):
        list(read_segment(path, 0))


def test_an_unfinished_segment_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no more"), SegmentWriter(tmp_path / "a.rows") as writer:
        writer.add(0, np.arange(5), np.ones((5, 8)))
        raise RuntimeError("no more")
    assert list(tmp_path.iterdir()) == []
