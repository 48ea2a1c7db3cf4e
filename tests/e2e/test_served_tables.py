"""Whole statements over tables on servers: small ones end in the model, large ones in the storage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlflow_elastic.cluster import LocalCluster
from sqlflow_elastic.datasource import Mark, open_source
from sqlflow_elastic.errors import ModelStoreError, SQLFlowError
from sqlflow_elastic.events import Event, Message
from sqlflow_elastic.models import large_tables
from sqlflow_elastic.session import Session

WITH = """train.epoch = 20, train.batch_size = 64, train.num_workers = 2, train.scaling = "all",
model.hidden_units = [16], model.optimizer = Adagrad, optimizer.learning_rate = 0.1"""
#: A table of 16 numbers a row that is too large for any network, one for a stored one, and one that is not.
HUGE, LARGE, SMALL = 40_000_000, 5_000_000, 20_000


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("storage") / "models"


@pytest.fixture(scope="module")
def session(storage: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    source = open_source("duckdb://")
    rng = np.random.default_rng(0)
    liking = rng.normal(size=200)
    for name, rows in (("seen", 4_000), ("unseen", 1_000)):
        person = rng.integers(0, 200, rows)
        hour = rng.uniform(size=rows)
        clicked = rng.random(rows) < 1 / (1 + np.exp(-(2 * liking[person] + hour - 0.5)))
        columns: dict[str, Any] = {"person": person * 97, "hour": hour, "clicked": clicked.astype(np.int64)}
        batch = pa.record_batch(columns)
        source.write_table((name,), batch.schema, [batch], Mark.RESULT)
    with (
        LocalCluster(slots=4) as cluster,
        Session(source, cluster, tmp_path_factory.mktemp("jobs"), storage=storage) as session,
    ):
        yield session


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table that is not in its network is too large for the database."""
    monkeypatch.setattr(large_tables, "WHOLE_BYTES", 0)


def train(session: Session, rows: int, into: str, extra: str = "") -> list[Event]:
    columns = f"COLUMN hour, EMBEDDING(CATEGORY_ID(person, {rows}), 16)"
    statement = f"SELECT * FROM seen TO TRAIN DNNClassifier WITH {WITH}{extra} {columns} LABEL clicked INTO {into}"
    return list(session.execute(statement))


def go_on(session: Session, model: str, into: str, strategy: str) -> None:
    """Train further by steps that change nothing, in a training of another seed."""
    changes = f'train.strategy = "{strategy}", train.seed = 5, train.epoch = 1, train.num_workers = 2'
    still = "model.optimizer = SGD, optimizer.learning_rate = 0.000000001"
    list(
        session.execute(
            f"SELECT * FROM seen TO TRAIN DNNClassifier WITH {changes}, {still} LABEL clicked USING {model} INTO {into}"
        )
    )


def guesses(session: Session, model: str) -> list[Any]:
    """For persons who were trained, and for others."""
    select = "SELECT person + shift AS person, hour FROM unseen, (VALUES (0), (1)) AS shifts(shift)"
    session.sql(f"{select} TO PREDICT guesses.clicked USING {model}")
    guessed: list[Any] = session.sql("SELECT clicked FROM guesses ORDER BY person, hour")["clicked"].to_pylist()
    return guessed


def auc(session: Session, model: str) -> float:
    session.sql(f"SELECT * FROM unseen TO EVALUATE {model} WITH validation.metrics = AUC LABEL clicked INTO scores")
    return float(session.sql("SELECT auc FROM scores")["auc"].to_pylist()[0])


def properties(session: Session, model: str) -> dict[str, str]:
    found = session.sql(f"DESCRIBE MODEL {model}")
    return dict(zip(found["Property"].to_pylist(), found["Value"].to_pylist(), strict=True))


