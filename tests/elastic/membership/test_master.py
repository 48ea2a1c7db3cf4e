"""What a master does about worlds that change."""

from __future__ import annotations

import pytest

from sqlflow_elastic.elastic.membership.master import EndWorker, Persist, Phase, ProcessChanged, Send, StartWorker
from sqlflow_elastic.elastic.membership.messages import (
    NO_STATE,
    Broken,
    Commit,
    End,
    Finished,
    Leaving,
    Left,
    Prepare,
    Prepared,
    Progress,
    Release,
    Running,
    Standing,
    Welcome,
)
from sqlflow_elastic.elastic.membership.spec import JobSpec, Scaling
from tests.elastic.membership.job import Job

A, B, C, D = (f"worker-{index}" for index in range(4))


def test_names_are_stored_before_workers_are_started() -> None:
    commands = Job(2).commands
    assert commands == [Persist({"names": 2}), StartWorker(A), StartWorker(B)]


def test_the_first_one_that_is_warm_begins_alone() -> None:
    job = Job()
    job.warms(A)
    assert job.commands[-1] == Send(A, Prepare(1, 0, 1, f"{A}:1", planned=False))
    job.hears(A, Prepared(1, NO_STATE))
    assert job.commands[0] == Persist(
        {
            "world": {
                "version": 1,
                "members": [A],
                "shares": [],
                "root": 0,
                "receivers": [],
                "step": NO_STATE,
                "servers": [],
                "sources": [],
                "placement": "",
            }
        }
    )
    assert job.commands[1] == Send(A, Commit(1, 0, (), NO_STATE))


def test_a_joiner_gets_the_state_and_the_others_stop_between_two_steps() -> None:
    job = Job()
    job.world(A)
    job.warms(B)
    assert {name: (p.rank, p.planned, p.next) for name, p in job.prepares.items()} == {
        A: (0, True, f"{B}:1"),
        B: (1, True, f"{A}:1"),
    }
    assert job.prepares[B].seconds > job.prepares[A].seconds
    job.hears(B, Prepared(2, NO_STATE))
    assert job.commands == []
    job.hears(A, Prepared(2, 7))
    assert job.commits == dict.fromkeys((A, B), Commit(2, 0, (1,), 7))
    job.hears(A, Running(2, 7, 0.02))
    job.hears(B, Running(2, 7, 0.0))
    change = job.changes[-1]
    assert (change.members, change.joined, change.left, change.step, change.seconds) == ((A, B), (B,), (), 7, 0.02)


def test_joins_during_a_change_wait_for_the_next() -> None:
    job = Job()
    job.world(A)
    job.warms(B)
    job.warms(C)
    assert job.prepares == {}
    job.runs(A, B)
    assert set(job.prepares) == {A, B, C}


def test_a_death_breaks_off_at_once_and_the_furthest_one_passes_its_state_on() -> None:
    job = Job()
    job.world(A, B, C)
    job.ends(B)
    assert {name: p.planned for name, p in job.prepares.items()} == {A: False, C: False}
    assert job.started == [D]
    version = job.stored["version"]
    job.hears(A, Prepared(version, 5))
    job.hears(C, Prepared(version, 6))
    assert job.commits[A] == Commit(version, 1, (0,), 6)
    job.hears(A, Running(version, 6, 0.3))
    job.hears(C, Running(version, 6, 0.2))
    assert (job.changes[-1].left, job.changes[-1].seconds) == ((B,), 0.3)
    assert "SIGKILL" in job.changes[-1].why


def test_a_member_lost_on_the_way_leads_to_the_next_version_at_once() -> None:
    job = Job()
    job.world(A, B, C)
    job.ends(B)
    job.ends(C)
    assert set(job.prepares) == {A}
    assert job.prepares[A].size == 1


def test_a_stream_that_is_lost_for_a_moment_changes_nothing() -> None:
    job = Job()
    job.world(A, B)
    assert job.loses(B) == []
    assert job.waits(1.9) == []
    job.hello(B, Standing.RUNNING, job.stored["world"]["version"], 9)
    assert [type(c.message) for c in job.commands if isinstance(c, Send)] == [Welcome]


def test_a_stream_that_stays_lost_is_a_death() -> None:
    job = Job()
    job.world(A, B)
    job.loses(B)
    assert EndWorker(B, kill=True) in job.waits(2.1)


def test_who_is_out_of_touch_and_suspected_by_a_neighbour_is_dead_at_once() -> None:
    job = Job()
    job.world(A, B)
    job.loses(B)
    job.hears(A, Broken(job.stored["world"]["version"], 5, 1, "reset by peer"))
    assert set(job.prepares) == {A}
    assert EndWorker(B, kill=True) in job.waits(0.2)


