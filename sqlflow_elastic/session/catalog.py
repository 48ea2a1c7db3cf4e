"""Statements about trained models: SHOW TRAIN, SHOW MODELS, DESCRIBE MODEL, DROP MODEL."""

from __future__ import annotations

from collections.abc import Generator, Mapping

import pyarrow as pa

from sqlflow_elastic.events import Event, Rows
from sqlflow_elastic.language import ast
from sqlflow_elastic.models.store import ModelMetadata, drop_model, list_models, load_metadata
from sqlflow_elastic.session.context import Context, Outcome, Running, warning
from sqlflow_elastic.session.job_text import strategy_text

_LISTED = pa.schema(
    {
        "Model": pa.string(),
        "Estimator": pa.string(),
        "Label": pa.string(),
        "Rows": pa.int64(),
        "Metrics": pa.string(),
        "Created": pa.string(),
        "Bytes": pa.int64(),
    }
)


def show_train(context: Context, statement: ast.ShowTrain) -> Running:
    """The statement that trained a model."""
    model = yield from _metadata(context, statement.model)
    yield Rows(pa.record_batch({"Model": [model.name], "Train Statement": [model.statement]}))
    return Outcome("1 row", {"rows": 1})


def show_models(context: Context) -> Running:
    """All models of the data source, one a row."""
    models = yield from context.database.run(lambda _: list_models(context.source))
    rows = [
        {"Model": name, "Metrics": "damaged"}
        if model is None
        else {
            "Model": name,
            "Estimator": model.estimator,
            "Label": model.label,
            "Rows": model.rows,
            "Metrics": metrics_text(model.metrics),
            "Created": model.created,
            "Bytes": model.size + model.tables_size,
        }
        for name, model in models
    ]
    yield Rows(pa.RecordBatch.from_pylist(rows, schema=_LISTED))
    return Outcome(f"{len(models)} model{'' if len(models) == 1 else 's'}", {"rows": len(models)})


def describe_model(context: Context, statement: ast.DescribeModel) -> Running:
    """What is known of a model, one property a row."""
    from sqlflow_elastic.compiler.plan import Features  # listing models does without the compiler

    model = yield from _metadata(context, statement.model)
    features = Features.from_json(model.features)
    properties = {
        "model": model.name,
        "estimator": model.estimator,
        "label": model.label,
        "fields": ", ".join(f"{name} {kind}" for name, kind in model.fields.items()),
        "attributes": ", ".join(f"{name} = {value!r}" for name, value in features.attributes.items()),
        "features": "\n".join(repr(column) for group in features.columns.values() for column in group),
        "metrics": metrics_text(model.metrics),
        "rows": f"{model.rows}",
        "seconds": f"{model.seconds:.1f}",
        **({} if model.strategy is None else {"strategy": strategy_text(model.strategy)}),
        "created": model.created,
        "versions": ", ".join(f"{name} {version}" for name, version in model.versions.items()),
        "bytes": f"{model.size}",
        "sha256": model.digest,
        **({"tables": f"{model.tables_size} bytes in {model.tables}"} if model.tables else {}),
        "statement": model.statement,
    }
    yield Rows(
        pa.record_batch(
            {
                "Property": pa.array(properties.keys(), pa.string()),
                "Value": pa.array(properties.values(), pa.string()),
            }
        )
    )
    return Outcome(f"{len(properties)} rows", {"rows": len(properties)})


def drop(context: Context, statement: ast.DropModel) -> Running:
    """Drop a model."""
    table, if_exists = statement.model.parts, statement.if_exists
    dropped = yield from context.database.run(
        lambda emit: drop_model(context.source, table, if_exists, context.storage, warning(emit))
    )
    name = statement.model.text
    return Outcome(f"Dropped the model {name}" if dropped else f"There is no model {name}", {"dropped": dropped})


def metrics_text(metrics: Mapping[str, float]) -> str:
    """``accuracy 0.9732, auc 0.9911``."""
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())


def _metadata(context: Context, model: ast.Name) -> Generator[Event, None, ModelMetadata]:
    return (yield from context.database.run(lambda _: load_metadata(context.source, model.parts)))
