"""What a master does about the servers of a job."""

from __future__ import annotations

import pytest

from sqlflow_elastic.elastic.membership.master import EndWorker, Outcome, Phase, Send, StartServer, Tick
from sqlflow_elastic.elastic.membership.messages import (
    NO_STATE,
    Broken,
    Commit,
    Completed,
    End,
    Hello,
    Leaving,
    Needs,
    Prepared,
    Progress,
    Ready,
    Release,
    Running,
    Server,
    Servers,
    ServerState,
    Standing,
    TaskDone,
    TaskWanted,
)
from sqlflow_elastic.elastic.membership.servers import OUT_OF_MEMORY_EXIT
from sqlflow_elastic.events import Message
from tests.elastic.membership.job import Job

A, B = "worker-0", "worker-1"
P, Q, R, S = (f"ps-{index}" for index in range(4))


def at(*names: str) -> tuple[Server, ...]:
    return tuple(Server(name, f"{name}:1") for name in names)


def served(servers: int = 1, workers: int = 2, step: int = 5, **spec: float) -> Job:
    """A job whose workers take steps with these servers."""
    job = Job(workers, **spec)
    job.needs(A, servers)
    job.serves(*(P, Q, R, S)[:servers])
    job.world(*(A, B)[:workers], step=step)
    return job


def texts(job: Job) -> list[str]:
    return [event.text for event in job.told if isinstance(event, Message)]


def test_servers_are_started_when_it_is_known_what_is_needed() -> None:
    job = Job(1)
    assert job.started_servers == {}
    job.needs(A, 2, memory=300)
    assert job.started_servers == {P: 300, Q: 300}
    needs = {"count": 2, "memory": 300, "named": 2, "synchronous": True, "placement": ""}
    assert job.stored["servers"] == needs
    assert job.stored["plan"] == '{"servers": 2}'


def test_what_was_said_already_changes_nothing() -> None:
    job = Job(2)
    job.needs(A, 2)
    job.needs(B, 2)
    assert job.commands == []


def test_a_training_without_servers_has_none() -> None:
    job = Job(1)
    job.needs(A, 0)
    job.warms(A)
    assert job.prepares[A].servers == ()


def test_what_the_user_allows_a_server_is_what_it_may_take() -> None:
    job = Job(1, server_memory=50)
    job.needs(A, 1, memory=300)
    assert job.started_servers == {P: 50}


def test_a_world_waits_for_all_of_its_servers() -> None:
    job = Job(1)
    job.needs(A, 2)
    job.warms(A)
    job.serves(Q)
    assert job.prepares == {}
    job.serves(P)
    assert job.prepares[A].servers == at(P, Q)


def test_needs_are_known_from_a_workers_hello_too() -> None:
    job = Job(1)
    job.hears(A, Hello(A, "a:1", Standing.WARMING, 0, NO_STATE, needs=Needs(1, 100, "{}")))
    assert job.started_servers == {P: 100}


def test_after_the_loss_of_a_server_everybody_goes_back_to_the_last_checkpoint() -> None:
    job = served(2)
    job.ends(P)
    assert job.started_servers == {R: 100}
    job.serves(R)
    assert {name: (p.servers, p.rewind, p.planned) for name, p in job.prepares.items()} == {
        name: (at(Q, R), True, False) for name in (A, B)
    }
    version = job.stored["version"]
    for name in (A, B):
        job.hears(name, Prepared(version, NO_STATE))
    assert set(job.commits.values()) == {Commit(version, 0, (1,), NO_STATE)}
    for name in (A, B):
        job.hears(name, Running(version, 3, 0.1))
    assert job.changes[-1].why == "ps-0 was ended by SIGKILL"


def test_the_world_after_that_goes_on_from_the_state_of_its_members() -> None:
    job = served()
    job.ends(P)
    job.serves(Q)
    job.runs(A, B, step=NO_STATE)
    job.ends(B)
    assert not job.prepares[A].rewind
    job.hears(A, Prepared(job.stored["version"], 9))
    assert job.commits[A] == Commit(job.stored["version"], 0, (), 9)


def test_a_server_lost_on_the_way_leads_to_another_attempt() -> None:
    job = Job(1)
    job.needs(A, 1)
    job.serves(P)
    job.warms(A)
    before = job.stored["version"]
    job.ends(P)
    job.hears(A, Prepared(before, NO_STATE))
    assert job.commits == {}
    job.serves(Q)
    assert job.prepares[A].version == before + 1
    assert not job.prepares[A].rewind