def test_how_a_worker_ended_counts_also_after_its_ring_broke() -> None:
    job = Job()
    job.world(A, B)
    job.loses(B)
    job.hears(A, Broken(job.stored["world"]["version"], 5, 1, "reset by peer"))
    job.ends(B, 3)
    assert job.stored["status"]["text"] == "worker-1 ended by itself with exit code 3"


def test_a_ring_that_broke_between_the_living_is_made_again() -> None:
    job = Job()
    job.world(A, B)
    version = job.stored["version"]
    job.hears(A, Broken(version, 5, 1, "reset by peer"))
    assert job.prepares == {}
    job.hears(B, Broken(version, 5, 0, "reset by peer"))
    assert set(job.prepares) == {A, B}
    assert job.killed == []


def test_who_does_not_say_that_a_ring_broke_is_given_up() -> None:
    job = Job(hang=1000.0)
    job.world(A, B, C)
    version = job.stored["version"]
    job.hears(A, Broken(version, 5, 1, "reset by peer"))
    job.hears(C, Broken(version, 5, 1, "reset by peer"))
    assert EndWorker(B, kill=True) in job.waits(10.1)
    assert not {A, C} & set(job.killed)


def test_after_two_failures_between_the_same_members_the_suspected_one_is_given_up() -> None:
    job = Job()
    job.world(A, B, C)
    for _ in range(2):
        version = job.stored["version"]
        assert job.killed == []
        for name in (A, B, C):
            job.hears(name, Broken(version, 5, 1 if name != B else 0, "refused"))
    assert job.killed == [B]
    assert set(job.prepares) == {A, C}


def test_the_only_one_with_the_state_is_never_the_one_to_be_given_up() -> None:
    job = Job()
    job.world(A)
    job.warms(B)
    for _ in range(2):
        version = job.stored["version"]
        job.hears(B, Broken(version, NO_STATE, 0, "refused"))
        job.hears(A, Broken(version, 5, None, "refused"))
    assert job.killed == [B]


def test_a_silent_worker_is_killed() -> None:
    job = Job(2)
    job.world(A, B)
    for _ in range(10):
        job.hears(A, Progress(job.stored["version"], 5))
        commands = job.waits(1.0)
        if EndWorker(B, kill=True) in commands:
            break
    assert job.now <= 6.0
    assert EndWorker(A, kill=True) not in commands


def test_a_worker_that_warms_up_may_be_silent_for_longer() -> None:
    job = Job(1)
    job.hello(A, Standing.WARMING)
    assert EndWorker(A, kill=True) not in job.waits(29.0)
    assert EndWorker(A, kill=True) in job.waits(2.0)


def test_one_that_was_given_up_is_killed_again_when_it_comes_back_and_until_it_has_ended() -> None:
    job = Job()
    job.world(A, B)
    job.loses(B)
    job.waits(2.1)
    job.hello(B, Standing.RUNNING, 2, 9)
    assert job.sent(B, End) is not None
    assert job.killed == [B]
    assert EndWorker(B, kill=True) in job.waits(5.1)
    job.ends(B)
    assert EndWorker(B, kill=True) not in job.waits(20.0)


def test_a_stranger_is_told_to_end() -> None:
    job = Job()
    job.hello("worker-99", Standing.READY)
    assert job.commands == [Send("worker-99", End())]


def test_without_a_state_nothing_begins_while_the_world_before_may_live() -> None:
    job = Job(2)
    job.world(A)
    job.warms(B)
    job.loses(A)
    job.waits(2.1)
    version = job.stored["version"]
    job.hears(B, Prepared(version, NO_STATE))
    assert job.commits == {}
    job.ends(A)
    assert job.commits == {B: Commit(version, 0, (), NO_STATE)}


def test_a_leaver_is_let_go_between_two_steps_and_asked_for_again() -> None:
    job = Job(2)
    job.world(A, B)
    job.hears(B, Leaving())
    assert job.started == [C]
    assert {name: p.planned for name, p in job.prepares.items()} == {A: True}
    assert job.sent(B, Release) == Release("asked to leave")
    job.hears(B, Left(6))
    job.ends(B, 0)
    job.runs(A, step=6)
    assert (job.changes[-1].members, job.changes[-1].left) == ((A,), (B,))
    assert job.killed == []


