"""What a worker does about what its master says."""

from __future__ import annotations

import pytest

from sqlflow_elastic.elastic.membership.messages import (
    NO_STATE,
    Broken,
    Commit,
    Completed,
    End,
    Failed,
    Finished,
    FromMaster,
    Held,
    Hello,
    Leaving,
    Left,
    NoTask,
    Prepare,
    Prepared,
    Ready,
    Release,
    Running,
    Standing,
    Task,
    TaskAccepted,
    TaskDone,
    TaskWanted,
    Welcome,
    Wish,
)
from sqlflow_elastic.elastic.membership.worker import (
    AbortRing,
    AllDone,
    BoundaryReached,
    CancelConnect,
    Connect,
    Connected,
    ConnectFailed,
    DidTask,
    Exit,
    GiveTask,
    NoMoreTasks,
    Received,
    RingBroke,
    Say,
    StateTaken,
    StreamLost,
    StreamUp,
    Take,
    Terminated,
    Tick,
    TrainingDone,
    UserFailed,
    WantBoundary,
    WantsTask,
    WarmedUp,
    WorkerCommand,
    WorkerEvent,
    WorkerMachine,
)


class Subject:
    """A worker's machine, and a clock that the test moves."""

    def __init__(self) -> None:
        self.machine = WorkerMachine("worker-0", "host:1")
        self.now = 0.0
        self(StreamUp())

    def __call__(self, event: WorkerEvent) -> list[WorkerCommand]:
        return self.machine.handle(event, self.now)

    def hears(self, message: FromMaster) -> list[WorkerCommand]:
        return self(Received(message))

    def waits(self, seconds: float) -> list[WorkerCommand]:
        self.now += seconds
        return self(Tick()) if self.machine.next_wake <= self.now else []


def prepare(version: int, size: int = 2, *, planned: bool = False, rewind: bool = False) -> Prepare:
    return Prepare(version, 0, size, "other:1", planned, rewind=rewind)


def ready() -> Subject:
    worker = Subject()
    worker(WarmedUp())
    return worker


def running(size: int = 2) -> Subject:
    """In world 1, at step 4."""
    worker = ready()
    worker.hears(prepare(1, size))
    worker(Connected(1, NO_STATE))
    worker.hears(Commit(1, 0, (1,), NO_STATE))
    worker(StateTaken(1, 4))
    return worker


def test_a_worker_says_hello_and_is_ready_when_it_is_warm() -> None:
    worker = WorkerMachine("worker-0", "host:1")
    assert worker.handle(StreamUp(), 0.0) == [Say(Hello("worker-0", "host:1", Standing.WARMING, 0, NO_STATE))]
    assert worker.handle(Received(Welcome(0.5)), 0.0) == []
    assert worker.heartbeat == 0.5
    assert worker.handle(WarmedUp(), 1.0) == [Say(Ready(NO_STATE))]


def test_it_connects_takes_the_state_and_runs() -> None:
    worker = ready()
    assert worker.hears(prepare(1)) == [Connect(prepare(1))]
    assert worker(Connected(1, NO_STATE)) == [Say(Prepared(1, NO_STATE))]
    commit = Commit(1, 0, (1,), 7)
    assert worker.hears(commit) == [Take(commit)]
    assert worker(StateTaken(1, 7)) == [Say(Running(1, 7, 0.0))]
    assert worker.machine.running == 1


def test_a_planned_change_stops_between_two_steps() -> None:
    worker = running()
    assert worker.hears(prepare(2, planned=True)) == [WantBoundary(1)]
    worker.now = 3.0
    assert worker(BoundaryReached(1, 9)) == [Connect(prepare(2, planned=True))]
    worker(Connected(2, 9))
    worker.hears(Commit(2, 0, (1,), 9))
    worker.now = 3.25
    assert worker(StateTaken(2, 9)) == [Say(Running(2, 9, 0.25))]


def test_an_unplanned_change_breaks_the_ring_off() -> None:
    worker = running()
    assert worker.hears(prepare(2)) == [AbortRing(1, "the world changes")]
    assert worker(RingBroke(1, 9, None, "aborted")) == [Connect(prepare(2))]


def test_alone_there_is_no_ring_to_break() -> None:
    assert running(size=1).hears(prepare(2)) == [WantBoundary(1)]


def test_a_planned_change_becomes_an_unplanned_one() -> None:
    worker = running()
    worker.hears(prepare(2, planned=True))
    assert worker.hears(prepare(3)) == [AbortRing(1, "the world changes")]
    assert worker(RingBroke(1, 9, None, "aborted")) == [Connect(prepare(3))]


def test_a_broken_ring_is_told() -> None:
    worker = running()
    assert worker(RingBroke(1, 9, 1, "reset")) == [Say(Broken(1, 9, 1, "reset"))]
    assert worker.machine.hello().standing is Standing.STOPPED
    assert worker.machine.running == 0


