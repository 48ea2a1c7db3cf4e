"""Training with tables on servers is the training that holds them itself, for any number of workers and servers."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqlflow_elastic.elastic.comm import WorldBroken
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.tables.manifests import complete_steps
from sqlflow_elastic.models.features.embedding import EmbeddingBag
from tests.elastic import models
from tests.elastic.crews import Crew
from tests.elastic.tables.servers import SECONDS, Servers, running
from tests.elastic.worlds import Break, World
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
ROWS = 63


def settings(**changes: Any) -> TrainSettings:
    return TrainSettings(**{"epochs": 3, "batch_size": 10, "way": "single", **changes})


def local(optimizer: str) -> dict[str, Any]:
    """The weights of a training that holds its tables, by what they are."""
    crew = Crew(1, lambda: models.tabled(optimizer=optimizer, served=False), models.classifier_rows(ROWS), settings())
    crew.alone()
    return weights_of(crew.models[0], {})


def weights_of(model: Any, tables: dict[str, Any]) -> dict[str, Any]:
    bags = {layer.table.path: layer.name for layer in model.layers if isinstance(layer, EmbeddingBag)}
    named = {bags.get(v.path, v.path.split("/")[-1] + str(v.shape)): np.asarray(v.value) for v in model.variables}
    return {**named, **tables}


class Training:
    """Workers and servers of one training."""

    def __init__(self, servers: Servers, workers: int, optimizer: str, **changes: Any) -> None:
        self.servers = servers
        self.version = 0
        self.crew = Crew(
            workers,
            lambda: models.tabled(optimizer=optimizer),
            models.classifier_rows(ROWS),
            settings(**changes),
            checkpoints=servers.folder / "checkpoints",
            tables=servers.folder,
        )

    def run(
        self,
        members: Sequence[int],
        broken: Break | None = None,
        root: int = 0,
        stop: Callable[[], bool] = lambda: False,
    ) -> list[bool | WorldBroken]:
        """One world of these members, which all stand at the root's step. They ask before each step whether to stop."""
        self.version += 1
        self.crew.world = World(len(members), broken)
        trainers = [self.crew.trainers[member] for member in members]
        step = trainers[root].step

        def work(rank: int) -> Any:
            def run(world: Any) -> bool:
                session = self.servers.enter(
                    trainers[0].table_specs,
                    version=self.version,
                    rank=rank,
                    size=len(members),
                    step=step,
                    root=rank == root,
                )
                with session:
                    return trainers[rank].run(world, (), stop, session)

            return run

        return self.crew.world.run(*(work(rank) for rank in range(len(members))))

    def weights(self, member: int = 0) -> dict[str, Any]:
        """All of the model's, those on servers too."""
        trainer = self.crew.trainers[member]
        specs = trainer.table_specs
        self.version += 1
        with self.servers.enter(specs, version=self.version, step=trainer.step) as session:
            rows = session.peek([np.arange(spec.rows) for spec in specs])
        tables = {}
        layers = {layer.name: layer for layer in self.crew.models[member].layers}
        by_stream = {layer.stream: layer.name for layer in layers.values() if isinstance(layer, EmbeddingBag)}
        for spec, whole in zip(specs, rows, strict=True):
            for each, base in zip(spec.ranges, spec.bases, strict=False):
                at = 0
                for part in each.parts:
                    tables[by_stream[part.stream]] = whole[base : base + each.rows, at : at + part.width]
                    at += part.width
        return weights_of(self.crew.models[member], tables)


def reached(trainer: Any, step: int) -> bool:
    return bool(trainer.step >= step)


def assert_same(one: dict[str, Any], other: dict[str, Any], tolerance: float = 1e-4) -> None:
    assert set(one) == set(other)
    for name, weights in one.items():
        assert weights.shape == other[name].shape, name
        np.testing.assert_allclose(weights, other[name], rtol=tolerance, atol=tolerance / 100, err_msg=name)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad", "ftrl", "rmsprop"])
def test_it_is_the_training_that_holds_its_tables(tmp_path: Path, optimizer: str) -> None:
    with running(tmp_path, "ps-0", "ps-1") as servers:
        training = Training(servers, 2, optimizer)
        assert training.run(range(2)) == [True, True]
        assert_same(training.weights(), local(optimizer))


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("servers", [1, 2, 3])
def test_however_many_workers_and_servers_there_are(tmp_path: Path, workers: int, servers: int) -> None:
    with running(tmp_path, *(f"ps-{i}" for i in range(servers))) as started:
        training = Training(started, workers, "adam")
        assert training.run(range(workers)) == [True] * workers
        assert_same(training.weights(workers - 1), local("adam"))


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("call", [1, 4, 12, 20, 27])
def test_a_step_that_breaks_is_done_again(tmp_path: Path, call: int, given: bool) -> None:
    with running(tmp_path, "ps-0", "ps-1") as servers:
        training = Training(servers, 3, "adam")
        ended = training.run(range(3), Break(1, call, given))
        assert all(isinstance(each, WorldBroken) for each in ended) or call >= 26
        survivors = [0, 2]
        trainers = training.crew.trainers
        training.crew.align(survivors)
        assert training.run(survivors) == [True, True]
        assert trainers[0].step == 21
        assert_same(training.weights(), local("adam"))


def test_in_wide_floats_all_worlds_agree_to_the_ninth_digit() -> None:
    command = [sys.executable, "-m", "tests.elastic.wide_served"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=True)
    assert float(done.stdout.splitlines()[-1]) < 1e-9


def test_a_lost_server_leads_back_to_the_last_checkpoint(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0", "ps-1") as servers:
        training = Training(servers, 2, "ftrl", checkpoint_steps=5)
        root, other = training.crew.trainers

        def stop() -> bool:
            """Some steps later the servers have saved, so that the step after those is followed by a checkpoint."""
            if root.step >= 8:
                wait_until(lambda: 5 in complete_steps(tmp_path), SECONDS)
            return False

        ended = training.run(range(2), Break(0, 14, False), stop=stop)
        assert all(isinstance(each, WorldBroken) for each in ended)
        wait_until(lambda: (tmp_path / "checkpoints" / "step-000000000005.npz").exists(), SECONDS)
        servers.stop("ps-1")
        servers.start("ps-2")
        root.begin()
        assert 0 < root.step < 13
        other.take_state(root.state())
        assert training.run(range(2)) == [True, True]
        assert_same(training.weights(), local("ftrl"))


def test_servers_come_and_go_between_two_steps(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers:
        training = Training(servers, 1, "adagrad")
        trainer = training.crew.trainers[0]
        for change in (("ps-1", "ps-2"), (), ("ps-3",)):
            stop_at = trainer.step + 5
            with servers.enter(trainer.table_specs, version=training.version + 1, step=trainer.step) as session:
                assert not trainer.run(None, (), functools.partial(reached, trainer, stop_at), session)
                session.snapshot(trainer.step)
            training.version += 1
            if not change:
                servers.stop("ps-0", "ps-1")
            servers.start(*change)
        assert training.run([0]) == [True]
        assert_same(training.weights(), local("adagrad"))
