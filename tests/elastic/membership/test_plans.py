"""What master and workers do where another plan is better for the world that runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sqlflow_elastic.elastic.membership.master import Phase, Send
from sqlflow_elastic.elastic.membership.messages import (
    NO_STATE,
    Commit,
    Hello,
    Leaving,
    Needs,
    Prepare,
    Prepared,
    Release,
    Running,
    Server,
    Standing,
)
from sqlflow_elastic.elastic.membership.worker import (
    BoundaryReached,
    Chosen,
    Connect,
    Connected,
    Received,
    Reconsidered,
    Say,
    StateTaken,
    WantBoundary,
    WarmedUp,
    WorkerMachine,
)
from tests.elastic.membership.job import Job

A, B, C, P = "worker-0", "worker-1", "worker-2", "ps-0"
AT_P = (Server(P, f"{P}:1"),)
HERE = Needs(0, 0, '{"tables": "here"}', placement="here")
THERE = Needs(1, 100, '{"tables": "there"}', placement="there")


def running(needs: Needs = HERE, workers: int = 2, **spec: float) -> Job:
    """A job that takes steps by this plan."""
    job = Job(workers, **spec)
    job.hears(A, needs)
    if needs.servers:
        job.serves(P)
    job.world(*(A, B)[:workers])
    return job


def better(job: Job, needs: Needs, name: str = A) -> None:
    """A member says that this plan is better for the world that was told to run last."""
    job.hears(name, replace(needs, world=job.stored["world"]["version"]))


def test_tables_go_to_servers_when_these_are_there() -> None:
    job = running()
    before = job.stored["version"]
    better(job, THERE)
    assert (job.started_servers, job.prepares) == ({P: 100}, {})
    assert (job.stored["plan"], job.stored["servers"]["placement"]) == (THERE.plan, "there")
    job.serves(P)
    assert {(p.version, p.planned, p.rewind, p.servers, p.plan) for p in job.prepares.values()} == {
        (before + 1, True, True, AT_P, THERE.plan)
    }
    for name in (A, B):
        job.hears(name, Prepared(before + 1, NO_STATE))
    assert set(job.commits.values()) == {Commit(before + 1, 0, (1,), NO_STATE)}
    for name in (A, B):
        job.hears(name, Running(before + 1, 7, 0.1))
    assert job.changes[-1].why == "tables are better elsewhere now"


def test_tables_come_from_servers_which_end_when_they_have_come() -> None:
    job = running(THERE)
    better(job, HERE)
    assert {(p.servers, p.rewind) for p in job.prepares.values()} == {((), True)}
    assert job.sent(P, Release) is None
    job.runs(A, B, step=NO_STATE)
    assert job.sent(P, Release) == Release("one server too many")


def test_the_world_after_that_goes_on_from_the_state_of_its_members() -> None:
    job = running(THERE)
    better(job, HERE)
    job.runs(A, B, step=NO_STATE)
    job.ends(B)
    assert (job.prepares[A].rewind, job.prepares[A].plan) == (False, HERE.plan)


def test_it_is_said_again_until_it_is_heard_and_counts_once() -> None:
    job = running()
    better(job, THERE)
    better(job, THERE)
    assert job.commands == []


@pytest.mark.parametrize("world", [0, 1])
def test_what_is_said_of_another_world_does_not_count(world: int) -> None:
    job = running()
    assert job.stored["world"]["version"] == 2
    job.hears(A, replace(THERE, world=world))
    assert (job.commands, job.stored["plan"]) == ([], HERE.plan)


def test_it_does_not_count_while_the_world_changes() -> None:
    job = running(workers=3)
    job.hears(B, Leaving())
    better(job, THERE)
    assert job.started_servers == {}


def test_a_newcomer_built_for_the_plan_before_joins_by_the_one_in_force() -> None:
    job = running(workers=3)
    better(job, THERE)
    job.serves(P)
    job.runs(A, B, step=NO_STATE)
    job.hears(C, HERE)
    job.warms(C)
    assert (job.prepares[C].plan, job.prepares[C].rewind) == (THERE.plan, False)


def test_who_dies_meanwhile_is_missed_by_nobody() -> None:
    job = running(THERE, workers=2)
    better(job, HERE)
    version = job.stored["version"]
    job.hears(A, Prepared(version, NO_STATE))
    job.ends(B)
    assert (job.prepares[A].version, job.prepares[A].rewind, job.prepares[A].planned) == (version + 1, True, False)
    job.hears(A, Prepared(version + 1, NO_STATE))
    assert job.commits[A] == Commit(version + 1, 0, (), NO_STATE)


def test_who_leaves_meanwhile_writes_its_state_down_as_nobody_takes_it_on() -> None:
    job = running()
    better(job, THERE)
    job.hears(A, Leaving())
    job.serves(P)
    assert job.sent(A, Release) == Release("asked to leave", checkpoint=True)
    assert job.prepares[B].rewind


def test_building_anew_may_take_as_long_as_the_slowest_step() -> None:
    job = running(THERE, step=100.0, change=5.0)
    better(job, HERE)
    assert job.prepares[A].seconds == 100.0
    job.hears(A, Prepared(job.stored["version"], NO_STATE))
    job.hears(B, Hello(B, f"{B}:1", Standing.CHANGING, job.stored["version"], NO_STATE))
    assert job.killed == []
    assert not any(isinstance(command, Send) and isinstance(command.message, Release) for command in job.waits(4.0))


def test_the_next_master_goes_on_with_it() -> None:
    job = running()
    better(job, THERE)
    job.adopt({A: Phase.RUNNING, B: Phase.RUNNING, P: Phase.RUNNING})
    world = job.stored["world"]["version"]
    for name in (A, B):
        job.hears(name, Hello(name, f"{name}:1", Standing.RUNNING, world, 9))
    assert job.prepares == {}
    job.serves(P)
    assert {(p.planned, p.rewind, p.plan) for p in job.prepares.values()} == {(True, True, THERE.plan)}


class TestWorker:
    def worker(self) -> WorkerMachine:
        """It takes steps in world 1."""
        worker = WorkerMachine(A, "a:1")
        for event in (
            Chosen(HERE),
            WarmedUp(),
            Received(Prepare(1, 0, 1, "a:1", planned=False)),
            Connected(1, NO_STATE),
            Received(Commit(1, 0, (), NO_STATE)),
            StateTaken(1, 0),
        ):
            worker.handle(event, 0.0)
        return worker

    def test_it_says_of_which_world_it_speaks(self) -> None:
        assert self.worker().handle(Reconsidered(THERE), 1.0) == [Say(replace(THERE, world=1))]

    def test_it_says_nothing_while_no_world_runs(self) -> None:
        worker = self.worker()
        worker.handle(Received(Prepare(2, 0, 1, "a:1", planned=True)), 1.0)
        assert worker.handle(Reconsidered(THERE), 1.0) == []

    def test_it_stops_between_two_steps_and_then_has_no_state(self) -> None:
        worker = self.worker()
        prepare = Prepare(2, 0, 1, "a:1", planned=True, rewind=True, plan=THERE.plan)
        assert worker.handle(Received(prepare), 1.0) == [WantBoundary(1)]
        assert worker.handle(BoundaryReached(1, 9), 1.0)[-1] == Connect(prepare)
        assert worker.handle(Connected(2, NO_STATE), 1.0) == [Say(Prepared(2, NO_STATE))]
