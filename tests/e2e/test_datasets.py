"""Whole statements on real tables: what default settings reach on rows not trained on, with and without NULLs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from sqlflow_elastic.session import Session
from tests.e2e.conftest import load_script


@dataclass(frozen=True)
class Case:
    """A table, a statement about it, and the bounds of its metrics with all values and after a tenth became NULL."""

    script: str
    table: str
    label: str
    model: str
    attributes: str
    least: tuple[tuple[str, float], ...] = ()
    most: tuple[tuple[str, float], ...] = ()
    most_with_nulls: tuple[tuple[str, float], ...] = ()
    loss_with_nulls: float = 0.05


CASES = [
    Case(
        "titanic.sql",
        "titanic.train",
        "survived",
        "DNNClassifier",
        "model.hidden_units = [64, 32]",
        least=(("accuracy", 0.78), ("auc", 0.82)),
    ),
    Case(
        "boston.sql",
        "boston.train",
        "medv",
        "DNNRegressor",
        "model.hidden_units = [64, 32]",
        most=(("rmse", 4.5),),
        most_with_nulls=(("rmse", 6.0),),
    ),
    Case(
        "creditcardfraud.sql",
        "creditcard.creditcard",
        "class",
        "DNNClassifier",
        "model.hidden_units = [64, 32]",
        least=(("accuracy", 0.90),),
    ),
    Case(
        "give_me_some_credit.sql",
        "scorecard.train",
        "serious_dlqin2yrs",
        "DNNClassifier",
        'model.hidden_units = [64, 32], train.class_weight = "balanced"',
        least=(("auc", 0.75),),
    ),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.script.removesuffix(".sql"))
def case(request: pytest.FixtureRequest, mysql_url: str, datasets: Path, session: Session) -> Case:
    """A case whose table is loaded and split into <table>_most and <table>_rest by a hash of a row's features.

    The label stays out of the hash, so that it has no say in where its row goes.
    """
    case: Case = request.param
    load_script(mysql_url, datasets / case.script)
    session.sql("CREATE DATABASE IF NOT EXISTS models")
    row_hash = f"CRC32(CONCAT_WS(',', {', '.join(f'`{name}`' for name in features(session, case))}))"
    for table, kept in (("most", "<>"), ("rest", "=")):
        session.sql(f"DROP TABLE IF EXISTS {case.table}_{table}")
        session.sql(f"CREATE TABLE {case.table}_{table} AS SELECT * FROM {case.table} WHERE {row_hash} % 5 {kept} 0")
    return case


def features(session: Session, case: Case) -> list[str]:
    return [name for name in session.sql(f"SELECT * FROM {case.table} LIMIT 1").column_names if name != case.label]


def train_and_evaluate(session: Session, case: Case, name: str) -> dict[str, float]:
    """Train on four fifths, evaluate on the held-out fifth."""
    metrics = ", ".join(metric for metric, _ in case.least + case.most)
    row: dict[str, float]
    (row,) = session.sql(
        f"SELECT * FROM {case.table}_most TO TRAIN {case.model} WITH {case.attributes} "
        f"LABEL {case.label} INTO models.{name};"
        f'SELECT * FROM {case.table}_rest TO EVALUATE models.{name} WITH validation.metrics = "{metrics}" '
        f"LABEL {case.label} INTO models.{name}_scores;"
        f"SELECT * FROM models.{name}_scores"
    ).to_pylist()
    return row


def set_a_tenth_null(session: Session, case: Case) -> None:
    """Set each feature NULL in a tenth of the rows, another tenth for each, in both parts."""
    for table in (f"{case.table}_most", f"{case.table}_rest"):
        session.sql(f"ALTER TABLE {table} ADD COLUMN line INT AUTO_INCREMENT PRIMARY KEY")
        for number, column in enumerate(features(session, case)):
            session.sql(f"UPDATE {table} SET `{column}` = NULL WHERE CRC32(CONCAT(line, '#', {number})) % 10 = 0")
        session.sql(f"ALTER TABLE {table} DROP COLUMN line")


def test_default_settings_reach_the_bound_and_nulls_cost_little(session: Session, case: Case) -> None:
    name = case.script.removesuffix(".sql")
    whole = train_and_evaluate(session, case, name)
    for metric, bound in case.least:
        assert whole[metric] >= bound, whole
    for metric, bound in case.most:
        assert whole[metric] <= bound, whole

    set_a_tenth_null(session, case)
    holed = train_and_evaluate(session, case, f"{name}_nulls")
    for metric, _ in case.least:
        assert holed[metric] >= whole[metric] - case.loss_with_nulls, (whole, holed)
    for metric, bound in case.most_with_nulls:
        assert holed[metric] <= bound, holed


def test_a_program_written_for_sqlflow_runs_unchanged(mysql_url: str, datasets: Path, session: Session) -> None:
    load_script(mysql_url, datasets / "iris.sql")
    session.sql(
        "SELECT * FROM iris.train TO TRAIN DNNClassifier WITH model.n_classes = 3, model.hidden_units = [10, 20], "
        "train.epoch = 10, train.batch_size = 4 LABEL class INTO sqlflow_models.my_dnn_model"
    )
    session.sql("SELECT * FROM iris.test TO PREDICT iris.predict.class USING sqlflow_models.my_dnn_model")
    wrong = session.sql(
        "SELECT COUNT(*) AS n FROM iris.test t JOIN iris.predict p "
        "USING (sepal_length, sepal_width, petal_length, petal_width) WHERE t.class <> p.class"
    )
    assert session.sql("SELECT COUNT(*) AS n FROM iris.predict")["n"].to_pylist() == [10]
    assert wrong["n"].to_pylist()[0] <= 1