class TestLostRows:
    """A state that the rows on servers are not there for."""

    def test_it_does_not_count_any_more(self) -> None:
        worker = running()
        assert worker.hears(prepare(2, rewind=True)) == [AbortRing(1, "the world changes")]
        assert worker.machine.hello().step == NO_STATE
        worker(RingBroke(1, 9, None, "aborted"))
        assert worker(Connected(2, 9)) == [Say(Prepared(2, NO_STATE))]

    def test_nor_does_one_that_was_taken_meanwhile(self) -> None:
        worker = ready()
        worker.hears(prepare(1))
        worker(Connected(1, NO_STATE))
        worker.hears(Commit(1, 0, (), 9))
        worker.hears(prepare(2, rewind=True))
        worker(StateTaken(1, 9))
        worker(RingBroke(1, 9, None, "aborted"))
        assert worker(Connected(2, 9)) == [Say(Prepared(2, NO_STATE))]

    def test_it_stays_lost_in_worlds_that_never_began(self) -> None:
        worker = running()
        worker.hears(prepare(2, rewind=True))
        worker(RingBroke(1, 9, None, "aborted"))
        worker(Connected(2, 9))
        worker.hears(Commit(2, 1, (0,), NO_STATE))
        assert worker(RingBroke(2, 9, 1, "reset")) == [Say(Broken(2, NO_STATE, 1, "reset"))]
        worker.hears(prepare(3))
        assert worker(Connected(3, 9)) == [Say(Prepared(3, NO_STATE))]

    def test_the_next_one_that_is_taken_counts(self) -> None:
        worker = running()
        worker.hears(prepare(2, rewind=True))
        worker(RingBroke(1, 9, None, "aborted"))
        worker(Connected(2, 9))
        worker.hears(Commit(2, 1, (0,), NO_STATE))
        assert worker(StateTaken(2, 4)) == [Say(Running(2, 4, 0.0))]
        assert worker(RingBroke(2, 6, 1, "reset")) == [Say(Broken(2, 6, 1, "reset"))]

    def test_one_that_is_alone_does_not_finish_its_step(self) -> None:
        assert running(size=1).hears(prepare(2, rewind=True)) == [AbortRing(1, "the world changes")]

    def test_no_checkpoint_is_written_of_it(self) -> None:
        worker = running()
        worker.hears(prepare(2, rewind=True))
        worker.hears(Release("asked to leave", checkpoint=True))
        assert worker(RingBroke(1, 9, None, "aborted")) == [Say(Left(NO_STATE)), Exit(checkpoint=False)]


def test_who_hears_later_that_nobody_goes_on_writes_a_checkpoint() -> None:
    worker = running()
    worker.hears(Release("asked to leave"))
    worker.hears(Release("asked to leave", checkpoint=True))
    assert worker(BoundaryReached(1, 9)) == [Say(Left(9)), Exit(checkpoint=True)]


def test_a_pause_counts_from_the_last_step() -> None:
    worker = running()
    worker.now = 8.0
    worker(RingBroke(1, 9, 1, "it is silent", waited=5.0))
    worker.hears(prepare(2))
    worker(Connected(2, 9))
    worker.hears(Commit(2, 0, (), 9))
    worker.now = 8.5
    assert worker(StateTaken(2, 9)) == [Say(Running(2, 9, 5.5))]


def test_a_stop_that_nobody_ordered_is_told() -> None:
    worker = running()
    assert worker(BoundaryReached(1, 9)) == [Say(Broken(1, 9, None, "stopped between two steps"))]


def test_an_order_that_is_overtaken_is_harmless() -> None:
    worker = ready()
    worker.hears(prepare(5))
    assert worker.hears(prepare(6)) == [CancelConnect(5)]
    assert worker(Connected(5, NO_STATE)) == [Connect(prepare(6))]
    assert worker.hears(Commit(5, 0, (), NO_STATE)) == []
    assert worker.hears(prepare(7)) == [CancelConnect(6)]
    assert worker(ConnectFailed(6, None, "cancelled")) == [Connect(prepare(7))]
    assert worker(Connected(7, NO_STATE)) == [Say(Prepared(7, NO_STATE))]


@pytest.mark.parametrize("version", [1, 0])
def test_an_old_version_is_ignored(version: int) -> None:
    assert running().hears(prepare(version)) == []


def test_a_failed_connection_is_told() -> None:
    worker = ready()
    worker.hears(prepare(1))
    assert worker(ConnectFailed(1, 1, "refused")) == [Say(Broken(1, NO_STATE, 1, "refused"))]


def test_one_that_has_finished_takes_part_in_no_world() -> None:
    worker = running()
    assert worker(TrainingDone(50)) == [Say(Finished(50))]
    assert worker.hears(prepare(2)) == [Say(Finished(50))]