def test_a_broken_ring_costs_nobody_his_life_while_a_server_is_out_of_touch() -> None:
    job = served()
    job.loses(P)
    version = job.stored["version"]
    for name in (A, B):
        job.hears(name, Broken(version, 5, None, "gone"))
    for _ in range(8):
        job.hears(A, Progress(0, 5))
    assert job.killed == []
    job.hello(P, Standing.READY)
    assert set(job.prepares) == {A, B}
    assert not job.prepares[A].rewind


def test_who_comes_back_while_the_next_world_waits_for_a_server_is_told_later() -> None:
    job = served(hang=60.0)
    job.ends(P)
    job.loses(A)
    job.hello(A, Standing.STOPPED, job.stored["version"], 5)
    assert job.prepares == {}
    assert job.waits(20.0) == []
    job.serves(Q)
    assert set(job.prepares) == {A, B}


def test_a_silent_server_is_killed() -> None:
    job = served(hang=1.0, workers=1)
    job.now += 1.0
    job.hears(P, ServerState(1, 1, 1))
    job.hears(A, Progress(1, 6))
    job.waits(1.0)
    job.hears(A, Progress(1, 7))
    commands = job.waits(2.0)
    assert EndWorker(P, kill=True) in commands
    assert StartServer(Q, 100) in commands
    job.ends(P)
    assert texts(job) == ["ps-0 was ended by SIGKILL; another server takes its place"]


def test_a_server_that_stays_out_of_touch_is_killed() -> None:
    job = served()
    job.loses(P)
    assert EndWorker(P, kill=True) in job.waits(2.1)


def test_servers_that_die_at_once_again_and_again_end_the_job() -> None:
    job = Job(1, deaths=3)
    job.needs(A, 1)
    job.serves(P)
    job.world(A)
    for name in (P, Q, R):
        job.serves(name)
        job.ends(name, 1)
        job.waits(5.0)
    assert job.stored["status"]["outcome"] == "failed"
    assert job.stored["status"]["text"] == "servers were ended by exit code 1 3 times without a step between"


def test_a_job_without_workers_keeps_its_servers() -> None:
    job = served(workers=1)
    job.ends(A)
    assert job.started == [B]
    assert job.killed == []
    job.warms(B)
    assert job.prepares[B].servers == at(P)


class TestChanges:
    def test_one_that_was_asked_to_leave_serves_until_its_successor_has_the_rows(self) -> None:
        job = served()
        job.hears(P, Leaving())
        assert job.started_servers == {Q: 100}
        assert texts(job) == ["ps-0 was asked to leave; another server takes its place"]
        job.serves(Q)
        assert {(p.servers, p.rewind, p.planned) for p in job.prepares.values()} == {(at(Q), False, True)}
        version = job.stored["version"]
        for name in (A, B):
            job.hears(name, Prepared(version, 7))
        assert job.commits[A] == Commit(version, 0, (), 7, at(P))
        job.hears(A, Running(version, 7, 0.1))
        assert job.sent(P, Release) is None
        job.hears(B, Running(version, 7, 0.1))
        assert job.sent(P, Release) == Release("asked to leave")
        assert job.changes[-1].why == "tables move to ps-1"
        job.ends(P, 0)
        assert job.commands == []

    def test_more_servers(self) -> None:
        job = served(workers=1)
        job.needs(A, 3)
        assert job.started_servers == {Q: 100, R: 100}
        job.serves(Q)
        assert job.prepares == {}
        job.serves(R)
        assert (job.prepares[A].servers, job.prepares[A].planned) == (at(P, Q, R), True)

    def test_fewer_servers(self) -> None:
        job = served(3, workers=1)
        job.needs(A, 1)
        assert job.prepares[A].servers == at(P)
        assert job.sent(Q, Release) is None
        job.runs(A, step=6)
        assert [c.name for c in job.commands if isinstance(c, Send) and isinstance(c.message, Release)] == [Q, R]

    def test_one_that_never_came_to_run_and_is_not_needed_is_ended(self) -> None:
        job = served(workers=1)
        job.needs(A, 2)
        job.needs(A, 1)
        assert EndWorker(Q, kill=False) in job.commands

    def test_rows_are_lost_with_either_server_until_a_world_has_moved_them(self) -> None:
        for lost in (P, Q):
            job = served(workers=1)
            job.hears(P, Leaving())
            job.serves(Q)
            job.hears(A, Prepared(job.stored["version"], 7))
            job.ends(lost)
            assert job.prepares[A].rewind

    def test_they_are_where_a_step_was_taken(self) -> None:
        job = served()
        job.hears(P, Leaving())
        job.serves(Q)
        version = job.stored["version"]
        for name in (A, B):
            job.hears(name, Prepared(version, 7))
        job.hears(A, Running(version, 7, 0.1))
        job.ends(B)
        job.hears(A, Prepared(version + 1, 9))
        assert job.commits[A].sources == ()

    def test_they_may_be_where_they_were_if_none_was_taken(self) -> None:
        job = served()
        job.hears(P, Leaving())
        job.serves(Q)
        version = job.stored["version"]
        for name in (A, B):
            job.hears(name, Prepared(version, 7))
        job.ends(B)
        job.hears(A, Prepared(version + 1, 7))
        assert job.commits[A].sources == at(P)


