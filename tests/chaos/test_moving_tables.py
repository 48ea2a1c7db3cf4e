"""Tables move to servers and back while a job trains and its processes are killed; the model does not notice."""

from __future__ import annotations

import functools
import random
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np

from sqlflow_elastic.cluster import LocalCluster, Role
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from tests.chaos import moving_program, served_program
from tests.chaos.served_program import weights
from tests.chaos.trial import Trial

_KILLED = [Role.WORKER, Role.SERVER, Role.MASTER, Role.WORKER]
_MOVED = "tables are better elsewhere now"


class Moving(Trial):
    """A trial of a training whose weights are kept."""

    def __init__(self, cluster: LocalCluster, root: Path) -> None:
        asked = JobRequest(
            JobKind.TRAIN, "clicks", "", workers=2, batch_size=served_program.BATCH_SIZE, scaling=Scaling.ALL
        )
        super().__init__(cluster, root, moving_program.TEXT, asked)
        self.weights: list[Any] = []

    def _collect(self) -> None:
        self.weights = weights(self.folder.summary.parent / served_program.WEIGHTS)

    @property
    def moves(self) -> int:
        return sum(_MOVED in world.why for world in self.worlds)

    def has(self, role: Role) -> bool:
        return bool(self.processes(role))

    def has_moved(self, times: int) -> bool:
        return self.moves >= times

    def move(self, *, served: bool) -> None:
        """Wish it, and see it done."""
        moves = self.moves + 1
        moving_program.wish(self.folder, served=served)
        self.until(lambda: self.has_moved(moves), f"tables have moved, served: {served}")


def check(trial: Moving, expected: list[Any]) -> None:
    for trained, right in zip(trial.weights, expected, strict=True):
        np.testing.assert_allclose(trained, right, rtol=1e-5, atol=1e-7)


def test_each_sample_counts_once_wherever_tables_are(
    training_cluster: LocalCluster, tmp_path: Path, weights_of_one: list[Any]
) -> None:
    with Moving(training_cluster, tmp_path) as trial:
        trial.until(trial.world_of(2), "both workers train")
        trial.move(served=True)
        assert len(trial.processes(Role.SERVER)) == moving_program.SERVERS
        trial.move(served=False)
        trial.until(lambda: not trial.processes(Role.SERVER), "servers have ended")
        trial.move(served=True)
        trial.succeeds()
    check(trial, weights_of_one)


def test_whoever_dies_while_they_move(
    training_cluster: LocalCluster, tmp_path: Path, weights_of_one: list[Any]
) -> None:
    chance, pause, served = random.Random(3), threading.Event(), False
    with Moving(training_cluster, tmp_path) as trial:
        trial.until(lambda: bool(trial.members), "a worker trains")
        for role in _KILLED:
            served = not served
            moves = trial.moves + 1
            moving_program.wish(trial.folder, served=served)
            pause.wait(chance.uniform(0.2, 1.0))
            if role is Role.SERVER and not trial.has(role):
                role = Role.WORKER
            trial.until(functools.partial(trial.has, role), f"a {role} runs")
            trial.strike(chance.choice(trial.processes(role)), signal.SIGKILL)
            trial.until(functools.partial(trial.has_moved, moves), f"tables have moved, served: {served}")
        trial.succeeds()
    check(trial, weights_of_one)
