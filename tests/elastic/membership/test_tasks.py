"""Tasks: each is done by somebody, whoever dies, and is known to be done for good."""

from __future__ import annotations

from sqlflow_elastic.elastic.membership.master import CountTasks, EndWorker, Persist, Phase, ProcessChanged, Send
from sqlflow_elastic.elastic.membership.messages import (
    NO_STATE,
    Failed,
    Held,
    Left,
    NoTask,
    Standing,
    Task,
    TaskAccepted,
    TaskDone,
    TaskWanted,
    Wish,
)
from tests.elastic.membership.job import Job

A, B, C = (f"worker-{index}" for index in range(3))


def begun(workers: int = 2) -> Job:
    job = Job(workers, batch_size=None)
    for index in range(workers):
        job.does(ProcessChanged(f"worker-{index}", Phase.RUNNING))
        job.hello(f"worker-{index}", Standing.WARMING)
    return job


def test_a_task_goes_to_the_first_who_wishes_and_the_others_wait() -> None:
    job = begun()
    assert job.hears(A, TaskWanted("save", 1)) == [
        Persist({"tasks/save": 1}),
        CountTasks("save", 0, 1),
        Send(A, Task("save", 0)),
    ]
    assert job.hears(B, TaskWanted("save", 1)) == []


def test_a_done_task_is_stored_then_acknowledged_and_all_who_wait_go_on() -> None:
    job = begun()
    job.hears(A, TaskWanted("save", 1))
    job.hears(B, TaskWanted("save", 1))
    assert job.hears(A, TaskDone("save", 0)) == [
        Persist({"tasks/save/0": True}),
        CountTasks("save", 1, 1),
        Send(A, TaskAccepted("save", 0)),
        Send(B, NoTask("save")),
    ]
    assert job.hears(A, TaskWanted("save", 1)) == [Send(A, NoTask("save"))]


def test_a_task_returns_when_its_worker_dies() -> None:
    job = begun()
    job.hears(A, TaskWanted("save", 1))
    job.hears(B, TaskWanted("save", 1))
    job.ends(A)
    assert job.sent(B, Task) == Task("save", 0)


def test_a_task_that_was_lost_on_the_way_is_given_again() -> None:
    job = begun()
    job.hears(A, TaskWanted("predict", 2))
    job.loses(A)
    job.hello(A, Standing.WARMING, wish=Wish("predict", 2))
    assert job.sent(A, Task) == Task("predict", 0)


def test_a_task_that_a_worker_still_has_is_given_to_nobody_else() -> None:
    job = begun()
    job.hears(A, TaskWanted("predict", 2))
    job.loses(A)
    job.hello(A, Standing.WARMING, held=(Held("predict", 0),))
    job.hears(B, TaskWanted("predict", 2))
    assert job.sent(B, Task) == Task("predict", 1)


def test_an_acknowledgement_that_was_lost_is_sent_again_and_nothing_is_stored_twice() -> None:
    job = begun()
    job.hears(A, TaskWanted("save", 1))
    job.hears(A, TaskDone("save", 0))
    job.loses(A)
    job.hello(A, Standing.WARMING, held=(Held("save", 0, done=True),))
    assert job.sent(A, TaskAccepted) == TaskAccepted("save", 0)
    assert not any(isinstance(command, Persist | CountTasks) for command in job.commands)


def test_a_new_master_knows_what_is_done_and_waits_to_hear_who_does_what() -> None:
    job = begun()
    for _ in range(2):
        job.hears(A, TaskWanted("predict", 4))
        job.hears(A, TaskDone("predict", _))
    job.hears(A, TaskWanted("predict", 4))
    job.adopt({A: Phase.RUNNING, B: Phase.RUNNING})
    assert CountTasks("predict", 2, 4) in job.commands
    job.hello(B, Standing.WARMING, wish=Wish("predict", 4))
    assert job.sent(B, Task) is None
    job.hello(A, Standing.WARMING, held=(Held("predict", 2),))
    assert job.sent(B, Task) == Task("predict", 3)


def test_a_queue_without_tasks_is_done() -> None:
    job = begun()
    assert job.hears(A, TaskWanted("predict", 0))[-1] == Send(A, NoTask("predict"))


def test_workers_that_do_not_mean_the_same_queue_fail_the_job() -> None:
    job = begun()
    job.hears(A, TaskWanted("predict", 2))
    job.hears(B, TaskWanted("predict", 3))
    job.ends(A, 0)
    job.ends(B, 0)
    assert job.end is not None
    assert job.end.text == "queue 'predict' has 2 tasks, and worker-1 says 3"


def test_a_worker_that_has_done_one_of_many_tasks_may_be_silent_no_longer_than_one_that_trains() -> None:
    job = begun(1)
    job.hears(A, TaskWanted("save", 1))
    job.hears(A, TaskDone("save", 0))
    job.hears(A, TaskWanted("parts", 2))
    job.waits(job.spec.silence + 1)
    assert not job.commands or job.killed == []
    job.hears(A, TaskDone("parts", 0))
    assert [c for c in job.waits(job.spec.silence + 1) if isinstance(c, EndWorker)] == [EndWorker(A, kill=True)]


def test_who_had_a_task_when_the_job_failed_is_no_news() -> None:
    job = begun(1)
    job.hears(A, TaskWanted("save", 1))
    job.hears(A, Failed('{"event": "Failed"}'))
    job.hears(A, Left(NO_STATE))
    job.ends(A, 0)
    assert job.told == []
