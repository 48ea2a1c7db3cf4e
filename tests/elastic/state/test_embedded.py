"""What is special to the state store in a file."""

from __future__ import annotations

import os
import pwd
import signal
import sqlite3
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from sqlflow_elastic.elastic.state import Change, HistoryLost, StoreUnavailable, embedded, open_store
from tests.elastic.state.actors import acting


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder]).returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_the_file_and_those_beside_it_are_the_owners_only(path: str) -> None:
    before = os.umask(0)
    try:
        with open_store(path) as store:
            store.write({"a": b""})
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in Path(path).parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(["state.db", "state.db-lock", "state.db-shm", "state.db-wal"], 0o600)


def test_processes_that_make_the_store_at_the_same_time_make_one(path: str) -> None:
    start = threading.Barrier(8)

    def make(number: int) -> None:
        start.wait(10)
        with open_store(path) as store:
            store.write({f"from/{number}": b""})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(8)))
    with open_store(path) as store:
        assert len(store.list("from/")) == 8


@pytest.mark.parametrize("content", [b"no database at all, but text" * 100, b"SQLite format 3\0" + b"\xff" * 5_000])
def test_a_damaged_file_is_told_and_left_as_it_is(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    with pytest.raises(StoreUnavailable, match=r"state\.db is damaged"):
        open_store(path)
    assert Path(path).read_bytes() == content


def test_damage_that_shows_later_is_told(path: str) -> None:
    with open_store(path) as store:
        store.write({f"{number:04}": b"x" * 5_000 for number in range(100)})
    with Path(path).open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(Path(path).stat().st_size - 4096))
    with open_store(path) as store, pytest.raises(StoreUnavailable, match="is damaged"):
        store.list("")


def test_a_database_of_something_else_is_refused_and_left_as_it_is(path: str) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE entries (key, value)")
    other.close()
    before = Path(path).read_bytes()
    with pytest.raises(StoreUnavailable, match="is no state store, but something else"):
        open_store(path)
    assert Path(path).read_bytes() == before


def test_a_store_of_another_version_is_refused(path: str) -> None:
    open_store(path).close()
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 7")
    file.close()
    with pytest.raises(StoreUnavailable, match="has the version 7, this program 1"):
        open_store(path)


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is no file"):
        open_store(str(tmp_path))


def test_a_store_in_no_folder_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"nowhere/state\.db cannot be opened: No such file or directory"):
        open_store(str(tmp_path / "nowhere" / "state.db"))


def test_a_file_that_may_not_be_read_is_told() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        open_store(str(path)).close()
        path.chmod(0)
        with somebody_else(), pytest.raises(StoreUnavailable, match="cannot be"):
            open_store(str(path))


