"""Sessions with real servers: rows in the order of ids, steps bit by bit, and an end for whoever waits."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import WorldBroken
from sqlflow_elastic.elastic.comm.base import Place
from sqlflow_elastic.elastic.tables.client import Session, enter
from sqlflow_elastic.errors import JobError
from tests.elastic.tables.server_process import server_process
from tests.elastic.tables.servers import SECONDS, TOKEN, Servers, running
from tests.elastic.tables.specs import SGD, table

SPECS = [table((40, 30)), table((50,), SGD, name="u", dtype="float32")]
STEPS = 12
RATES = [(0.1, 3), (0.2, 3)]


def ids_of(rank: int, step: int) -> list[NDArray[np.int64]]:
    rng = np.random.default_rng([rank, step])
    return [rng.choice(spec.rows, rng.integers(0, 12), replace=False) for spec in SPECS]


def take_steps(session: Session, rank: int, first: int, stop: int, *, ahead: bool = True) -> int:
    """Take steps as a trainer does. Returns the last one that is done; raises nothing when the world breaks."""
    done = first - 1
    try:
        for step in range(first, min(first + 2, stop)) if ahead else ():
            session.want(ids_of(rank, step))
        for step in range(first, stop):
            if not ahead:
                session.want(ids_of(rank, step))
            gradients = [np.sin(rows + rank + step) for rows in session.rows()]
            session.push(gradients, RATES, ids_of(rank, step + 2) if ahead and step + 2 < stop else None)
            session.applied()
            done = step
    except WorldBroken:
        pass
    return done


def whole(session: Session) -> list[NDArray[Any]]:
    return session.peek([np.arange(spec.rows) for spec in SPECS])


def trained(folder: Path, names: Sequence[str], size: int, *, ahead: bool = True) -> list[NDArray[Any]]:
    """All rows after steps of so many members in one world."""
    with running(folder, *names) as servers, ThreadPoolExecutor(size) as threads:

        def work(rank: int) -> int:
            with servers.enter(SPECS, rank=rank, size=size) as session:
                last = take_steps(session, rank, 1, STEPS + 1, ahead=ahead)
                together.wait(SECONDS)
                return last

        together = threading.Barrier(size)
        assert list(threads.map(work, range(size))) == [STEPS] * size
        with servers.enter(SPECS, version=2, step=STEPS) as session:
            return whole(session)


def assert_equal(one: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]]) -> None:
    for own, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(own, right)


@pytest.mark.parametrize("names", [["ps-0"], ["ps-0", "ps-1", "ps-2"]], ids=len)
def test_rows_come_in_the_order_of_ids(tmp_path: Path, names: list[str]) -> None:
    ids = [np.random.default_rng(0).permutation(spec.rows) for spec in SPECS]
    with running(tmp_path, *names) as servers, servers.enter(SPECS) as session:
        session.want(ids)
        rows = session.rows()
        assert [each.dtype for each in rows] == ["float64", "float32"]
        assert_equal(rows, [each[own] for each, own in zip(whole(session), ids, strict=True)])
        session.push([np.full_like(each, own[:, None]) for each, own in zip(rows, ids, strict=True)], RATES)
        session.applied()
        # The other table's rule is SGD's: each row moves by what came with its own id.
        moved = rows[1] - 0.2 * ids[1][:, None]
        np.testing.assert_allclose(session.peek([ids[0][:0], ids[1]])[1], moved, rtol=1e-6)


@pytest.mark.parametrize("names", [["ps-0"], ["ps-0", "ps-1"]], ids=len)
@pytest.mark.parametrize("size", [1, 3])
def test_looking_ahead_changes_no_bit_and_neither_do_more_servers(tmp_path: Path, names: list[str], size: int) -> None:
    apart = trained(tmp_path / "apart", ["ps-0"], size, ahead=False)
    assert_equal(trained(tmp_path / "ahead", names, size), apart)


@pytest.mark.parametrize("seed", range(6))
def test_worlds_that_break_and_are_entered_again_give_the_same_rows(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with running(tmp_path / "broken", "ps-0", "ps-1") as servers, ThreadPoolExecutor(3) as threads:
        done = version = 0
        while done < STEPS:
            version += 1
            sessions = list(threads.map(lambda r: entered(servers, r, version, done), range(3)))  # noqa: B023
            breaks = chance.randrange(done + 1, STEPS + 3)

            def work(rank: int, sessions: list[Session] = sessions, first: int = done + 1, stop: int = breaks) -> int:
                # One gives up after some steps, with the others in the midst of one.
                last = take_steps(sessions[rank], rank, first, min(stop, STEPS + 1) if rank == 1 else STEPS + 1)
                if rank == 1 and stop <= STEPS:
                    sessions[rank].close()
                return last

            done = max(threads.map(work, range(3)))
            for session in sessions:
                session.close()
        with servers.enter(SPECS, version=version + 1, step=STEPS) as session:
            rows = whole(session)
    assert_equal(rows, trained(tmp_path / "whole", ["ps-0", "ps-1"], 3))


def entered(servers: Servers, rank: int, version: int, step: int) -> Session:
    return servers.enter(SPECS, rank=rank, size=3, version=version, step=step, new=version == 1)


def test_a_killed_server_is_noticed_at_once_and_its_successor_goes_on_from_the_snapshot(tmp_path: Path) -> None:
    right = trained(tmp_path / "right", ["ps-0", "ps-1"], 1)
    with ExitStack() as stack:
        folder = tmp_path / "killed"
        (victim, at), (_, other) = (stack.enter_context(server_process(n, folder)) for n in ("ps-0", "ps-1"))
        servers = [("ps-0", at), ("ps-1", other)]
        with session_with(servers, 1, 0) as session:
            assert take_steps(session, 0, 1, 6) == 5
            session.snapshot(5)
            assert take_steps(session, 0, 6, 9) == 8
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            began = time.monotonic()
            assert take_steps(session, 0, 9, STEPS + 1) == 8
            assert time.monotonic() - began < SECONDS / 2
        _, successor = stack.enter_context(server_process("ps-2", folder))
        with session_with([("ps-1", other), ("ps-2", successor)], 2, 5) as session:
            assert take_steps(session, 0, 6, STEPS + 1) == STEPS
            assert_equal(whole(session), right)


def session_with(servers: Sequence[tuple[str, str]], version: int, step: int, deadline: float = SECONDS) -> Session:
    place = Place(version, 0, 1, "")
    return enter(TOKEN, servers, SPECS, place, step, root=True, new=step == 0, seconds=SECONDS, deadline=deadline)


def test_a_server_that_is_silent_past_the_deadline_breaks_the_world(tmp_path: Path) -> None:
    with server_process("ps-0", tmp_path) as (process, at), session_with([("ps-0", at)], 1, 0, deadline=0.5) as session:
        take_steps(session, 0, 1, 3)
        process.send_signal(signal.SIGSTOP)
        session.want(ids_of(0, 3))
        with pytest.raises(WorldBroken, match="ps-0: it was silent for"):
            session.rows()


def test_whoever_has_long_said_nothing_is_not_taken_for_silent(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0", "ps-1") as servers:
        at = [(name, servers[name].address) for name in servers.names]
        with session_with(at, 1, 0, deadline=0.2) as session:
            began = time.monotonic()
            while time.monotonic() - began < 0.5:  # one server alone is asked, for longer than the deadline
                session.peek([np.array([1]), np.array([], np.int64)])
            session.peek([np.array([2]), np.array([], np.int64)])
            session.peek([np.arange(40), np.arange(50)])


def test_an_abort_from_another_thread_ends_whatever_waits(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers, servers.enter(SPECS, size=2) as session:
        session.want(ids_of(0, 1))
        session.push([np.ones_like(rows) for rows in session.rows()], RATES)
        threading.Timer(0.05, session.abort, ["the master says so"]).start()
        for _ in range(2):
            with pytest.raises(WorldBroken, match="the master says so"):
                session.applied()  # the other member never comes


def test_an_abort_after_the_end_touches_nothing(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers:
        session = servers.enter(SPECS)
        session.close()
        pipes = [os.pipe() for _ in range(4)]
        session.abort("late")
        for end, other in pipes:
            os.set_blocking(end, False)
            with pytest.raises(BlockingIOError):
                os.read(end, 1)
            os.close(end)
            os.close(other)


def test_a_server_that_is_not_there_breaks_the_world() -> None:
    with pytest.raises(WorldBroken, match="ps-0 cannot be reached"):
        session_with([("ps-0", "127.0.0.1:9")], 1, 0)


def test_servers_that_know_another_token_are_not_believed(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers:
        at = [("ps-0", servers["ps-0"].address)]
        with pytest.raises(WorldBroken):
            enter(b"another token, also long", at, SPECS, Place(1, 0, 1, ""), 0, root=True, new=True, seconds=SECONDS)


def test_a_snapshot_that_cannot_be_written_is_for_the_user_to_know(tmp_path: Path) -> None:
    (tmp_path / "segments").symlink_to("/dev/null")
    with running(tmp_path, "ps-0") as servers, servers.enter(SPECS) as session:
        assert take_steps(session, 0, 1, 3) == 2
        with pytest.raises(JobError, match="tables could not be saved"):
            session.snapshot(2)
        assert take_steps(session, 0, 3, 5) == 4


def test_what_servers_tell_of_themselves_arrives(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0", "ps-1") as servers, servers.enter(SPECS) as session:
        assert session.snapshot_step == -1
        take_steps(session, 0, 1, 3)
        assert sum(figures.rows for figures in session.figures) == sum(
            servers[name].store.rows for name in servers.names
        )
        assert all(figures.memory > 0 for figures in session.figures)
        session.snapshot(2)
        assert session.snapshot_step == 2
        assert session.sent > 0
        assert session.received > 0