class TestLeaving:
    def test_outside_of_worlds_it_goes_at_once(self) -> None:
        assert Subject()(Terminated()) == [Say(Left(NO_STATE)), Exit(checkpoint=False)]
        assert ready()(Terminated()) == [Say(Left(NO_STATE)), Exit(checkpoint=False)]

    def test_in_a_world_it_asks_and_goes_between_two_steps(self) -> None:
        worker = running()
        assert worker(Terminated()) == [Say(Leaving())]
        assert worker.hears(Release("asked to leave")) == [WantBoundary(1)]
        assert worker(BoundaryReached(1, 9)) == [Say(Left(9)), Exit(checkpoint=False)]

    def test_the_last_one_writes_a_checkpoint(self) -> None:
        worker = running(size=1)
        worker(Terminated())
        worker.hears(Release("asked to leave", checkpoint=True))
        assert worker(BoundaryReached(1, 9)) == [Say(Left(9)), Exit(checkpoint=True)]

    def test_it_is_said_again_on_the_next_stream(self) -> None:
        worker = running()
        worker(StreamLost())
        worker(Terminated())
        assert worker(StreamUp()) == [Say(Hello("worker-0", "host:1", Standing.RUNNING, 1, 4, leaving=True))]

    def test_alone_without_a_master_it_does_not_wait_for_one(self) -> None:
        worker = running(size=1)
        worker(StreamLost())
        worker(Terminated())
        assert worker.waits(3.0) == [WantBoundary(1)]
        assert worker(BoundaryReached(1, 9)) == [Say(Left(9)), Exit(checkpoint=True)]

    def test_while_it_connects_it_goes_when_that_has_ended(self) -> None:
        worker = ready()
        worker.hears(prepare(1))
        assert worker.hears(Release("one too many")) == [CancelConnect(1)]
        assert worker(ConnectFailed(1, None, "cancelled")) == [Say(Left(NO_STATE)), Exit(checkpoint=False)]


class TestEnd:
    def test_at_once(self) -> None:
        assert running().hears(End()) == [Exit(checkpoint=False)]
        assert Subject().hears(End()) == [Exit(checkpoint=False)]

    def test_after_a_checkpoint(self) -> None:
        worker = running()
        assert worker.hears(End(checkpoint=True)) == [AbortRing(1, "the job ends")]
        assert worker(RingBroke(1, 9, None, "aborted")) == [Exit(checkpoint=True)]

    def test_nothing_is_done_after_it(self) -> None:
        worker = running()
        worker.hears(End())
        assert worker(RingBroke(1, 9, None, "closed")) == []
        assert worker.hears(End()) == []


class TestWithoutMaster:
    def test_training_goes_on(self) -> None:
        worker = running()
        worker(StreamLost())
        assert worker.waits(1000.0) == []

    def test_one_that_has_nothing_to_do_ends_after_a_while(self) -> None:
        worker = ready()
        worker(StreamLost())
        assert worker.waits(119.0) == []
        assert worker.waits(1.0) == [Say(Left(NO_STATE)), Exit(checkpoint=False)]

    def test_one_that_has_a_state_writes_it_first(self) -> None:
        worker = running()
        worker(StreamLost())
        worker(RingBroke(1, 9, None, "reset"))
        assert worker.waits(120.0) == [Say(Left(9)), Exit(checkpoint=True)]

    def test_a_master_that_comes_back_ends_the_wait(self) -> None:
        worker = ready()
        worker(StreamLost())
        worker.waits(100.0)
        worker(StreamUp())
        assert worker.waits(1000.0) == []

    def test_one_that_never_had_a_master_ends_too(self) -> None:
        worker = WorkerMachine("worker-0", "host:1")
        worker.handle(WarmedUp(), 0.0)
        assert worker.handle(Tick(), 120.0)[-1] == Exit(checkpoint=False)

    def test_that_the_job_is_complete_is_said_again(self) -> None:
        worker = running()
        worker(TrainingDone(50))
        worker(StreamLost())
        worker(AllDone())
        assert worker(StreamUp())[1:] == [Say(Completed())]

    def test_an_error_is_said_again_and_not_waited_with_for_ever(self) -> None:
        worker = running()
        worker(StreamLost())
        assert worker(UserFailed("event")) == [AbortRing(1, "the program failed"), Say(Failed("event"))]
        assert worker(StreamUp())[1:] == [Say(Failed("event"))]
        assert worker.waits(10.0)[-1] == Exit(checkpoint=False)


class TestTasks:
    def test_one_after_the_other(self) -> None:
        worker = Subject()
        assert worker(WantsTask("predict", 2)) == [Say(TaskWanted("predict", 2))]
        assert worker.hears(Task("predict", 0)) == [GiveTask("predict", 0)]
        assert worker(DidTask("predict", 0)) == [Say(TaskDone("predict", 0))]
        worker(WantsTask("predict", 2))
        assert worker.hears(NoTask("predict")) == [NoMoreTasks("predict")]

    def test_hello_says_what_it_has_and_waits_for(self) -> None:
        worker = Subject()
        worker(WantsTask("predict", 3))
        worker.hears(Task("predict", 1))
        assert worker.machine.hello().held == (Held("predict", 1),)
        worker(DidTask("predict", 1))
        worker(WantsTask("predict", 3))
        hello = worker.machine.hello()
        assert (hello.held, hello.wish) == ((Held("predict", 1, done=True),), Wish("predict", 3))
        worker.hears(TaskAccepted("predict", 1))
        assert worker.machine.hello().held == ()

    def test_a_task_that_nobody_waits_for_is_ignored(self) -> None:
        assert Subject().hears(Task("predict", 1)) == []