class TestMemory:
    @pytest.mark.parametrize("how", [{"code": -9, "out_of_memory": True}, {"code": OUT_OF_MEMORY_EXIT}])
    def test_the_next_servers_may_take_twice_as_much(self, how: dict[str, int]) -> None:
        job = served(2)
        job.ends(P, **how)
        assert job.started_servers == {R: 200}
        assert texts(job) == ["ps-0 ran out of memory (100 MiB): the next server has 200 MiB"]
        assert job.stored["servers"]["memory"] == 200
        job.ends(Q)
        assert job.started_servers == {S: 200}

    def test_two_that_ran_out_of_the_same_memory_count_once(self) -> None:
        job = served(2)
        job.ends(P, out_of_memory=True)
        job.ends(Q, out_of_memory=True)
        assert job.started_servers == {S: 200}

    def test_it_is_no_death_that_counts(self) -> None:
        job = Job(1, deaths=1)
        job.needs(A, 1)
        job.ends(P, out_of_memory=True)
        assert job.started_servers == {Q: 200}

    def test_there_is_an_end_to_it(self) -> None:
        job = Job(1, server_memory=1 << 20)
        job.needs(A, 1)
        job.ends(P, out_of_memory=True)
        assert job.stored["status"]["text"] == (
            "ps-0 ran out of memory (1,048,576 MiB), and no server has more than 1,048,576 MiB"
        )

    def test_a_cluster_without_room_for_it_ends_the_job(self) -> None:
        job = Job(1)
        job.needs(A, 1)
        job.ends(P, None, failure="no machine has 100 MiB")
        assert job.stored["status"]["text"] == "ps-0 could not be started: no machine has 100 MiB"

    def test_without_a_limit_it_is_a_death_like_others(self) -> None:
        job = Job(1)
        job.needs(A, 1, memory=0)
        job.ends(P, OUT_OF_MEMORY_EXIT)
        assert job.started_servers == {Q: 0}
        assert texts(job) == ["ps-0 was ended by exit code 75; another server takes its place"]


class TestNewMaster:
    def test_servers_that_live_are_kept(self) -> None:
        job = served()
        version = job.stored["version"]
        job.adopt({A: Phase.RUNNING, B: Phase.RUNNING, P: Phase.RUNNING})
        job.hello(P, Standing.READY)
        for name in (A, B):
            job.hello(name, Standing.RUNNING, version, 20)
        assert job.waits(1.0) == []
        assert job.stored["version"] == version

    def test_one_that_died_with_the_master_is_lost(self) -> None:
        job = served()
        job.adopt({A: Phase.RUNNING, B: Phase.RUNNING})
        for name in (A, B):
            job.hello(name, Standing.STOPPED, 2, 20)
        assert job.started_servers == {Q: 100}
        job.serves(Q)
        assert {p.rewind for p in job.prepares.values()} == {True}

    def test_one_that_does_not_come_is_lost(self) -> None:
        job = served(workers=1, hang=60.0)
        job.adopt({A: Phase.RUNNING, P: Phase.RUNNING})
        job.hello(A, Standing.RUNNING, 1, 20)
        assert EndWorker(P, kill=True) in job.waits(5.1)
        job.serves(Q)
        assert job.prepares[A].rewind

    def test_one_that_was_let_go_is_not(self) -> None:
        job = served(workers=1)
        job.hears(P, Leaving())
        job.serves(Q)
        job.runs(A, step=7)
        version = job.stored["version"]
        job.adopt({A: Phase.RUNNING, Q: Phase.RUNNING})
        job.hello(Q, Standing.READY)
        job.hello(A, Standing.RUNNING, version, 7)
        assert job.stored["version"] == version

    def test_a_server_on_its_way_is_not_started_again(self) -> None:
        job = Job(1)
        job.needs(A, 1)
        job.adopt({A: Phase.RUNNING, P: Phase.PENDING})
        job.hello(A, Standing.WARMING)
        assert job.started_servers == {}


