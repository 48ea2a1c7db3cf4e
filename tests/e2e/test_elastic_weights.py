"""Who trains a model cannot be seen in its weights: one worker, several, or workers that come, die and go.

What may differ is the order of float additions, and so the rounding. Weights are compared by variable: the norm of the
difference by the norm. The large network has no kinks: with ReLUs and Adam it ends up to 4e-3 apart in float32, most of
it in the weights of one unit, where tanh ends 2e-7 apart; in float64 it ends 1e-16 apart, so it is rounding that ReLUs
make larger (a sample that rounding sends to the other side of a kink would do that).
"""

from __future__ import annotations

import re
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sqlflow_elastic.cluster import LocalCluster, Role
from sqlflow_elastic.datasource import DataSource, Mark, open_source
from tests.e2e.conftest import load_script
from tests.e2e.training_trial import Training, TrainingTrial, Weights, difference

BOUNDS = {False: 1e-4, True: 1e-9}
ROWS = 200_000

IRIS = """SELECT * FROM {database}.iris_train TO TRAIN DNNClassifier
WITH model.n_classes = 3, model.hidden_units = [16, 8], train.epoch = 30, train.batch_size = 16, train.seed = 3
LABEL class INTO models.iris"""
TITANIC = """SELECT * FROM {database}.titanic_train TO TRAIN DNNClassifier
WITH model.hidden_units = [32, 16], train.epoch = 10, train.batch_size = 32, train.seed = 4
LABEL survived INTO models.titanic"""
MLP = """SELECT * FROM rows_of_ten TO TRAIN DNNRegressor
WITH model.hidden_units = [64, 32], model.activation = "tanh", train.epoch = 2, train.batch_size = 1024, train.seed = 5
LABEL y INTO mlp"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(slots=6) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def mlp() -> Iterator[DataSource]:
    random = np.random.default_rng(6)
    x = random.normal(size=(ROWS, 10)).astype(np.float32)
    columns = {f"x{index}": x[:, index] for index in range(10)}
    columns["y"] = (np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * random.normal(size=ROWS)).astype(np.float32)
    with open_source("duckdb://") as source:
        batch = pa.record_batch(columns)
        source.write_table(("rows_of_ten",), batch.schema, [batch], Mark.RESULT)
        yield source


@pytest.fixture(scope="module")
def tables(
    mysql_url: str, datasets: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[DataSource, str]]:
    """The tables iris_train and titanic_train in a database of its own, and its name; others drop theirs meanwhile."""
    database = f"weights_{uuid.uuid4().hex}"
    for name in ("iris", "titanic"):
        script = tmp_path_factory.mktemp("tables") / f"{name}.sql"
        text = (datasets / f"{name}.sql").read_text(encoding="utf-8")
        text = text.replace(f"DATABASE IF NOT EXISTS {name}", f"DATABASE IF NOT EXISTS {database}")
        script.write_text(re.sub(rf"\b{name}\.(train|test)\b", rf"{database}.{name}_\1", text), encoding="utf-8")
        load_script(mysql_url, script)
    with open_source(mysql_url) as source:
        yield source, database
        source.execute(f"DROP DATABASE {database}")


@pytest.fixture(scope="module", params=["iris", "titanic", "mlp"])
def statement(request: pytest.FixtureRequest) -> tuple[DataSource, str]:
    if request.param == "mlp":
        return request.getfixturevalue("mlp"), MLP
    source, database = request.getfixturevalue("tables")
    return source, {"iris": IRIS, "titanic": TITANIC}[request.param].format(database=database)


@pytest.fixture(scope="module", params=[False, True], ids=["float32", "float64"])
def training(request: pytest.FixtureRequest, statement: tuple[DataSource, str]) -> Training:
    return Training(*statement, wide=request.param)


@pytest.fixture(scope="module")
def alone(training: Training, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Weights:
    """What a single worker comes to."""
    with TrainingTrial(cluster, tmp_path_factory.mktemp("alone"), training, 1) as trial:
        trial.succeeds()
    return trial.weights


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_several_workers_come_to_the_weights_of_one(
    training: Training, alone: Weights, cluster: LocalCluster, tmp_path: Path, workers: int
) -> None:
    with TrainingTrial(cluster, tmp_path, training, workers) as trial:
        trial.until_it_trains(workers)
        trial.succeeds()
    assert difference(trial.weights, alone) < BOUNDS[training.wide]


def test_workers_that_die_go_and_come_come_to_the_weights_of_one(
    training: Training, alone: Weights, cluster: LocalCluster, tmp_path: Path
) -> None:
    with TrainingTrial(cluster, tmp_path, training, 3) as trial:
        trial.until_it_trains(3)
        trial.strike_worker(trial.members[0])
        trial.until(lambda: len(trial.worlds[-1].members) == 2, "two go on")
        trial.strike_worker(trial.members[0], signal.SIGTERM)
        trial.until(lambda: trial.world_of(2)() or trial.world_of(3)(), "others come")
        trial.strike(trial.master)
        trial.until_it_trains(3)
        for worker in trial.processes(Role.WORKER):
            trial.strike(worker)
        trial.until(lambda: any(trial.world_of(size)() for size in (1, 2, 3)), "others train")
        trial.until_it_gets_on()
        trial.succeeds()
    assert difference(trial.weights, alone) < BOUNDS[training.wide]
