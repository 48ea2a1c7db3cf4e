"""Processes that stop, hang, are asked to go, or fail by themselves."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlflow_elastic.cluster import LocalCluster, Phase, Role
from sqlflow_elastic.errors import DataError, JobError
from tests.chaos import program
from tests.chaos.program import Fault
from tests.chaos.traces import fork_servers
from tests.chaos.trial import Trial, request


def test_a_preempted_job_shrinks_and_grows_back(clusters: Callable[[int], LocalCluster], tmp_path: Path) -> None:
    cluster = clusters(3)
    with Trial(cluster, tmp_path) as trial:
        trial.until_it_trains(3)
        with Trial(cluster, tmp_path, asked=request(workers=2, priority=5)) as urgent:
            urgent.until_it_trains(2)
            trial.until_it_trains(1)
            urgent.ends()
        trial.until_it_trains(3)
        assert [one.exit_code for one in cluster.list(trial.job.id) if one.preempted] == [0, 0]
        trial.ends()
    # Who was asked to leave left between two steps: nothing was trained twice, so no world began before another's end.
    assert [world.step for world in trial.worlds] == sorted(world.step for world in trial.worlds)


def test_the_others_go_on_without_a_worker_that_hangs(cluster: LocalCluster, tmp_path: Path) -> None:
    with Trial(cluster, tmp_path) as trial:
        trial.until_it_trains(3)
        hanging = trial.members[1]
        trial.strike_worker(hanging, signal.SIGSTOP)
        trial.until(lambda: trial.worker(hanging).phase is Phase.ENDED, "the worker that hangs is given up")
        trial.until_it_trains(3)
        assert hanging not in trial.members
        assert trial.worker(hanging).exit_code == -signal.SIGKILL
        trial.ends()
    assert any(f"{hanging} was silent for 5 s" in world.why for world in trial.worlds)


def test_a_worker_that_hangs_for_a_moment_stays(cluster: LocalCluster, tmp_path: Path) -> None:
    with Trial(cluster, tmp_path) as trial:
        trial.until_it_trains(3)
        worlds, hanging = len(trial.worlds), trial.members[1]
        trial.strike_worker(hanging, signal.SIGSTOP)
        step = trial.step
        trial.strike_worker(hanging, signal.SIGCONT)
        trial.until(lambda: trial.step > step, "it gets on")
        assert len(trial.worlds) == worlds
        trial.ends()


def test_a_worker_that_wakes_up_while_it_is_given_up_does_no_harm(cluster: LocalCluster, tmp_path: Path) -> None:
    with Trial(cluster, tmp_path) as trial:
        trial.until_it_trains(3)
        hanging, worlds = trial.members[1], len(trial.worlds)
        trial.strike_worker(hanging, signal.SIGSTOP)
        # Without a master nobody gives it up; its neighbours do, as soon as they may, and the next master hears of it.
        trial.strike(trial.master)
        trial.until(lambda: len(trial.worlds) > worlds, "a world without it")
        trial.strike(trial.worker(hanging), signal.SIGCONT)
        trial.until_it_trains(3)
        trial.ends()


def test_training_goes_on_while_the_master_hangs(cluster: LocalCluster, tmp_path: Path) -> None:
    with Trial(cluster, tmp_path) as trial:
        trial.until_it_trains(3)
        worlds, master = len(trial.worlds), trial.master
        trial.strike(master, signal.SIGSTOP)
        for _ in range(5):
            trial.until_it_gets_on()
        trial.strike(master, signal.SIGCONT)
        trial.until_it_gets_on()
        assert trial.master.pid == master.pid
        assert len(trial.worlds) == worlds
        trial.ends()


def test_a_master_that_hangs_for_good_is_followed_by_another(cluster: LocalCluster, tmp_path: Path) -> None:
    with Trial(cluster, tmp_path) as trial:
        trial.until_it_trains(3)
        master, lost = trial.master, trial.members[0]
        trial.strike(master, signal.SIGSTOP)
        trial.strike_worker(lost)
        trial.until(lambda: trial.master.name != master.name, "there is another master")
        trial.until_it_trains(3)
        assert trial.worker(master.name).exit_code == -signal.SIGKILL
        trial.ends()


def test_a_job_whose_masters_are_killed_again_and_again_is_given_up(cluster: LocalCluster, tmp_path: Path) -> None:
    with Trial(cluster, tmp_path) as trial:
        trial.until_it_trains(3)
        while not trial.over:
            for master in trial.processes(Role.MASTER):
                trial.strike(master)
        error = trial.fails()
        assert isinstance(error, JobError)
        assert "was ended by SIGKILL 11 times" in str(error)
        assert trial.processes() == []


def test_all_comes_back_when_the_fork_server_is_killed(cluster: LocalCluster, tmp_path: Path) -> None:
    with Trial(cluster, tmp_path) as trial:
        trial.until_it_trains(3)
        step, lost = trial.step, {one.pid for one in trial.processes()}
        (server,) = fork_servers()
        server.kill()
        trial.until(lambda: not lost & {one.pid for one in trial.processes()}, "all of its children are gone")
        trial.until_it_trains(3)
        assert trial.step > step
        trial.ends()
    # It went on from the last checkpoint, not from the beginning.
    assert all(world.step >= step for world in trial.worlds[3:])


@pytest.mark.parametrize("fault", [Fault.BUG, Fault.EXIT])
def test_a_bug_in_one_worker_ends_the_job_with_its_last_words(
    cluster: LocalCluster, tmp_path: Path, fault: Fault
) -> None:
    with Trial(cluster, tmp_path, program.program(fault=fault)) as trial:
        error = trial.fails()
    assert isinstance(error, JobError)
    words = {
        Fault.BUG: ("exit code 1", "RuntimeError: this program has a bug"),
        Fault.EXIT: ("exit code 3", "gives up"),
    }
    for word in ("worker-1 ended by itself with", *words[fault]):
        assert word in str(error)


def test_a_wrong_value_that_one_worker_meets_ends_the_job_as_the_users_error(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    with Trial(cluster, tmp_path, program.program(fault=Fault.USER)) as trial:
        error = trial.fails()
    assert isinstance(error, DataError)
    assert str(error) == "the 21st value is wrong"
    assert not trial.processes(Role.WORKER)
