"""A server that takes more memory than it may is replaced by a larger one, as often as it takes."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sqlflow_elastic.cluster import LocalCluster
from sqlflow_elastic.events import Message
from tests.chaos import served_program
from tests.chaos.served_program import weights
from tests.chaos.traces import Traces
from tests.chaos.trial import Trial, request

#: MiB: less than an interpreter takes.
LITTLE = 16


class Small(Trial):
    """A trial of a training with one server that may take little."""

    def __init__(self, cluster: LocalCluster, root: Path) -> None:
        asked = replace(request(workers=1), batch_size=served_program.BATCH_SIZE, ps_memory=LITTLE)
        super().__init__(cluster, root, served_program.program(1), asked)

        self.weights: list[Any] = []

    def _collect(self) -> None:
        self.weights = weights(self.folder.summary.parent / served_program.WEIGHTS)


def test_in_the_end_it_is_large_enough(tmp_path: Path, traces: Traces, weights_of_one: list[Any]) -> None:
    with LocalCluster(slots=4) as cluster, Small(cluster, tmp_path) as trial:
        trial.succeeds()
    told = [event.text for event in trial.events if isinstance(event, Message) and "ran out of memory" in event.text]
    sizes = [[int(size) for size in re.findall(r"(\d+) MiB", text)] for text in told]
    assert sizes[0] == [LITTLE, 2 * LITTLE]
    for trained, right in zip(trial.weights, weights_of_one, strict=True):
        np.testing.assert_allclose(trained, right, rtol=1e-5, atol=1e-7)
    assert all(before[1] == after[0] and after[1] == 2 * after[0] for before, after in pairwise(sizes))
