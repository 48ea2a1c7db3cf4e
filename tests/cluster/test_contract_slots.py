"""The contract of `cluster.base` on slots: who runs, who waits, and who makes room for a more urgent process."""

from __future__ import annotations

import os
import select
import signal

import pytest

from sqlflow_elastic.cluster import Phase, Role
from sqlflow_elastic.errors import JobError
from tests.cluster.runner import DEAF, HOLD, SECONDS, SLOTS, Runner
from tests.waiting import wait_until


def test_running_processes_take_no_more_slots_than_there_are(runner: Runner) -> None:
    holders = [runner.running(HOLD, slots=slots) for slots in (1, 3)]
    assert runner.cluster.slots == SLOTS
    assert runner.cluster.free() == 0
    waits = runner.start("print('runs')", job="job", name="waits")
    runner.running(HOLD, job="job", name="master", role=Role.MASTER, slots=0)  # takes none, so it does not wait
    assert runner.status("job", "waits").phase is Phase.PENDING
    assert waits.pid is None
    holders[0].kill()
    assert waits.wait(SECONDS) == 0
    wait_until(lambda: runner.cluster.free() == 1, SECONDS)


def test_pending_processes_start_in_the_order_of_their_priority(runner: Runner) -> None:
    holder = runner.running(HOLD, slots=SLOTS, priority=9)
    order = runner.folder / "order"
    text = f"import sys; print(sys.argv[1], file=open({str(order)!r}, 'a'))"
    wanted = [("low", 0), ("first", 2), ("second", 2), ("middle", 1)]
    waiting = [runner.start(text, slots=SLOTS, arguments=(name,), priority=priority) for name, priority in wanted]
    holder.kill()
    assert [process.wait(SECONDS) for process in waiting] == [0] * 4
    assert order.read_text().split() == ["first", "second", "middle", "low"]


def test_a_pending_process_that_is_ended_is_not_started(runner: Runner) -> None:
    holder = runner.running(HOLD, slots=SLOTS)
    processes = [runner.start("print('runs')", job="job", name=name) for name in ("a", "b", "c", "d")]
    runner.cluster.terminate("job", "a")
    runner.cluster.kill("job", "b")
    assert processes[2].terminate() == -signal.SIGKILL
    processes[3].kill()
    assert [process.wait(SECONDS) for process in processes] == [-signal.SIGKILL] * 4
    assert {status.exit_code for status in runner.cluster.list("job")} == {-signal.SIGKILL}
    holder.kill()
    assert runner.start("pass", slots=SLOTS).wait(SECONDS) == 0
    assert [status.pid for status in runner.cluster.list("job")] == [None] * 4


def test_the_descriptors_of_a_pending_process_that_is_ended_are_closed(runner: Runner) -> None:
    runner.running(HOLD, slots=SLOTS, job="job", name="holder")
    ours, theirs = os.pipe()
    process = runner.start("pass", descriptors={"CHANNEL": theirs})
    os.close(theirs)
    process.kill()
    with os.fdopen(ours, "rb") as channel:
        assert select.select([channel], [], [], SECONDS)[0] == [channel]
        assert channel.read() == b""


def test_a_process_that_needs_more_slots_than_there_are_is_refused(runner: Runner) -> None:
    with pytest.raises(JobError, match="process huge of job job needs 5 slots; there are 4 in all"):
        runner.start("pass", job="job", name="huge", slots=5)


def test_a_more_urgent_process_gets_its_slots_from_the_least_urgent(runner: Runner) -> None:
    for name, priority in (("old", 0), ("young", 0), ("urgent", 1), ("most", 2)):
        runner.running(HOLD, job="job", name=name, priority=priority)
    runner.running(HOLD, job="new", name="one", priority=2)
    young = runner.ended("job", "young")
    assert young.preempted
    assert young.exit_code == -signal.SIGTERM
    assert [status.name for status in runner.cluster.list("job") if status.preempted] == ["young"]
    again = runner.start("pass", job="job", name="young-again", priority=0)
    assert again.wait(0.0) is None
    assert runner.status("job", "young-again").phase is Phase.PENDING
    runner.cluster.forget("new")
    assert again.wait(SECONDS) == 0


def test_a_preempted_process_that_does_not_listen_is_killed_after_the_grace(runner: Runner) -> None:
    runner.running(DEAF, slots=SLOTS, job="job", name="deaf")
    assert runner.start("pass", priority=1).wait(SECONDS) == 0
    assert runner.status("job", "deaf").exit_code == -signal.SIGKILL
