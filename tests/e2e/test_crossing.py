"""Models that cross features, on a click log where who clicks depends on who sees what, and on neither alone.

People and items each belong to one of three kinds; whether a row is clicked follows from the pair of kinds. No weighted
sum of person and item can say that: its AUC stays near a half, where the best possible one is 0.85.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import sqlflow_elastic
from sqlflow_elastic.datasource import Mark
from sqlflow_elastic.errors import DataError
from sqlflow_elastic.session import Session

PEOPLE, ITEMS = 60, 40
TASTE = np.array([[2.0, -2.0, -1.0], [-2.0, 2.0, -1.0], [-1.0, -1.0, 2.0]])
COLUMNS = "INDICATOR(person), INDICATOR(CATEGORY_ID(item, 100000)), INDICATOR(CATEGORY_HASH(site, 10000)), hour"
#: What all of them are trained with.
WITH = "train.epoch = 3, train.batch_size = 64"


def clicks(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    person, item, hour = rng.integers(0, PEOPLE, rows), rng.integers(0, ITEMS, rows), rng.uniform(0, 1, rows)
    logits = TASTE[person * 7 % 3, item * 5 % 3] + hour / 2 - 0.5
    clicked = rng.random(rows) < 1 / (1 + np.exp(-logits))
    # Ids are spread over the whole range of the tables.
    return pa.table(
        {
            "person": [f"person {number}" for number in person],
            "item": pa.array(item * 2_499),
            "site": [f"site {number}" for number in rng.integers(0, 30, rows)],
            "hour": hour,
            "clicked": clicked.astype(np.int64),
        }
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with sqlflow_elastic.connect(f"duckdb:///{tmp_path_factory.mktemp('clicks')}/clicks.duckdb") as session:
        for name, rows, seed in (("seen", 12_000, 1), ("unseen", 3_000, 2)):
            table = clicks(rows, seed)
            session.source.write_table((name,), table.schema, table.to_batches(), Mark.RESULT)
        yield session


def auc(session: Session, model: str) -> float:
    session.sql(f"SELECT * FROM unseen TO EVALUATE {model} WITH validation.metrics = AUC LABEL clicked INTO scores")
    return float(session.sql("SELECT auc FROM scores")["auc"].to_pylist()[0])


def train(session: Session, model: str, attributes: str, columns: str, into: str) -> None:
    session.sql(f"SELECT * FROM seen TO TRAIN {model} WITH {attributes}, {WITH} {columns} LABEL clicked INTO {into}")


@pytest.fixture(scope="module")
def trained(session: Session) -> dict[str, float]:
    """The AUC of each model, which is stored under its name."""
    scores = {}
    for model in ("LinearClassifier", "DeepFM", "DCN"):
        train(session, model, "optimizer.learning_rate = 0.01", f"COLUMN {COLUMNS}", model)
        scores[model] = auc(session, model)
    return scores


def test_crossing_models_see_what_a_weighted_sum_cannot(trained: dict[str, float]) -> None:
    assert trained["LinearClassifier"] < 0.6, trained
    assert trained["DeepFM"] > 0.8, trained
    assert trained["DCN"] > 0.8, trained


def test_wide_and_deep_trains_large_tables_by_rows(session: Session) -> None:
    wide = "CROSS([person, CATEGORY_ID(item, 1000000)], 1000000) FOR linear_feature_columns"
    deep = "EMBEDDING(CATEGORY_ID(item, 1000000), 16), EMBEDDING(person, 8), hour FOR dnn_feature_columns"
    attributes = (
        "model.dnn_hidden_units = [32], model.linear_optimizer = Ftrl, model.dnn_optimizer = Adagrad, "
        "linear_optimizer.learning_rate = 0.3, linear_optimizer.initial_accumulator_value = 1e-5"
    )
    columns = f"COLUMN {wide} COLUMN {deep}"
    train(session, "DNNLinearCombinedClassifier", attributes, columns, "wide_and_deep")
    assert auc(session, "wide_and_deep") > 0.7


@pytest.mark.parametrize("model", ["DeepFM", "DCN"])
def test_what_training_never_saw_is_predicted_all_the_same(
    model: str, trained: dict[str, float], session: Session
) -> None:
    """Persons and items that no row had, and NULL; two persons that are unknown are the same to the model."""
    rows = [
        (1, "'person 1'", "0"),
        (2, "'nobody'", "0"),
        (3, "'somebody else'", "0"),
        (4, "NULL", "0"),
        (5, "'person 1'", "NULL"),
        (6, "'person 1'", "77777"),
        (7, "'nobody'", "77777"),
    ]
    select = " UNION ALL ".join(
        f"SELECT {number} AS number, {person} AS person, {item} AS item, 'site 1' AS site, 0.5 AS hour"
        for number, person, item in rows
    )
    session.sql(f"{select} TO PREDICT predicted.clicked USING {model}")
    predicted = session.sql("SELECT number, clicked FROM predicted ORDER BY number").to_pydict()
    assert predicted["number"] == [number for number, *_ in rows]
    assert set(predicted["clicked"]) <= {0, 1}
    assert predicted["clicked"][1] == predicted["clicked"][2]


@pytest.mark.parametrize("model", ["DeepFM", "DCN"])
def test_an_id_outside_of_its_range_is_told(model: str, trained: dict[str, float], session: Session) -> None:
    select = "SELECT 'person 1' AS person, 100000 AS item, 'site 1' AS site, 0.5 AS hour"
    with pytest.raises(DataError, match="100000"):
        session.sql(f"{select} TO PREDICT predicted.clicked USING {model}")
