"""The tables and trained models that compiler tests read, and the shortest way to a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlflow_elastic.compiler import EvaluatePlan, PredictPlan, TrainPlan, compile_statement
from sqlflow_elastic.datasource import DataSource, Mark
from sqlflow_elastic.language import parse
from sqlflow_elastic.models.store import ModelMetadata, save_model

TABLES = """
CREATE SCHEMA iris;
CREATE TABLE iris.train AS
    SELECT (1 + i % 7 / 10)::FLOAT AS sepal_length, (2 + i % 5 / 10)::FLOAT AS sepal_width,
        (i % 3 + i % 4 / 10)::FLOAT AS petal_length, (i % 3)::FLOAT AS petal_width, (i % 3)::INT AS class
    FROM range(110) AS rows(i);
CREATE TABLE passengers AS
    SELECT (20 + i % 50)::DOUBLE AS age, (i % 3 + 1)::INT AS pclass,
        CASE i % 2 WHEN 0 THEN 'female' ELSE 'male' END AS sex,
        'ticket ' || i AS ticket, DATE '2020-01-01' + (i % 365)::INT AS boarded, i % 3 = 0 AS alone,
        (i / 7)::DECIMAL(8, 2) AS fare, (i % 2)::INT AS survived
    FROM range(300) AS rows(i);
CREATE TABLE lists AS
    SELECT i || ',' || i + 1 || ',0.5' AS vector, CASE i % 2 WHEN 0 THEN '1,2,3' ELSE '4' END AS ids,
        i % 9 || ':0.5 7:1' AS pairs, '0' || (100 + i % 90) AS code, i || '.5' AS written, i % 2 = 0 AS flag,
        i / 3 AS price
    FROM range(120) AS rows(i);
CREATE TABLE big AS SELECT i AS x, (i / 2000)::INT AS sorted, 0 AS always, i % 4 AS class FROM range(5000) AS rows(i);
CREATE TABLE odd AS
    SELECT i AS a, NULL::INT AS nothing, UNHEX('FF') AS bytes, CASE i % 2 WHEN 0 THEN 'no' ELSE 'yes' END AS answer,
        i / 4 AS quarter, NULL::INT AS "empty"
    FROM range(8) AS rows(i);
CREATE TABLE plain AS SELECT 1 AS a;
"""

#: Trained models, by the statement that trained them.
MODELS = (
    "SELECT * FROM iris.train TO TRAIN DNNClassifier WITH model.n_classes = 3, model.hidden_units = [10, 20] "
    "LABEL class INTO iris.my_model",
    "SELECT age, sex, fare FROM passengers TO TRAIN DNNRegressor WITH model.hidden_units = [8] "
    "LABEL fare INTO my_regressor",
    "SELECT age, sex FROM passengers TO TRAIN LinearClassifier LABEL sex INTO sexes",
    "SELECT age, sex FROM passengers TO TRAIN tests.compiler.user_nets.Net LABEL sex INTO net_of_mine",
    "SELECT age, sex FROM passengers TO TRAIN tests.compiler.user_nets.residual WITH model.units = 4 "
    "LABEL sex INTO residuals",
)


def compile_text(text: str, source: DataSource) -> Any:
    """The plan of a program's only statement."""
    (statement,) = parse(text, source.dialect)
    return compile_statement(statement, text, source)


def train_plan(text: str, source: DataSource) -> TrainPlan:
    plan = compile_text(text, source)
    assert isinstance(plan, TrainPlan)
    return plan


def predict_plan(text: str, source: DataSource) -> PredictPlan:
    plan = compile_text(text, source)
    assert isinstance(plan, PredictPlan)
    return plan


def evaluate_plan(text: str, source: DataSource) -> EvaluatePlan:
    plan = compile_text(text, source)
    assert isinstance(plan, EvaluatePlan)
    return plan


def fill(source: DataSource, folder: Path) -> None:
    """Create the tables; store each model as its training would, around an artifact of a few bytes."""
    for statement in TABLES.split(";"):
        if statement.strip():
            source.execute(statement)
    artifact = folder / "model.artifact"
    artifact.write_bytes(b"weights")
    for text in MODELS:
        plan = train_plan(text, source)
        metadata = ModelMetadata(
            name=".".join(plan.into),
            statement=text,
            estimator=plan.estimator,
            features=plan.features.to_json(),
            label=plan.features.label.field,
            fields={},
            metrics={},
            program=plan.program,
            versions={},
            created="2026-01-01T00:00:00+00:00",
            rows=110,
            seconds=1.0,
        )
        save_model(source, plan.into, metadata, artifact)
    schema = pa.schema([("age", pa.float64()), ("class", pa.int64())])
    batch = pa.record_batch([[1.0], [1]], schema=schema)
    source.write_table(("predictions",), schema, [batch], Mark.RESULT)
