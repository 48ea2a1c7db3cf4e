"""How jobs end, and when workers are replaced."""

from __future__ import annotations

import pytest

from sqlflow_elastic.elastic.membership.master import Cancelled, EndJob, EndWorker, Outcome, Phase, ProcessChanged, Send
from sqlflow_elastic.elastic.membership.messages import Completed, End, Failed, Leaving, Left, Progress, Standing, Told
from sqlflow_elastic.events import Message, to_json
from tests.elastic.membership.job import Job

A, B, C = (f"worker-{index}" for index in range(3))


def test_a_job_has_succeeded_when_that_is_stored_and_all_workers_have_ended() -> None:
    job = Job(2)
    job.world(A, B)
    job.hears(A, Completed())
    assert job.stored["status"]["outcome"] == "succeeded"
    assert [c for c in job.commands if isinstance(c, Send)] == [Send(A, End()), Send(B, End())]
    job.ends(A, 0)
    assert job.end is None
    job.ends(B, 0)
    assert job.end == EndJob(Outcome.SUCCEEDED)


def test_workers_that_do_not_end_with_the_job_are_killed() -> None:
    job = Job(2)
    job.world(A, B)
    job.hears(A, Completed())
    assert {EndWorker(A, kill=True), EndWorker(B, kill=True)} <= set(job.waits(10.1))
    job.ends(A)
    job.ends(B)
    assert job.end == EndJob(Outcome.SUCCEEDED)


def test_workers_that_cannot_be_told_of_the_end_are_killed_at_once() -> None:
    job = Job(2)
    job.world(A)
    job.hears(A, Completed())
    assert job.killed == [B]


def test_the_users_error_ends_the_job() -> None:
    job = Job(1)
    job.world(A)
    job.hears(A, Failed("the event"))
    job.ends(A, 0)
    assert job.end == EndJob(Outcome.FAILED, event="the event", worker=A)


def test_a_new_master_ends_what_the_one_before_has_begun_to_end() -> None:
    job = Job(1)
    job.world(A)
    job.hears(A, Failed("the event"))
    job.adopt({A: Phase.RUNNING})
    assert job.killed == [A]
    job.ends(A)
    assert job.end == EndJob(Outcome.FAILED, event="the event", worker=A)


def test_a_cancelled_job_keeps_a_checkpoint() -> None:
    job = Job(2)
    job.world(A, B)
    job.does(Cancelled("KILL JOB"))
    assert (job.sent(A, End), job.sent(B, End)) == (End(checkpoint=True), End())
    job.ends(A, 0)
    job.ends(B, 0)
    assert job.end == EndJob(Outcome.CANCELLED, text="KILL JOB")


def test_a_worker_that_ends_by_itself_with_an_error_is_a_bug_that_ends_the_job() -> None:
    job = Job(2)
    job.world(A, B)
    job.ends(B, 3)
    job.ends(A)
    assert job.end == EndJob(Outcome.FAILED, text="worker-1 ended by itself with exit code 3", worker=B)


def test_deaths_with_progress_between_are_replaced_at_once_for_ever() -> None:
    job = Job(2)
    job.world(A, B)
    step, dying = 5, B
    for _ in range(20):
        job.ends(dying)
        assert len(job.started) == 1
        dying = job.started[0]
        job.runs(A, step=step)
        job.warms(dying)
        job.runs(A, dying, step=step)
        step += 1
        job.hears(A, Progress(job.stored["version"], step))


def test_workers_that_take_more_memory_than_they_may_end_the_job_in_the_end() -> None:
    job = Job(1, deaths=2)
    job.world(A)
    job.ends(A, out_of_memory=True)
    job.warms(B)
    job.runs(B, step=-1)
    assert job.changes[-1].why == "worker-0 took more memory than it may; worker-1 joined"
    job.ends(B, out_of_memory=True)
    assert job.stored["status"]["text"] == (
        "worker processes were ended by their memory's limit 2 times without a step between"
    )


