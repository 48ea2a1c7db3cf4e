"""Workers, servers and masters of an asynchronous training are killed at random; it goes on, and learns."""

from __future__ import annotations

import functools
import json
import random
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from sqlflow_elastic.cluster import LocalCluster, Role
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.events import Message
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from tests.chaos import lone_program
from tests.chaos.trial import Trial

_KILLS = [Role.WORKER] * 5 + [Role.SERVER] * 4 + [Role.MASTER] * 2
_EPOCHS = 12
_LEAVES = [Role.WORKER, Role.SERVER]


class Alone(Trial):
    """A trial of an asynchronous training with two servers."""

    def __init__(self, cluster: LocalCluster, root: Path, epochs: int) -> None:
        asked = JobRequest(JobKind.TRAIN, "clicks", "", workers=3, scaling=Scaling.ALL)
        super().__init__(cluster, root, lone_program.program(epochs), asked)
        self.summary: dict[str, Any] = {}

    def _collect(self) -> None:
        self.summary = json.loads(self.folder.summary.read_text())

    def has(self, role: Role) -> bool:
        return bool(self.processes(role))

    def trains(self) -> bool:
        return (self.folder.epochs / "0").exists()


@pytest.mark.parametrize("seed", range(2))
def test_training_goes_on_whoever_dies(training_cluster: LocalCluster, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    attacks = [(role, signal.SIGKILL) for role in _KILLS] + [(role, signal.SIGTERM) for role in _LEAVES]
    chance.shuffle(attacks)
    pause = threading.Event()
    with Alone(training_cluster, tmp_path, _EPOCHS) as trial:
        trial.until(trial.trains, "a task is done")
        for role, number in attacks:
            pause.wait(chance.uniform(0.0, 0.4))
            while True:
                trial.until(functools.partial(trial.has, role), f"a {role} runs")
                struck = trial.processes(role)
                if struck and trial.strike(chance.choice(struck), number):
                    break
        trial.succeeds()
    assert trial.summary["steps"] == _EPOCHS * lone_program.ROWS // lone_program.BATCH_SIZE
    assert trial.summary["metrics"]["accuracy"] > 0.85


def test_a_worker_that_hangs_is_given_up(training_cluster: LocalCluster, tmp_path: Path) -> None:
    with Alone(training_cluster, tmp_path, 3) as trial:
        trial.until(trial.trains, "a task is done")
        trial.strike(trial.processes(Role.WORKER)[0], signal.SIGSTOP)
        trial.succeeds()
    assert any(isinstance(event, Message) and "silent" in event.text for event in trial.events)
