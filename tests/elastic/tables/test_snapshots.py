"""Snapshots are the rows as they were when they began, whatever is done meanwhile, and whoever reads them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlflow_elastic.elastic.tables.manifests import complete_steps, forget, read_manifests, segment_path
from sqlflow_elastic.elastic.tables.segments import read_segment
from sqlflow_elastic.elastic.tables.sharding import SHARDS, owners
from sqlflow_elastic.elastic.tables.snapshots import SnapshotError, Snapshots
from sqlflow_elastic.elastic.tables.table import Table, Undo
from tests.elastic.tables import snapshot_process
from tests.elastic.tables.full_disk import files_of_at_most
from tests.elastic.tables.specs import SGD, table
from tests.waiting import wait_until

ALL = np.ones(SHARDS, np.bool_)
ONE = ("ps-0",)
SPECS = [table(), table((20,), SGD, "float32")]
#: Many pieces of few rows.
SMALL = 3 * SPECS[0].row_bytes

#: Of each table every row with its slots, by its id.
State = list[dict[int, list[float]]]


class Server:
    """What a server does with its tables and snapshots."""

    def __init__(self, folder: Path, name: str = "ps-0", piece_bytes: int = SMALL) -> None:
        self.folder = folder
        self.tables = [Table(spec) for spec in SPECS]
        self.snapshots = Snapshots(folder, name, piece_bytes)
        self.snapshots.of(self.tables)
        self._undo: list[tuple[int, Undo]] = []

    def update(self, ids: list[int], scale: float = 1.0) -> None:
        self._undo = []
        for index, served in enumerate(self.tables):
            own = [id_ for id_ in ids if id_ < served.spec.rows]
            gradients = np.full((len(own), 4), scale, served.spec.dtype)
            undo = served.update([served.find(np.array(own, np.int64))], [gradients], 0.1, 0)
            self.snapshots.noticed(index, undo)
            self._undo.append((index, undo))

    def step_back(self) -> None:
        """Worlds begin with this, when no snapshot is under way."""
        self.snapshots.cancel()
        for index, undo in self._undo:
            self.tables[index].undo(undo)
        self._undo = []

    def finish(self) -> None:
        wait_until(lambda: self.snapshots.work(0.01) or not self.snapshots.busy, 20.0)

    def snapshot(self, step: int, servers: tuple[str, ...] = ONE) -> None:
        self.snapshots.begin(step, servers)
        self.finish()

    def state(self) -> State:
        found: State = []
        for served in self.tables:
            positions = np.arange(len(served), dtype=np.int32)
            ids, rows = served.ids_at(positions).tolist(), served.whole(positions).tolist()
            found.append(dict(zip(ids, rows, strict=True)))
        return found


def loaded(folder: Path, step: int, mask: Any = ALL) -> State:
    reader = Server(folder, "reader")
    reader.snapshots.load(step, mask)
    return reader.state()


IDS = st.lists(st.integers(0, 79), min_size=1, max_size=20, unique=True)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), IDS),
        st.tuples(st.just("make"), IDS),
        st.tuples(
            st.sampled_from(["work", "begin", "begin", "finish", "fail", "cancel", "step back", "load", "forget"]),
            st.just([]),
        ),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(ACTIONS)
def test_a_snapshot_is_what_was_there_when_it_began(actions: list[tuple[str, list[int]]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(name))
        try:
            follow(server, actions)
        finally:
            server.snapshots.close()


def follow(server: Server, actions: list[tuple[str, list[int]]]) -> None:
    snapshots, step, finished = server.snapshots, 0, -1
    begun: dict[int, State] = {}
    for action, ids in [*actions, ("begin", []), ("update", [1, 2, 3]), ("finish", [])]:
        if action == "update":
            server.update(ids, 1.0 + step)
        elif action == "make":
            server.tables[0].find(np.array(ids))
        elif action in ("begin", "fail"):
            step += 1
            begun[step] = server.state()
            with files_of_at_most(10 if action == "fail" else 1 << 30):
                snapshots.begin(step, ONE)
                if action == "fail":
                    server.finish()
                    assert "too large" in snapshots.failure
                    assert snapshots.step == finished
        elif action == "work":
            snapshots.work(0.0)
        elif action == "finish" and snapshots.busy:
            server.finish()
            assert not snapshots.failure
            assert snapshots.step == step
            finished = step
            assert loaded(server.folder, step) == begun[step]
        elif action == "cancel":
            snapshots.cancel()
        elif action == "step back":
            server.step_back()
        elif action == "load" and finished >= 0:
            snapshots.cancel()
            for served in server.tables:
                served.clear()
            snapshots.load(finished, ALL)
            assert server.state() == begun[finished]
            finished = snapshots.step
        elif action == "forget" and finished >= 0:
            forget(server.folder, {finished})
    assert finished == step
    assert loaded(server.folder, step) == begun[step]


def test_rows_are_shared_out_anew_from_the_snapshots_of_others(tmp_path: Path) -> None:
    names = ("ps-0", "ps-1")
    whole: State = [{} for _ in SPECS]
    for index, name in enumerate(names):
        server = Server(tmp_path, name)
        server.update(list(range(80)))
        for served in server.tables:
            served.keep(owners(names) == index)
        for all_rows, own in zip(whole, server.state(), strict=True):
            all_rows |= own
        server.snapshot(4, names)
    assert complete_steps(tmp_path) == {4}
    found = [loaded(tmp_path, 4, owners(["a", "b", "c"]) == index) for index in range(3)]
    for index in range(len(SPECS)):
        assert sum(len(part[index]) for part in found) == SPECS[index].rows
        assert {id_: row for part in found for id_, row in part[index].items()} == whole[index]


def test_a_step_that_a_server_lacks_is_not_complete(tmp_path: Path) -> None:
    Server(tmp_path).snapshot(3, ("ps-0", "ps-1"))
    assert complete_steps(tmp_path) == set()
    with pytest.raises(SnapshotError, match="step 3"):
        loaded(tmp_path, 3)


def test_a_snapshot_whose_rows_are_gone_is_told(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.update([1, 2])
    server.snapshot(3)
    (segment,) = (tmp_path / "segments").iterdir()
    segment.unlink()
    with pytest.raises(SnapshotError, match=r"cannot be used: .*\.rows cannot be read"):
        loaded(tmp_path, 3)


def test_a_step_is_written_anew_by_a_server_of_the_same_name(tmp_path: Path) -> None:
    """Until it is done, and if it never is, what the first one wrote counts."""
    first = Server(tmp_path)
    first.update([1, 2, 3])
    first.snapshot(5)
    second = Server(tmp_path)
    second.snapshots.load(5, ALL)
    for served in second.tables:
        served.keep(owners(["ps-0", "ps-1"]) == 0)
    second.snapshot(5, ("ps-0", "ps-1"))
    assert loaded(tmp_path, 5) == first.state()


def test_where_there_is_no_folder_nothing_is_lost(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.update([5, 6])
    (tmp_path / "segments").write_text("in the way of a folder")
    server.snapshot(1)
    assert server.snapshots.failure
    assert server.snapshots.step == -1
    (tmp_path / "segments").unlink()
    server.snapshot(2)
    assert not server.snapshots.failure
    assert loaded(tmp_path, 2) == server.state()


def test_what_is_given_up_is_not_published(tmp_path: Path) -> None:
    server = Server(tmp_path, piece_bytes=30 * SPECS[0].row_bytes)
    server.update(list(range(80)))
    complete = []
    for step in range(40):
        server.snapshots.begin(step, ONE)
        for _ in range(step % 8):  # its thread is at this or that
            server.snapshots.work(0.0)
        server.snapshots.cancel()
        complete.append(complete_steps(tmp_path))
    server.snapshots.close()
    for step, found in enumerate(complete):
        assert {each for each in complete_steps(tmp_path) if each <= step} == found
    assert not list((tmp_path / "segments").glob(".*"))
    server.snapshot(40)
    assert loaded(tmp_path, 40) == server.state()


def test_a_bug_in_the_writing_thread_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def publish(*arguments: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("sqlflow_elastic.elastic.tables.snapshots.write_manifest", publish)
    with pytest.raises(ZeroDivisionError):
        Server(tmp_path).snapshot(1)


def test_only_changes_are_written_until_they_are_too_many(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.update(list(range(80)))
    lengths = []
    for step in range(1, 30):
        server.update(list(range(10)))
        server.snapshot(step)
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
    assert loaded(tmp_path, 29) == server.state()


def test_kills_lose_nothing_that_was_complete_and_leave_nothing_for_good(tmp_path: Path) -> None:
    module = "tests.elastic.tables.snapshot_process"
    told = 0
    for round_, names in enumerate([["ps-0"], ["ps-0", "ps-1"], ["ps-1", "ps-2", "ps-0"], ["ps-0"], ["ps-0", "ps-1"]]):
        with subprocess.Popen(
            [sys.executable, "-m", module, str(tmp_path), *names], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(2 + 3 * round_):
                line = process.stdout.readline()
                assert line, "the process ended by itself"
                told = int(line)
            process.kill()
        complete = complete_steps(tmp_path)
        assert max(complete) >= told
        right = Table(snapshot_process.SPEC)
        for step in range(1, max(complete) + 1):
            snapshot_process.train(right, step, ALL)
            if step in complete and step >= told:
                assert rows_in(tmp_path, step) == rows_of(right)
    last = max(complete_steps(tmp_path))
    forget(tmp_path, {last})
    left = {path.name for path in (tmp_path / "segments").iterdir()}
    named = {name for each in read_manifests(tmp_path, last) for name in each.segments}
    assert named <= left
    assert all(int(name.lstrip(".").split("-")[0]) >= last for name in left - named)


def rows_of(served: Table) -> dict[int, list[float]]:
    positions = np.arange(len(served), dtype=np.int32)
    return dict(zip(served.ids_at(positions).tolist(), served.whole(positions).tolist(), strict=True))


def rows_in(folder: Path, step: int) -> dict[int, list[float]]:
    served, reader = Table(snapshot_process.SPEC), Snapshots(folder, "reader")
    reader.of([served])
    reader.load(step, ALL)
    return rows_of(served)