class TestEnd:
    def test_servers_end_with_the_job(self) -> None:
        job = served(2)
        job.hears(A, Completed())
        assert [c.name for c in job.commands if isinstance(c, Send) and c.message == End()] == [A, B, P, Q]
        for name in (A, B, P):
            job.ends(name, 0)
        assert job.end is None
        job.ends(Q, 0)
        assert job.end is not None
        assert job.end.outcome is Outcome.SUCCEEDED

    def test_none_is_replaced_when_training_is_over(self) -> None:
        job = served(workers=1)
        job.hello(A, Standing.FINISHED, job.stored["version"], 9)
        job.ends(P)
        assert job.started_servers == {}

    def test_one_that_comes_late_is_sent_home(self) -> None:
        job = Job(1)
        job.needs(A, 1)
        job.does(Tick())
        job.hears(A, Completed())
        assert P in job.killed


def test_warm_workers_take_part_when_servers_come_later() -> None:
    job = Job(2)
    for name in (A, B):
        job.needs(name, 1)
        job.hello(name, Standing.WARMING)
        job.hears(name, Ready(NO_STATE))
    job.serves(P)
    assert set(job.prepares) == {A, B}


def alone(servers: int = 2) -> Job:
    """A job whose workers take steps that wait for nobody."""
    job = Job(2)
    for name in (A, B):
        job.hello(name, Standing.WARMING)
        job.needs(name, servers, synchronous=False)
    return job


def test_workers_that_take_steps_alone_hear_of_the_servers_when_all_are_there() -> None:
    job = alone()
    job.serves(Q)
    assert job.sent(A, Servers) is None
    job.serves(P)
    assert job.sent(A, Servers) == job.sent(B, Servers) == Servers(1, at(P, Q))


def test_a_successor_takes_the_place_of_the_server_before_it() -> None:
    job = alone()
    job.serves(P, Q)
    job.ends(P)
    assert job.sent(A, Servers) is None, "the other one goes on"
    assert job.started_servers == {R: 100}
    job.serves(R)
    assert job.sent(A, Servers) == Servers(2, at(R, Q))


def test_a_server_that_is_asked_to_leave_stays_until_its_successor_is_there() -> None:
    job = alone()
    job.serves(P, Q)
    job.hears(Q, Leaving())
    assert job.sent(Q, Release) is None
    job.serves(R)
    assert job.sent(B, Servers) == Servers(2, at(P, R))
    assert job.sent(Q, Release) is not None


def test_who_comes_later_hears_of_the_servers_too() -> None:
    job = alone()
    job.serves(P, Q)
    job.loses(B)
    job.hello(B, Standing.WARMING)
    assert job.sent(B, Servers) == Servers(1, at(P, Q))


def test_a_new_master_knows_the_places_of_servers() -> None:
    job = alone()
    job.serves(P, Q)
    job.ends(P)
    job.serves(R)
    job.adopt(dict.fromkeys((A, B, Q, R), Phase.RUNNING))
    job.hello(A, Standing.WARMING, needs=Needs(2, 100, '{"servers": 2}', synchronous=False))
    assert job.sent(A, Servers) == Servers(2, at(R, Q))
    job.hello(B, Standing.WARMING, needs=Needs(2, 100, '{"servers": 2}', synchronous=False))
    job.ends(Q)
    job.hello(R, Standing.READY)
    job.serves(S)
    assert job.sent(A, Servers) == Servers(3, at(R, S))


def test_tasks_that_are_done_make_deaths_of_servers_no_row() -> None:
    job = alone(1)
    names = [f"ps-{index}" for index in range(20)]
    job.hears(A, TaskWanted("epoch 1", 30))
    for task, name in enumerate(names):
        job.waits(20.0)
        job.serves(name)
        job.hears(A, TaskDone("epoch 1", task))
        job.ends(name)
    assert job.end is None
