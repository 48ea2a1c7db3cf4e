"""A member dies, hangs or gives up in the middle of a sum: the others know, and go on without it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest

from sqlflow_elastic.elastic.comm import Communicator, WorldBroken
from tests.elastic.comm.member import begin_world, members
from tests.elastic.comm.worlds import apart, at_once, descriptors, nothing_left_behind, world
from tests.waiting import wait_until

LARGE, SMALL = 4_000_000, 100
#: Far above what anything here takes, far below the deadline: who is told within it was told by a socket.
SOON, DEADLINE = 10.0, 60.0


@pytest.fixture(scope="module", params=["one machine", "apart"], autouse=True)
def machines(request: pytest.FixtureRequest) -> Iterator[None]:
    """Members of this process with memory in common, and without; those in processes have it."""
    with nullcontext() if request.param == "one machine" else apart():
        yield


@pytest.mark.parametrize("elements", [LARGE, SMALL], ids=["large", "small"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_when_one_is_killed_the_others_know_it_from_their_sockets_and_go_on(size: int, elements: int) -> None:
    with members(size, DEADLINE) as all_members:
        begin_world(1, all_members, elements)
        dead, _ = all_members[1]
        dead.process.send_signal(signal.SIGKILL)
        survivors = [all_members[0], *all_members[2:]]
        suspects = [member.broken(SOON)[0] for member, _ in survivors]
        assert 1 in suspects
        begin_world(2, survivors, elements)


@pytest.mark.parametrize("elements", [LARGE, SMALL], ids=["large", "small"])
def test_when_one_is_stopped_the_others_know_at_the_deadline_and_go_on(elements: int) -> None:
    with members(3, 1.0) as all_members:
        begin_world(1, all_members, elements)
        stopped, _ = all_members[2]
        stopped.process.send_signal(signal.SIGSTOP)
        broken = [member.broken(SOON) for member, _ in all_members[:2]]
        assert 2 in [suspect for suspect, _ in broken]
        assert any("did nothing for 1 s" in reason for _, reason in broken)
        begin_world(2, all_members[:2], elements)
        # What it wakes up to is broken, and no world lets its old bytes in.
        stopped.process.send_signal(signal.SIGCONT)
        stopped.broken(SOON)
        assert [member.process.poll() for member, _ in all_members] == [None] * 3


def test_when_one_aborts_so_do_all() -> None:
    with members(3, DEADLINE) as all_members:
        begin_world(1, all_members, LARGE)
        all_members[0][0].process.send_signal(signal.SIGUSR1)
        broken = [member.broken(SOON) for member, _ in all_members]
        assert broken[0] == (None, "told to")
        begin_world(2, all_members, LARGE)


OPERATIONS: dict[str, Callable[[Communicator], object]] = {
    "small sum": lambda member: member.allreduce([np.zeros(10, np.float32)]),
    "large sum": lambda member: member.allreduce([np.zeros(10_000_000, np.float32)]),
    "gather": lambda member: member.allgather(b"x"),
    "receive": lambda member: member.broadcast(None, 1, [0]),
    "send": lambda member: member.broadcast([bytes(50_000_000)], 0, [1]),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_abort_ends_what_waits_for_a_silent_member(operation: str) -> None:
    with nothing_left_behind(), world(2, step_deadline=DEADLINE) as (member, _silent):
        begun = time.monotonic()
        timer = threading.Timer(0.1, member.abort, ["enough"])
        timer.start()
        with pytest.raises(WorldBroken) as broken:
            OPERATIONS[operation](member)
        timer.join()
        assert (broken.value.reason, broken.value.suspect) == ("enough", None)
        assert time.monotonic() - begun < SOON


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_silent_member_is_given_up_at_the_deadline(operation: str) -> None:
    with nothing_left_behind(), world(2, step_deadline=0.2) as (member, _silent):
        with pytest.raises(WorldBroken, match=r"did nothing for 0\.2 s") as broken:
            OPERATIONS[operation](member)
        assert broken.value.suspect == 1


def test_a_member_that_is_slow_but_moves_is_not_given_up() -> None:
    payload = [bytes(1000)] * 8

    def call(member: Communicator) -> None:
        for data in payload:
            if member.place.rank:
                time.sleep(0.2)  # the slowness itself is what is tested
            member.allgather(data)

    with world(2, step_deadline=1.0) as members_:
        at_once(call, members_)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("operation", ["small sum", "gather"])
def test_a_broken_communicator_stays_broken(size: int, operation: str) -> None:
    with world(size) as members_:
        members_[0].abort("first")
        members_[0].abort("second")
        for _ in range(2):
            with pytest.raises(WorldBroken, match="first"):
                OPERATIONS[operation](members_[0])
        members_[0].close()
        members_[0].close()
        with pytest.raises(WorldBroken, match="first"):
            OPERATIONS[operation](members_[0])


def test_abort_frees_the_sockets_at_once_when_nothing_runs() -> None:
    with nothing_left_behind(), world(2) as members_:
        with_sockets = descriptors()
        members_[0].abort("enough")
        assert descriptors() == with_sockets - 2


def test_an_interrupted_operation_breaks_the_world() -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with nothing_left_behind(), world(2, step_deadline=DEADLINE) as (member, other):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(Interrupted):
                OPERATIONS["large sum"](member)
            for broken in (member, other):
                with pytest.raises(WorldBroken):
                    OPERATIONS["large sum"](broken)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_two_threads_in_one_communicator_are_told_and_break_nothing() -> None:
    with world(2) as (member, other):
        results: list[list[memoryview]] = []
        thread = threading.Thread(target=lambda: results.append(member.allgather(b"a")))
        thread.start()
        wait_until(member._in_use.locked, SOON)  # type: ignore[attr-defined]
        with pytest.raises(RuntimeError, match="one thread"):
            member.allgather(b"c")
        assert [bytes(view) for view in other.allgather(b"b")] == [b"a", b"b"]
        thread.join()
        assert [bytes(view) for view in results[0]] == [b"a", b"b"]


def test_abort_at_any_moment_is_a_broken_world_and_leaves_nothing_behind() -> None:
    """Small sums one after the other, ended by another thread wherever they are just then."""

    def sum_for_ever(member: Communicator) -> None:
        with pytest.raises(WorldBroken):
            while True:
                member.allreduce([np.zeros(10, np.float32)])

    def end(member: Communicator) -> None:
        for _ in range(3):
            member.abort("enough")

    with nothing_left_behind():
        for _ in range(50):
            with world(2, step_deadline=DEADLINE) as (member, other):
                at_once(
                    lambda call: call(),
                    [partial(sum_for_ever, member), partial(sum_for_ever, other), partial(end, member)],
                )
