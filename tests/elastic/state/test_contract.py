"""What every state store does, seen from one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sqlflow_elastic.elastic.state import (
    Change,
    Conflict,
    Entry,
    HistoryLost,
    LeaseLost,
    StateStore,
    Watch,
    open_store,
)
from sqlflow_elastic.elastic.state.base import MOST_BYTES, MOST_CHANGES


def test_what_was_written_is_there_with_its_revision(store: StateStore) -> None:
    assert store.get("a") is None
    first = store.write({"a": b"1", "b": b""})
    second = store.write({"a": b"2"})
    assert second > first
    assert store.get("a") == Entry("a", b"2", second)
    assert store.get("b") == Entry("b", b"", first)


def test_it_is_there_when_the_store_is_opened_again(url: str) -> None:
    with open_store(url) as store:
        revision = store.write({"a": b"1"})
    with open_store(url) as store:
        assert store.get("a") == Entry("a", b"1", revision)
        assert store.write({"a": b"2"}) > revision


def test_a_deleted_key_is_gone(store: StateStore) -> None:
    store.write({"a": b"1"})
    store.write({"a": None})
    assert store.get("a") is None
    assert store.list("") == []


def test_a_write_that_changes_nothing_is_no_change(store: StateStore) -> None:
    with store.watch("") as watch:
        revision = store.write({"a": b"1"})
        assert store.write({"b": None}) >= revision
        assert store.write({}) >= revision
        end = store.write({"end": b""})
        assert _changes(watch, 2) == [Change("a", b"1", revision), Change("end", b"", end)]


def test_a_list_has_the_keys_with_the_prefix_in_order(store: StateStore) -> None:
    keys = ["j", "j/", "j/1", "j/10", "j/2", "j/é", "j/\U0010ffff", "j0", "k"]
    store.write({key: key.encode() for key in keys})
    assert [entry.key for entry in store.list("j/")] == ["j/", "j/1", "j/10", "j/2", "j/é", "j/\U0010ffff"]
    assert [entry.value.decode() for entry in store.list("")] == keys
    assert [entry.key for entry in store.list("j/é")] == ["j/é"]


def test_a_write_succeeds_when_its_expectations_hold(store: StateStore) -> None:
    revision = store.write({"a": b"1"}, {"a": 0, "other": 0})
    store.write({"b": b"1"}, {"a": revision})
    assert store.write({"a": None}, {"a": revision, "b": revision + 1}) > revision


@pytest.mark.parametrize("expected", [0, 1, 10**12])
def test_a_write_with_a_wrong_expectation_changes_nothing(store: StateStore, expected: int) -> None:
    store.write({"before": b""})
    revision = store.write({"a": b"1"})
    with store.watch("") as watch:
        with pytest.raises(Conflict, match=f"'a' has the revision {revision}, not {expected}"):
            store.write({"b": b"2", "a": b"2"}, {"a": expected, "b": 0})
        assert store.list("a") == [Entry("a", b"1", revision)]
        assert store.get("b") is None
        end = store.write({"end": b""})
        assert watch.next(30) == [Change("end", b"", end)]


def test_a_deleted_key_has_no_revision(store: StateStore) -> None:
    revision = store.write({"a": b"1"})
    store.write({"a": None})
    with pytest.raises(Conflict):
        store.write({"a": b"2"}, {"a": revision})
    store.write({"a": b"2"}, {"a": 0})


def test_a_watch_gives_the_changes_of_its_prefix_from_now_on(store: StateStore) -> None:
    store.write({"j/old": b"1"})
    with store.watch("j/") as watch:
        first = store.write({"j/a": b"1", "k": b"1"})
        store.write({"k": b"2"})
        second = store.write({"j/a": None})
        changes = [*watch.next(30)]
        while len(changes) < 2:
            changes += watch.next(30)
        assert changes == [Change("j/a", b"1", first), Change("j/a", None, second)]
        assert [change.deleted for change in changes] == [False, True]
        assert watch.next(0.05) == []


def test_a_watch_goes_on_after_a_revision(store: StateStore) -> None:
    revisions = [store.write({"a": b"%d" % number}) for number in range(5)]
    with store.watch("", after=revisions[2]) as watch:
        assert [change.revision for change in _changes(watch, 2)] == revisions[3:]


def test_the_changes_of_one_write_come_together(store: StateStore) -> None:
    with store.watch("") as watch:
        revision = store.write({f"{number:03}": b"" for number in range(MOST_CHANGES)})
        changes = watch.next(30)
    assert sorted(change.key for change in changes) == [f"{number:03}" for number in range(MOST_CHANGES)]
    assert {change.revision for change in changes} == {revision}


def test_a_watch_waits_for_a_change_and_no_longer_than_told(store: StateStore) -> None:
    with store.watch("") as watch:
        begin = time.monotonic()
        assert watch.next(0.1) == []
        assert time.monotonic() - begin >= 0.1
        writer = threading.Timer(0.1, store.write, [{"a": b""}])
        writer.start()
        assert [change.key for change in watch.next(30)] == ["a"]
        assert time.monotonic() - begin < 20
        writer.join()


def test_a_watch_closed_by_another_thread_ends_its_wait(store: StateStore) -> None:
    with store.watch("") as watch:
        closer = threading.Timer(0.1, watch.close)
        closer.start()
        assert watch.next(30) == []
        closer.join()
        with pytest.raises(ValueError, match="closed"):
            watch.next(0)


def test_a_watch_ends_with_its_store(url: str) -> None:
    with open_store(url) as store:
        watch = store.watch("")
        closer = threading.Timer(0.1, store.close)
        closer.start()
        assert watch.next(30) == []
        closer.join()
    with pytest.raises(ValueError, match="closed"):
        watch.next(0)
    watch.close()
    with pytest.raises(ValueError, match="closed"):
        store.get("a")


def test_a_watch_after_what_is_not_yet_is_refused(store: StateStore) -> None:
    with pytest.raises(HistoryLost):
        store.watch("", after=store.write({"a": b""}) + 1_000_000)


def test_keys_of_a_lease_vanish_when_it_is_revoked(store: StateStore) -> None:
    with store.watch("") as watch:
        with store.lease(60) as lease:
            assert lease.seconds >= 60
            first = store.write({"a": b"1", "b": b"1"}, lease=lease)
            store.write({"c": b"1"})
            assert [entry.key for entry in store.list("")] == ["a", "b", "c"]
        assert [entry.key for entry in store.list("")] == ["c"]
        deleted = [change for change in _changes(watch, 5) if change.deleted]
        assert sorted(change.key for change in deleted) == ["a", "b"]
        assert all(change.revision > first for change in deleted)
    lease.revoke()


def test_a_lease_lasts_as_long_as_it_is_refreshed(store: StateStore) -> None:
    lease = store.lease(1)
    store.write({"a": b""}, lease=lease)
    with store.watch("") as watch:
        end = time.monotonic() + 1.5 * lease.seconds
        while time.monotonic() < end:
            assert watch.next(lease.seconds / 4) == []
            lease.refresh()
        [change] = watch.next(lease.seconds + 30)
        assert (change.key, change.value) == ("a", None)
    assert store.get("a") is None


def test_a_lease_that_has_ended_is_lost(store: StateStore) -> None:
    lease = store.lease(0.2)
    store.write({"a": b""}, lease=lease)
    with store.watch("a") as watch:
        assert [change.deleted for change in watch.next(lease.seconds + 30)] == [True]
    with pytest.raises(LeaseLost):
        lease.refresh()
    with pytest.raises(LeaseLost):
        store.write({"b": b""}, lease=lease)
    assert store.get("b") is None
    lease.revoke()


def test_a_key_written_without_a_lease_leaves_it(store: StateStore) -> None:
    with store.lease(60) as lease:
        store.write({"a": b"1"}, lease=lease)
        store.write({"a": b"2"})
    entry = store.get("a")
    assert entry is not None
    assert entry.value == b"2"


def test_a_lease_of_another_store_is_refused(url: str, store: StateStore) -> None:
    with open_store(url) as other, other.lease(60) as lease, pytest.raises(ValueError, match="another store"):
        store.write({"a": b""}, lease=lease)


@pytest.mark.parametrize("key", ["", "a\0", "a" * 513, "é" * 257])
def test_a_bad_key_is_refused(store: StateStore, key: str) -> None:
    with pytest.raises(ValueError, match="a key has"):
        store.get(key)
    with pytest.raises(ValueError, match="a key has"):
        store.write({key: b""})
    with pytest.raises(ValueError, match="a key has"):
        store.write({"a": b""}, {key: 0})


def test_a_write_has_its_bounds(store: StateStore) -> None:
    with pytest.raises(ValueError, match="at most"):
        store.write({str(number): b"" for number in range(MOST_CHANGES + 1)})
    with pytest.raises(ValueError, match="at most"):
        store.write({}, {str(number): 0 for number in range(MOST_CHANGES + 1)})
    with pytest.raises(ValueError, match="at most"):
        store.write({"a": bytes(MOST_BYTES)})
    with pytest.raises(ValueError, match="revision"):
        store.write({"a": b""}, {"a": -1})
    with store.lease(60) as lease, pytest.raises(ValueError, match="values"):
        store.write({"a": None}, lease=lease)
    store.write({"a": bytes(MOST_BYTES - 1)})
    store.write({str(number): b"" for number in range(MOST_CHANGES)}, {str(n): 0 for n in range(MOST_CHANGES)})


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_lease_has_a_length(store: StateStore, seconds: float) -> None:
    with pytest.raises(ValueError, match="lease"):
        store.lease(seconds)


def test_values_are_not_shown(store: StateStore) -> None:
    with store.watch("") as watch:
        store.write({"a": b"secret"})
        assert "secret" not in repr([store.get("a"), *store.list(""), *watch.next(30), store])


def test_one_store_serves_many_threads(store: StateStore) -> None:
    def count() -> None:
        for _ in range(25):
            while True:
                entry = store.get("counter")
                try:
                    store.write(
                        {"counter": b"%d" % (int(entry.value) + 1 if entry else 1)},
                        {"counter": entry.revision if entry else 0},
                    )
                except Conflict:
                    continue
                break

    with store.watch("counter") as watch, _threads(count, 4):
        values = [change.value for change in _changes(watch, 100)]
    assert values == [b"%d" % (number + 1) for number in range(100)]


def _changes(watch: Watch, least: int) -> list[Change]:
    """At least so many changes."""
    changes: list[Change] = []
    deadline = time.monotonic() + 30
    while len(changes) < least and time.monotonic() < deadline:
        changes += watch.next(1)
    return changes


@contextmanager
def _threads(target: object, number: int) -> Iterator[None]:
    threads = [threading.Thread(target=target) for _ in range(number)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(30)