@contextmanager
def somebody_else() -> Iterator[None]:
    """Root may read everything; within, this process is nobody."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(own)


def test_a_removed_or_replaced_file_is_not_written_in_vain(path: str) -> None:
    with open_store(path) as store:
        store.write({"a": b""})
        Path(path).rename(path + ".old")
        with pytest.raises(StoreUnavailable, match="is gone: No such file or directory"):
            store.write({"a": b"1"})
        Path(path + ".old").rename(path)
        store.write({"b": b""})
        assert [entry.key for entry in store.list("")] == ["a", "b"]
        open_store(path + ".new").close()
        Path(path + ".new").replace(path)
        with pytest.raises(StoreUnavailable, match="was replaced"):
            store.write({"a": b"1"})


def test_a_full_disk_is_told_and_changes_nothing(small_disk: Path) -> None:
    with open_store(str(small_disk / "state.db")) as store, store.watch("") as watch:
        store.write({"kept": b"1"})
        revision = store.write({"kept": b"2"})
        watch.next(1)
        filling = small_disk / "filling"
        with pytest.raises(OSError, match="No space"), filling.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        with pytest.raises(StoreUnavailable, match=r"state\.db cannot be written: No space left on device"):
            store.write({"kept": b"3", "large": bytes(200_000)})
        [entry] = store.list("")
        assert (entry.value, entry.revision) == (b"2", revision)
        assert watch.next(0) == []
        filling.unlink()
        assert store.write({"kept": b"3"}) == revision + 1
        assert watch.next(1) == [Change("kept", b"3", revision + 1)]


def test_a_stopped_writer_delays_writers_no_longer_than_the_deadline(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlflow_elastic.elastic.state.embedded_file.CALL_SECONDS", 0.5)
    with open_store(path) as store:
        with acting(path, "stay_in_a_write") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGSTOP)
            begin = time.monotonic()
            with pytest.raises(StoreUnavailable, match="is busy: another process holds it"):
                store.write({"a": b""})
            assert time.monotonic() - begin < 10
            # Who only reads does not notice.
            assert store.list("") == []
            with open_store(path) as reader:
                assert reader.get("a") is None
        assert store.write({"a": b""}) == 1


def test_a_program_that_locks_the_file_delays_a_call_no_longer_than_the_deadline(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlflow_elastic.elastic.state.embedded_file.CALL_SECONDS", 0.5)
    open_store(path).close()
    locking = sqlite3.connect(path, isolation_level=None)
    locking.execute("BEGIN EXCLUSIVE")
    with open_store(path) as store:
        begin = time.monotonic()
        with pytest.raises(StoreUnavailable, match="is busy: another process holds it"):
            store.write({"a": b""})
        assert time.monotonic() - begin < 10
        locking.close()
        assert store.write({"a": b""}) == 1


def test_a_watch_sees_another_process_soon_and_its_own_at_once(path: str) -> None:
    with open_store(path) as store, store.watch("numbers/") as watch:
        for _ in range(3):
            revision = store.write({"numbers/own": b""})
            assert watch.next(0) == [Change("numbers/own", b"", revision)]
        with acting(path, "write_numbers", "other", 1):
            assert [change.key for change in watch.next(30)] == ["numbers/other"]


def test_a_watch_that_lay_still_gets_the_last_change_of_each_key(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_HISTORY_REVISIONS", 3)
    with open_store(path) as store:
        store.write({"j/kept": b"", "j/changed": b"", "j/gone": b""})
        with store.watch("j/") as watch:
            store.write({"j/gone": None})
            for number in range(5):
                changed = store.write({"j/changed": b"%d" % number})
            new = store.write({"j/new": b"", "j/never": b""})
            store.write({"j/never": None})
            end = store.write({"other": b""})
            assert watch.next(0) == [
                Change("j/changed", b"4", changed),
                Change("j/new", b"", new),
                Change("j/gone", None, end),
            ]
            assert watch.next(0) == []
            again = store.write({"j/gone": b""})
            assert watch.next(0) == [Change("j/gone", b"", again)]
        with pytest.raises(HistoryLost):
            store.watch("j/", after=changed)
        with store.watch("j/", after=again - 3) as watch:
            assert [change.revision for change in watch.next(0)] == [again - 2, again]


def test_old_changes_are_forgotten_by_size_too(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_HISTORY_BYTES", 100_000)
    with open_store(path) as store:
        for _ in range(100):
            store.write({"a": bytes(20_000)})
        with pytest.raises(HistoryLost):
            store.watch("", after=90)
        store.watch("", after=97).close()
    assert Path(path).stat().st_size < 500_000


def test_leases_of_an_earlier_boot_have_ended(path: str) -> None:
    with open_store(path) as store:
        lease = store.lease(3600)
        store.write({"a": b"", "b": b""}, lease=lease)
        store.write({"c": b""})
    with sqlite3.connect(path) as file:
        file.execute("UPDATE leases SET boot = 'another'")
    file.close()
    with open_store(path) as store:
        # A reader does not write, but neither does it see what has ended.
        assert [entry.key for entry in store.list("")] == ["c"]
        assert store.get("a") is None
        with store.watch("") as watch:
            assert [(change.key, change.value) for change in watch.next(0)] == [("a", None), ("b", None)]


def test_a_forked_child_cannot_use_the_store(path: str) -> None:
    with open_store(path) as store:
        child = os.fork()
        if not child:
            try:
                store.get("a")
            except ValueError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        store.write({"a": b""})


def test_a_closed_store_is_one_whole_file_and_its_lock(path: str) -> None:
    with open_store(path) as store:
        store.write({"a": b""})
    assert sorted(file.name for file in Path(path).parent.iterdir()) == ["state.db", "state.db-lock"]
    with sqlite3.connect(path) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    file.close()
