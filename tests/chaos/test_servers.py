"""Workers, servers and masters of a training with tables on servers are killed at random; the model does not notice."""

from __future__ import annotations

import functools
import random
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqlflow_elastic.cluster import LocalCluster, Role
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.events import Message
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from tests.chaos import served_program
from tests.chaos.served_program import weights
from tests.chaos.trial import Trial

_KILLS = [Role.WORKER] * 6 + [Role.SERVER] * 4 + [Role.MASTER]


class Served(Trial):
    """A trial of a training with two servers, whose weights are kept."""

    def __init__(self, cluster: LocalCluster, root: Path) -> None:
        asked = JobRequest(
            JobKind.TRAIN, "clicks", "", workers=3, batch_size=served_program.BATCH_SIZE, scaling=Scaling.ALL
        )
        super().__init__(cluster, root, served_program.program(2), asked)
        self.weights: list[Any] = []

    def _collect(self) -> None:
        self.weights = weights(self.folder.summary.parent / served_program.WEIGHTS)

    def has(self, role: Role) -> bool:
        return bool(self.processes(role))

    def said(self, text: str) -> bool:
        return any(isinstance(event, Message) and text in event.text for event in self.events)


@pytest.mark.parametrize("seed", range(2))
def test_each_sample_counts_once_whoever_dies(
    training_cluster: LocalCluster, tmp_path: Path, weights_of_one: list[Any], seed: int
) -> None:
    chance = random.Random(seed)
    roles = chance.sample(_KILLS, len(_KILLS))
    pause = threading.Event()
    with Served(training_cluster, tmp_path) as trial:
        trial.until(lambda: bool(trial.members), "a worker trains")
        for role in roles:
            pause.wait(chance.uniform(0.0, 0.4))
            while True:
                trial.until(functools.partial(trial.has, role), f"a {role} runs")
                struck = trial.processes(role)
                if struck and trial.strike(chance.choice(struck), signal.SIGKILL):
                    break
        trial.succeeds()
    assert trial.said("another server takes its place")
    for trained, right in zip(trial.weights, weights_of_one, strict=True):
        # A sample too many or too few moves weights by 1e-4; Keras has some constants in float32, servers have not.
        np.testing.assert_allclose(trained, right, rtol=1e-5, atol=1e-7)
