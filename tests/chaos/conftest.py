from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlflow_elastic.cluster import LocalCluster
from tests.chaos.traces import Traces

#: What masters and the workers of `program` import.
PRELOAD = (
    "sqlflow_elastic.jobs.master.process",
    "sqlflow_elastic.elastic.running",
    "sqlflow_elastic.elastic.checkpoints",
)


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    """Everything that the test starts is gone at its end."""
    traces = Traces(tmp_path / "temporary")
    for name, value in traces.environment.items():
        monkeypatch.setenv(name, value)
    yield traces
    traces.assert_nothing_left()


@pytest.fixture
def clusters(traces: Traces) -> Iterator[Callable[[int], LocalCluster]]:
    """Makes a cluster of so many slots, for the test alone."""
    made: list[LocalCluster] = []

    def make(slots: int) -> LocalCluster:
        made.append(LocalCluster(PRELOAD, slots))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def cluster(clusters: Callable[[int], LocalCluster]) -> LocalCluster:
    """One with room for all that a job asks for."""
    return clusters(8)


@pytest.fixture
def training_cluster(traces: Traces) -> Iterator[LocalCluster]:
    """Its fork server has TensorFlow imported."""
    with LocalCluster(slots=8) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def weights_of_one(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What `served_program` comes to in a process that holds its tables, and trains alone."""
    from tests.chaos.served_program import weights_alone  # imports TensorFlow

    return weights_alone(tmp_path_factory.mktemp("alone"))
