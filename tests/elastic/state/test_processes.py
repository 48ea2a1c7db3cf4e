"""What every state store does when several processes use it, and some are killed."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack

import pytest

from sqlflow_elastic.elastic.state import Change, StateStore, open_store
from tests.elastic.state.actors import acting


def test_a_counter_of_four_processes_ends_exact(url: str, store: StateStore) -> None:
    with ExitStack() as stack:
        counting = [stack.enter_context(acting(url, "count", 50)) for _ in range(4)]
        assert [process.wait(60) for process in counting] == [0, 0, 0, 0]
    entry = store.get("counter")
    assert entry is not None
    assert entry.value == b"200"


def test_several_writes_are_seen_whole_while_they_are_made(url: str, store: StateStore) -> None:
    with acting(url, "write_alike") as writer, store.watch("alike/") as watch:
        assert writer.stdout is not None
        seen: set[bytes] = set()
        deadline = time.monotonic() + 30
        while len(seen) < 50 and time.monotonic() < deadline:
            entries = store.list("alike/")
            assert len(entries) in (0, 5)
            assert len({(entry.value, entry.revision) for entry in entries}) <= 1
            seen.update(entry.value for entry in entries)
            changes = watch.next(0)
            assert len(changes) % 5 == 0
        assert len(seen) >= 50


def test_what_a_killed_writer_was_told_is_written_is_there(url: str) -> None:
    dice = random.Random(0)
    for _ in range(6):
        with acting(url, "write_alike") as writer:
            assert writer.stdout is not None
            for _ in range(dice.randrange(1, 60)):
                line = writer.stdout.readline()
            writer.kill()
            told = int((line + writer.stdout.read()).split("\n")[-2])
        with open_store(url) as store:
            entries = store.list("alike/")
            assert len({entry.revision for entry in entries}) == 1
            [value] = {entry.value for entry in entries}
            # One more may have been written without anybody having been told.
            assert int(value) - told in (0, 1)
            assert store.write({"alike/0": None}, {"alike/0": entries[0].revision}) > entries[0].revision


@pytest.mark.parametrize("reopened", [False, True])
def test_a_watch_gives_every_change_once_in_order(url: str, reopened: bool) -> None:
    with open_store(url) as store, ExitStack() as stack:
        watch = stack.enter_context(store.watch("numbers/"))
        for name in "abc":
            stack.enter_context(acting(url, "write_numbers", name, 150))
        changes: list[Change] = []
        deadline = time.monotonic() + 60
        while len(changes) < 450 and time.monotonic() < deadline:
            changes += watch.next(0.5)
            if reopened and changes:
                # As after the death of whoever watched: another object goes on where this one was.
                watch.close()
                store = stack.enter_context(open_store(url))
                watch = stack.enter_context(store.watch("numbers/", after=changes[-1].revision))
        assert watch.next(0.1) == []
    revisions = [change.revision for change in changes]
    assert revisions == sorted(set(revisions))
    for name in "abc":
        values = [change.value for change in changes if change.key == f"numbers/{name}"]
        assert values == [b"%d" % number for number in range(150)]


def test_keys_of_a_killed_process_vanish_with_its_lease(url: str, store: StateStore) -> None:
    with store.watch("held") as watch, acting(url, "hold", 2) as holder:
        assert holder.stdout is not None
        for _ in range(8):
            holder.stdout.readline()
        assert [entry.key for entry in store.list("held")] == ["held", "held too"]
        assert [change.value for change in watch.next(30)] == [b"here", b"here"]
        holder.kill()
        changes = watch.next(30)
        assert sorted((change.key, change.value) for change in changes) == [("held", None), ("held too", None)]
        assert store.list("held") == []