def test_a_small_table_ends_in_the_model(session: Session, storage: Path) -> None:
    train(session, SMALL, "small", ', train.strategy = "hybrid"')
    assert not storage.exists()
    said = properties(session, "small")
    assert said["strategy"].startswith("hybrid, tables on 1 server")
    assert "tables" not in said
    assert auc(session, "small") > 0.8
    train(session, SMALL, "held", ', train.strategy = "allreduce"')
    # Where tables are does not change the model.
    assert auc(session, "held") == pytest.approx(auc(session, "small"), abs=1e-3)


@pytest.mark.parametrize("rows", [SMALL, LARGE])
def test_workers_that_take_their_own_steps_come_to_as_much(session: Session, rows: int) -> None:
    told = train(session, rows, "alone", ", train.sync = False, train.num_ps = 2")
    assert any(isinstance(event, Message) and "all weights are on 2 servers" in event.text for event in told)
    assert properties(session, "alone")["strategy"].startswith("ps, all weights on 2 servers")
    train(session, rows, "together", ', train.strategy = "hybrid"')
    assert auc(session, "alone") == pytest.approx(auc(session, "together"), abs=0.005)


def test_what_was_trained_of_a_large_table_ends_in_the_model_if_it_is_little(session: Session, storage: Path) -> None:
    train(session, LARGE, "sparse", ', train.strategy = "hybrid"')
    assert not storage.exists()
    assert "tables" not in properties(session, "sparse")
    assert auc(session, "sparse") > 0.8


@pytest.mark.usefixtures("all_large")
def test_a_large_table_ends_in_the_storage_and_goes_with_its_model(session: Session, storage: Path) -> None:
    # A worker of 1,200 MiB has no room for it: nobody has to ask for servers.
    told = train(session, HUGE, "big", ", train.worker_memory = 1200")
    assert any(isinstance(event, Message) and "tables are on 1 server" in event.text for event in told)
    said = properties(session, "big")
    (folder,) = storage.iterdir()
    assert said["tables"].endswith(f"bytes in {folder}")
    # Only rows that were trained are there.
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1 << 20
    assert auc(session, "big") > 0.8
    session.sql("SELECT person + 1 AS person, hour FROM unseen LIMIT 20 TO PREDICT guesses.clicked USING big")
    assert session.sql("SELECT count(*) AS n FROM guesses WHERE clicked IN (0, 1)")["n"].to_pylist() == [20]
    with pytest.raises(SQLFlowError, match="too large"):
        session.export("big", storage.parent / "exported")
    train(session, HUGE, "big", ", train.worker_memory = 1200")
    (after,) = storage.iterdir()
    assert after != folder
    session.sql("DROP MODEL big")
    assert list(storage.iterdir()) == []


@pytest.mark.usefixtures("all_large")
def test_missing_tables_are_told(session: Session, storage: Path) -> None:
    train(session, LARGE, "lost", ", train.worker_memory = 1200")
    (folder,) = storage.iterdir()
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(ModelStoreError, match="tables are missing"):
        auc(session, "lost")
    told = list(session.execute("DROP MODEL lost"))
    assert [event.level for event in told if isinstance(event, Message) and "are left" in event.text] == ["warning"]


@pytest.mark.usefixtures("all_large")
@pytest.mark.parametrize(
    ("rows", "first", "then"),
    [
        (LARGE, "hybrid", "hybrid"),
        (LARGE, "hybrid", "ps"),
        (LARGE, "hybrid", "allreduce"),
        (SMALL, "allreduce", "hybrid"),
    ],
    ids=["files to servers", "files to asynchronous steps", "files to workers", "network to servers"],
)
def test_training_goes_on_from_tables_wherever_they_were(session: Session, rows: int, first: str, then: str) -> None:
    train(session, rows, "begun", f', train.strategy = "{first}"')
    before = guesses(session, "begun")
    assert 0.1 < np.mean(before) < 0.9
    go_on(session, "begun", "more", then)
    assert properties(session, "more")["strategy"].startswith(then)
    assert np.mean(np.equal(guesses(session, "more"), before)) > 0.999
    for model in ("begun", "more"):
        session.sql(f"DROP MODEL {model}")
