"""A job that is stopped, by whomever and whenever, is gone: processes, sockets, files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sqlflow_elastic.cluster import LocalCluster, Role
from sqlflow_elastic.errors import JobCancelled
from sqlflow_elastic.jobs.records import CANCEL, Stage
from sqlflow_elastic.jobs.state import JobState
from tests.chaos import program
from tests.chaos.program import Phase
from tests.chaos.traces import Traces
from tests.chaos.trial import SECONDS, Trial
from tests.waiting import wait_until

#: While a world changes, and while all workers are dead, besides the phases of the program.
CHANGING, DEAD = "changing", "dead"
PHASES = [*Phase, "training", CHANGING, DEAD]


def reach(trial: Trial, phase: str) -> None:
    """Wait until a job is in a phase."""
    match phase:
        case Phase.SAVING:
            trial.until_it_trains(3)
            program.hurry(trial.folder)
            trial.until(lambda: trial.marks.get(phase) is not None, f"the job is {phase}")
        case Phase():
            trial.until(lambda: trial.marks.get(phase) is not None, f"the job is {phase}")
        case _:
            trial.until_it_trains(3)
    if phase == CHANGING:
        # The world cannot change as long as this one does not follow.
        trial.strike_worker(trial.members[1], signal.SIGSTOP)
        trial.strike_worker(trial.members[2])
    elif phase == DEAD:
        for worker in trial.processes(Role.WORKER):
            trial.strike(worker)


def text(phase: str) -> str:
    return program.program(held=Phase(phase) if phase in list(Phase) else None)


@pytest.mark.parametrize("phase", PHASES)
def test_a_cancelled_job_ends_in_every_phase(cluster: LocalCluster, tmp_path: Path, phase: str) -> None:
    with Trial(cluster, tmp_path, text(phase)) as trial:
        reach(trial, phase)
        trial.job.cancel()
        assert isinstance(trial.fails(), JobCancelled)
        assert trial.processes() == []
        with JobState(str(trial.folder.state)) as state:
            assert Stage(state.read("status")["state"]) is Stage.CANCELLED


@pytest.mark.parametrize("phase", PHASES)
def test_a_job_that_is_killed_by_another_session_ends_in_every_phase(
    cluster: LocalCluster, tmp_path: Path, phase: str
) -> None:
    with Trial(cluster, tmp_path, text(phase)) as trial:
        reach(trial, phase)
        with JobState(str(trial.folder.state)) as state:
            state.write({CANCEL: True})
        assert isinstance(trial.fails(), JobCancelled)
        assert trial.processes() == []


def test_a_job_is_cancelled_while_its_master_hangs(cluster: LocalCluster, tmp_path: Path) -> None:
    with Trial(cluster, tmp_path) as trial:
        trial.until_it_trains(3)
        trial.strike(trial.master, signal.SIGSTOP)
        trial.job.cancel()
        assert isinstance(trial.fails(), JobCancelled)
        assert trial.processes() == []


_SESSION = """
import sys
from pathlib import Path

from sqlflow_elastic.cluster import LocalCluster
from tests.chaos.conftest import PRELOAD
from tests.chaos.trial import Trial

with LocalCluster(PRELOAD, 4) as cluster, Trial(cluster, Path(sys.argv[1])) as trial:
    trial.until_it_trains(3)
    print("training", flush=True)
    trial.ends()
"""


def test_nothing_stays_when_a_session_is_killed(traces: Traces, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_SESSION), str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    ) as session:
        assert session.stdout is not None
        assert session.stdout.readline() == b"training\n"
        # The session, the fork server, the master and three workers.
        assert len(traces.processes()) == 6
        session.kill()
    wait_until(lambda: traces.processes() == [], SECONDS)