def test_deaths_without_progress_are_replaced_after_growing_pauses_until_there_is_no_hope() -> None:
    job = Job(1)
    pauses, dying = [], A
    while True:
        job.does(ProcessChanged(dying, Phase.RUNNING))
        begun = job.now
        job.ends(dying)
        if job.end is not None:
            break
        while not job.started:
            job.now = job.machine.next_wake
            job.waits(0.0)
        pauses.append(round(job.now - begun, 3))
        dying = job.started[0]
    assert pauses == [0.0, 0.1, 0.2, 0.4, 0.8]
    assert job.end.text == (
        "worker processes were ended by SIGKILL 6 times without a step between (not enough memory?)"
    )


def test_the_death_of_many_at_once_is_one_death() -> None:
    job = Job(12)
    job.warms(*(f"worker-{index}" for index in range(12)))
    for index in range(12):
        job.ends(f"worker-{index}")
        assert len(job.started) == 1
    assert job.end is None


def test_preempted_workers_are_asked_for_again_without_a_pause() -> None:
    job = Job(1)
    dying = A
    for _ in range(20):
        job.warms(dying)
        job.ends(dying, -9, preempted=True)
        assert len(job.started) == 1
        dying = job.started[0]


def test_workers_that_left_are_asked_for_again_without_a_pause() -> None:
    job = Job(1)
    dying = A
    for _ in range(20):
        job.warms(dying)
        job.hears(dying, Leaving())
        successor = job.started[0]
        job.hears(dying, Left(-1))
        job.ends(dying, 0)
        dying = successor


def test_a_worker_that_cannot_be_started_fails_the_job_if_there_is_no_other() -> None:
    job = Job(1)
    job.ends(A, -9, failure="needs 3 slots, there are 2")
    assert job.end == EndJob(Outcome.FAILED, text="worker-0 could not be started: needs 3 slots, there are 2")


def test_it_is_a_warning_if_there_are_others() -> None:
    job = Job(2)
    job.world(A)
    job.ends(B, -9, failure="no room")
    assert job.end is None
    assert Message("worker-1 could not be started: no room", "warning") in job.told


def test_a_process_that_says_nothing_is_killed() -> None:
    job = Job(1)
    job.does(ProcessChanged(A, Phase.RUNNING))
    assert EndWorker(A, kill=True) in job.waits(60.1)


def test_workers_events_reach_the_session() -> None:
    job = Job(1)
    job.world(A)
    job.hears(A, Told(to_json(Message("hello"))))
    assert job.told[-1] == Message("hello")


@pytest.mark.parametrize(
    ("batch", "text"), [(2, "2 rows keeps at most 2 workers"), (1, "1 row keeps at most 1 worker")]
)
def test_a_batch_that_is_too_small_for_the_workers_is_told(batch: int, text: str) -> None:
    job = Job(4, batch_size=batch)
    assert job.told == [Message(f"a batch of {text} busy; 4 were asked for", "warning")]
    assert len(job.started) == batch


def test_of_a_thousand_workers_ten_die_at_once_and_a_new_world_runs() -> None:
    job = Job(1000, batch_size=4000)
    names = [f"worker-{index}" for index in range(1000)]
    job.warms(*names)
    job.runs(A, step=-1)
    job.runs(*names, step=0)
    for name in names[100:110]:
        job.ends(name)
        assert job.prepares == {}
    job.waits(0.05)
    living = [*names[:100], *names[110:]]
    assert set(job.prepares) == set(living)
    version = job.stored["version"]
    job.runs(*living, step=3)
    assert job.changes[-1].members == tuple(living)
    assert len(job.changes[-1].left) == 10
    assert job.stored["version"] == version
    for name in living:
        job.hears(name, Progress(version, 4))
        assert job.commands == []
    assert job.machine.next_wake > job.now
    job.hello(A, Standing.RUNNING, version, 9)
