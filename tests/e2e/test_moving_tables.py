"""A job whose number of workers changes puts its tables where they are better then, and trains the same model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlflow_elastic.cluster import LocalCluster, Role
from sqlflow_elastic.datasource import DataSource, Mark, open_source
from sqlflow_elastic.elastic.folder import write_text
from sqlflow_elastic.events import Message
from tests.e2e.training_trial import Training, TrainingTrial, difference

#: Tables with workers cost two of them much, and one of them nothing; a world stands at once. Other workers than the
#: first one come when the file ``come`` is there.
BEFORE = """
import os
import time

from sqlflow_elastic.elastic import planning, strategy
from sqlflow_elastic.elastic.folder import JOB_VARIABLE
from sqlflow_elastic.elastic.member import WORKER_VARIABLE

strategy._STANDS_SECONDS, strategy._REPAYS_SECONDS = 0.1, 0.1
costs = strategy.Costs(1.0, 0.0, 0.0, 0.0, 0.001, 0.0, 0.0)
planning.MachineFacts = lambda *facts: strategy.MachineFacts(*facts, costs=costs)
while os.environ[WORKER_VARIABLE] != "worker-0" and not os.path.exists(os.path.join(os.environ[JOB_VARIABLE], "come")):
    time.sleep(0.02)
"""
TRAIN = """SELECT * FROM clicks TO TRAIN DNNClassifier
WITH model.hidden_units = [8], train.epoch = 6, train.batch_size = 32, train.seed = 3, train.checkpoint_secs = 0.1,
    model.optimizer = Adam, train.num_workers = 2
COLUMN hour, EMBEDDING(CATEGORY_ID(person, 500), 4), EMBEDDING(CATEGORY_ID(site, 300), 4)
LABEL clicked INTO model"""


@pytest.fixture
def source() -> Iterator[DataSource]:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {name: rng.integers(0, rows, 900) for name, rows in (("person", 200), ("site", 100))}
    columns |= {"hour": rng.uniform(size=900), "clicked": rng.integers(0, 2, 900)}
    with open_source("duckdb://") as source:
        batch = pa.record_batch(columns)
        source.write_table(("clicks",), batch.schema, [batch], Mark.RESULT)
        yield source


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(slots=4) as cluster:
        yield cluster


def test_tables_follow_the_number_of_workers(source: DataSource, cluster: LocalCluster, tmp_path: Path) -> None:
    training = Training(source, TRAIN, wide=True)
    with TrainingTrial(cluster, tmp_path, training, 1) as alone:
        alone.succeeds()
    with TrainingTrial(cluster, tmp_path, training, 2, BEFORE) as trial:

        def said(text: str) -> bool:
            return any(isinstance(event, Message) and event.text.startswith(text) for event in trial.events)

        def moves() -> int:
            return sum("tables are better elsewhere now" in world.why for world in trial.worlds)

        trial.until(lambda: said("tables are with the workers now: one worker has room"), "one worker takes the tables")
        trial.until(lambda: moves() == 1, "it goes on with them")
        trial.until(lambda: not trial.processes(Role.SERVER), "the server has ended")
        write_text(trial.folder.path / "come", "")
        trial.until(trial.world_of(2), "the other one has come")
        trial.until(lambda: moves() == 2, "tables go to a server again")
        trial.succeeds()
    assert difference(trial.weights, alone.weights) < 1e-9
    assert trial.summary["strategy"]["strategy"] == "hybrid"