def test_the_last_one_to_leave_writes_a_checkpoint() -> None:
    job = Job(2)
    job.world(A)
    job.hears(A, Leaving())
    assert job.sent(A, Release) == Release("asked to leave", checkpoint=True)
    job.hears(A, Left(6))
    job.warms(B)
    version = job.stored["version"]
    job.hears(B, Prepared(version, NO_STATE))
    assert job.commits == {}
    job.ends(A, 0)
    assert set(job.commits) == {B}


def test_a_state_that_only_a_leaver_has_is_handed_over_first() -> None:
    job = Job(2, step=1000.0)
    job.world(A)
    job.warms(B)
    job.hears(A, Leaving())
    assert job.sent(A, Release) is None
    job.runs(A, B, step=4)
    assert job.sent(A, Release) == Release("asked to leave")
    assert set(job.prepares) == {B}


def test_one_that_does_not_leave_in_time_is_killed() -> None:
    job = Job(2)
    job.world(A, B)
    job.hears(B, Leaving())
    commands = []
    for _ in range(31):
        job.hears(A, Progress(3, 5))
        job.hears(B, Progress(2, 5))
        commands += job.waits(1.0)
    assert EndWorker(B, kill=True) in commands


def test_nothing_changes_once_somebody_has_trained_to_the_end() -> None:
    job = Job()
    job.world(A, B)
    version = job.stored["version"]
    job.hears(A, Finished(50))
    job.hears(B, Broken(version, 49, 0, "closed"))
    job.warms(C)
    assert job.prepares == {}
    job.ends(A)
    assert set(job.prepares) == {B, C}


def test_a_lost_commit_is_sent_again() -> None:
    job = Job(2)
    job.world(A)
    job.warms(B)
    version = job.stored["version"]
    job.hears(B, Prepared(version, NO_STATE))
    job.hears(A, Prepared(version, 5))
    job.loses(B)
    job.hello(B, Standing.PREPARED, version)
    assert job.commits == {B: Commit(version, 0, (1,), 5)}


def test_a_lost_prepare_is_sent_again() -> None:
    job = Job(2)
    job.world(A)
    job.warms(B)
    job.loses(B)
    job.hello(B, Standing.READY)
    assert set(job.prepares) == {B}


class TestNewMaster:
    def test_a_world_that_runs_is_left_alone(self) -> None:
        job = Job(2)
        job.world(A, B)
        version = job.stored["version"]
        changes = len(job.changes)
        job.adopt({A: Phase.RUNNING, B: Phase.RUNNING})
        for name in (A, B):
            job.hello(name, Standing.RUNNING, version, 20)
        assert job.stored["version"] == version
        assert len(job.changes) == changes
        assert job.waits(2.0) == []

    def test_who_died_with_the_master_leads_to_a_higher_version(self) -> None:
        job = Job(2)
        job.world(A, B)
        version = job.stored["version"]
        job.adopt({A: Phase.RUNNING})
        job.hello(A, Standing.STOPPED, version + 3, 20)
        assert set(job.prepares) == {A}
        assert job.prepares[A].version == version + 4
        assert job.started == ["worker-2"]

    def test_who_does_not_come_in_time_is_killed(self) -> None:
        job = Job(2)
        job.world(A, B)
        job.adopt({A: Phase.RUNNING, B: Phase.RUNNING})
        job.hello(A, Standing.RUNNING, 2, 20)
        assert job.commands[1:] == []
        assert EndWorker(B, kill=True) in job.waits(5.1)

    def test_a_state_from_a_world_that_is_over_does_not_count(self) -> None:
        job = Job(3)
        job.world(A, B)
        job.adopt({A: Phase.RUNNING, B: Phase.RUNNING, C: Phase.RUNNING})
        job.hello(C, Standing.STOPPED, 1, 3)
        assert job.killed == [C]

    def test_a_process_that_nobody_knows_is_killed(self) -> None:
        job = Job(1)
        job.does(ProcessChanged("worker-7", Phase.RUNNING))
        assert job.killed == ["worker-7"]


def test_many_workers_beat_less_often() -> None:
    assert JobSpec("job", 4).heartbeat_of_all == 0.5
    assert JobSpec("job", 1000).heartbeat_of_all == 2.0
    assert JobSpec("job", 1000).silence == 10.0


def test_a_spec_is_the_same_from_json() -> None:
    spec = JobSpec("job", 3, 64, Scaling.ALL, hang=7.0)
    assert JobSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"batch_size": 0}, {"hang": 0.0}, {"change": float("inf")}])
def test_a_wrong_spec_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be|at least"):
        JobSpec(**{"job": "job", "workers": 1, **wrong})  # type: ignore[arg-type]
