"""Predicting and evaluating while workers die: every row once, in order; the metrics of a single process."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlflow_elastic.cluster import LocalCluster, Phase, Role
from sqlflow_elastic.datasource import Mark, open_source
from sqlflow_elastic.events import Failed, Progress
from sqlflow_elastic.session import Session

#: Eleven tasks, each of which takes the network some time.
ROWS = 700_000

TRAIN = """SELECT x, y, z, sum FROM small TO TRAIN DNNClassifier
WITH model.hidden_units = [512, 512], train.epoch = 2, train.batch_size = 256 LABEL sum INTO knows"""
PREDICT = "SELECT id, x, y, z FROM large TO PREDICT {into}.guess WITH predict.num_workers = 3 USING knows"
EVALUATE = """SELECT x, y, z, sum FROM large TO EVALUATE knows
WITH validation.metrics = "accuracy, auc, log_loss", predict.num_workers = {workers} LABEL sum INTO {into}"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(slots=4) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def session(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    source = open_source("duckdb://")
    chance = np.random.default_rng(1)
    for table, rows in (("small", 2_000), ("large", ROWS)):
        columns: dict[str, Any] = {name: chance.normal(size=rows).astype(np.float32) for name in "xyz"}
        columns["sum"] = (columns["x"] + columns["y"] + chance.normal(size=rows) > 0).astype(np.int64)
        columns["id"] = np.arange(rows)
        batch = pa.record_batch(columns)
        source.write_table((table,), batch.schema, [batch], Mark.RESULT)
    with Session(source, cluster, tmp_path_factory.mktemp("jobs")) as session:
        session.sql(TRAIN)
        yield session


def killing(session: Session, cluster: LocalCluster, phase: str, sql: str) -> int:
    """Run a statement and kill a worker whenever a task is done; how many died."""
    chance, killed = random.Random(2), set()
    for event in session.execute(sql):
        assert not isinstance(event, Failed), event
        if isinstance(event, Progress) and event.phase == phase:
            running = [one for one in cluster.list() if one.role is Role.WORKER and one.phase is Phase.RUNNING]
            if running and event.done < (event.total or 0):
                one = chance.choice(running)
                cluster.kill(one.job, one.name)
                killed.add(one.name)
    return len(killed)


def test_each_row_is_predicted_once_and_in_order_whoever_dies(session: Session, cluster: LocalCluster) -> None:
    session.sql(PREDICT.format(into="undisturbed"))
    killed = killing(session, cluster, "predicting", PREDICT.format(into="disturbed"))
    assert killed >= 3
    expected = session.sql("SELECT * FROM undisturbed")
    found = session.sql("SELECT * FROM disturbed")
    assert found.num_rows == ROWS
    assert found["id"].to_pylist() == list(range(ROWS))
    assert found.equals(expected)


def test_metrics_are_those_of_a_single_process_whoever_dies(session: Session, cluster: LocalCluster) -> None:
    session.sql(EVALUATE.format(workers=1, into="alone"))
    assert killing(session, cluster, "evaluating", EVALUATE.format(workers=3, into="together")) >= 3
    (expected,) = session.sql("SELECT * FROM alone").to_pylist()
    assert set(expected) == {"accuracy", "auc", "log_loss"}
    assert session.sql("SELECT * FROM together").to_pylist() == [expected]
