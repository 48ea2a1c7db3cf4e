"""The statements that run a job: TO TRAIN, TO PREDICT, TO EVALUATE, and EXPLAIN of the first."""

from __future__ import annotations

import contextlib
import datetime
import json
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlflow_elastic.compiler import compile_statement
from sqlflow_elastic.compiler.plan import EvaluatePlan, Plan, PredictPlan, TrainPlan
from sqlflow_elastic.datasource import DataSource, Mark, write_snapshot
from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.snapshot import Snapshot
from sqlflow_elastic.errors import CompileError, DataSourceError
from sqlflow_elastic.events import Event, Message, Progress, Rows
from sqlflow_elastic.jobs import Job
from sqlflow_elastic.language import ast
from sqlflow_elastic.models.store import ModelMetadata, load_model, save_model
from sqlflow_elastic.session.background import Emit
from sqlflow_elastic.session.catalog import metrics_text
from sqlflow_elastic.session.context import Context, Outcome, Running, row_progress, rows_text, warning
from sqlflow_elastic.session.job import statement_job

_MODELS_SCHEMA = "sqlflow_models"

Extended = ast.Train | ast.Predict | ast.Evaluate | ast.ExplainPlan


def run_extended(context: Context, statement: Extended, text: str) -> Running:
    """Compile a statement and run its job; ``text`` is the whole program's."""
    match statement:
        case ast.Train():
            return _train(context, statement, text)
        case ast.Predict():
            return _predict(context, statement, text)
        case ast.Evaluate():
            return _evaluate(context, statement, text)
        case ast.ExplainPlan():
            return _explain_plan(context, statement, text)


def _train(context: Context, statement: ast.Train, text: str) -> Running:
    """Train a model and store it under the name of INTO."""
    plan: TrainPlan = yield from _compile(context, statement, text)
    yield from context.database.run(lambda _: _make_models_schema(context.source, plan.into))
    yield from _try_writing(context, plan.into, statement.into, text)
    with statement_job(context, plan.request) as folder:
        if plan.validation_select is not None:
            yield from _read(context, plan.validation_select, folder.validation)
        snapshot = yield from _run(context, plan, folder, folder.summary)
        summary = _summary(folder)
        metadata = ModelMetadata(
            name=".".join(plan.into),
            statement=text[statement.span.start : statement.span.end],
            estimator=plan.estimator,
            features=plan.features.to_json(),
            label=plan.features.label.field,
            fields={field.name: str(field.type) for field in snapshot.schema},
            metrics=summary["metrics"],
            program=plan.program,
            versions=summary["versions"],
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            rows=summary["rows"],
            seconds=summary["seconds"],
            strategy=summary.get("strategy"),
        )
        yield Progress("saving", 0)
        yield from context.database.run(lambda emit: _save(context, plan, metadata, folder, emit))
    measured = f" ({metrics_text(metadata.metrics)})" if metadata.metrics else ""
    trained = f"Trained {plan.estimator} on {rows_text(metadata.rows)}"
    return Outcome(f"{trained}; saved as {metadata.name}{measured}", summary)


def _save(context: Context, plan: TrainPlan, metadata: ModelMetadata, folder: JobFolder, emit: Emit) -> None:
    save_model(context.source, plan.into, metadata, folder.trained, context.storage, warning(emit))


def _predict(context: Context, statement: ast.Predict, text: str) -> Running:
    """Write the SELECT's rows with a model's predictions into a table."""
    plan: PredictPlan = yield from _compile(context, statement, text)
    yield from _try_writing(context, plan.into, statement.target, text)
    with statement_job(context, plan.request) as folder:
        snapshot = yield from _run(context, plan, folder, folder.predictions)
        predictions = Snapshot.open(str(folder.predictions))
        rows = yield from _write(context, plan, snapshot, predictions)
    return Outcome(f"Predicted {rows_text(rows)}; saved in {'.'.join(plan.into)}", {"rows": rows})


def _evaluate(context: Context, statement: ast.Evaluate, text: str) -> Running:
    """Measure a model on the SELECT's rows: one row of metrics, into a table if there is INTO.

    What these rows do not define (an AUC of one class) is NULL.
    """
    plan: EvaluatePlan = yield from _compile(context, statement, text)
    if statement.into is not None:
        yield from _try_writing(context, plan.into, statement.into, text)
    with statement_job(context, plan.request) as folder:
        yield from _run(context, plan, folder, folder.summary)
        metrics = _summary(folder)["metrics"]
    row = pa.record_batch({name: pa.array([value], pa.float64(), from_pandas=True) for name, value in metrics.items()})
    if not plan.into:
        yield Rows(row)
        return Outcome(f"Evaluated {statement.model.text}", {"metrics": metrics})
    yield Progress("saving", 0)
    yield from context.database.run(lambda _: context.source.write_table(plan.into, row.schema, [row], Mark.RESULT))
    saved = f"saved in {'.'.join(plan.into)} ({metrics_text(metrics)})"
    return Outcome(f"Evaluated {statement.model.text}; {saved}", {"metrics": metrics})


def _explain_plan(context: Context, statement: ast.ExplainPlan, text: str) -> Running:
    """What TO TRAIN would do."""
    plan: TrainPlan = yield from _compile(context, statement.train, text)
    lines = plan.describe()
    yield Rows(lines)
    return Outcome(rows_text(lines.num_rows), {"rows": lines.num_rows})


def _compile(context: Context, statement: ast.Statement, text: str) -> Generator[Event, None, Any]:
    plan = yield from context.database.run(lambda _: compile_statement(statement, text, context.source))
    for note in plan.notes:
        yield Message(note)
    return plan


def _make_models_schema(source: DataSource, into: tuple[str, ...]) -> None:
    """Make the schema that SQLFlow's programs keep their models in, where it is missing; no other is made unasked."""
    if into[:-1] == (_MODELS_SCHEMA,):
        with contextlib.suppress(DataSourceError):  # writing there says it better
            source.execute(f"CREATE SCHEMA IF NOT EXISTS {source.quote((_MODELS_SCHEMA,))}")


def _try_writing(context: Context, table: tuple[str, ...], name: ast.Name, text: str) -> Generator[Event, None, None]:
    """Write an empty table beside the one of INTO and drop it, so that what forbids it is known before the job runs.

    Raises: CompileError: there is no such schema, no right to write there, …
    """
    beside = (*table[:-1], f"sqlflow_elastic_aside_{uuid.uuid4().hex}")

    def call(emit: Emit) -> None:
        context.source.write_table(beside, pa.schema([("nothing", pa.int64())]), [], Mark.RESULT)
        # Another session's writing may have tidied it away meanwhile.
        with contextlib.suppress(DataSourceError):
            context.source.drop_table(beside)

    try:
        yield from context.database.run(call)
    except DataSourceError as error:
        reason = str(error).partition("\n")[0]
        raise CompileError(f"the table '{'.'.join(table)}' cannot be written: {reason}", text, name.span) from error


def _read(context: Context, select: str, into: Path) -> Generator[Event, None, Snapshot]:
    def call(emit: Emit) -> Snapshot:
        return write_snapshot(context.source, select, str(into), row_progress(emit, "reading"))

    return context.database.run(call)


def _run(context: Context, plan: Plan, folder: JobFolder, result: Path) -> Generator[Event, None, Snapshot]:
    """Fill the job's folder and run its program until it has left its result; the rows it ran on."""
    snapshot = yield from _read(context, plan.select, folder.snapshot)
    if (using := plan.using) is not None:
        yield from context.database.run(lambda _: load_model(context.source, using, folder.model, context.storage))
    yield Progress("preparing", 0, unit="rows")
    yield from Job(
        folder,
        plan.program,
        context.cluster,
        result,
        plan.request,
        state_store=context.state_store,
        cancelled=context.cancelled,
    ).events()
    return snapshot


def _summary(folder: JobFolder) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(folder.summary.read_text(encoding="utf-8"))
    return summary


def _write(
    context: Context, plan: PredictPlan, snapshot: Snapshot, predictions: Snapshot
) -> Generator[Event, None, int]:
    """Write the rows with their predictions as the last column, in the place of one of that name."""
    (target,) = predictions.schema
    kept = [name for name in snapshot.schema.names if name != plan.replaced]
    schema = pa.schema([*(snapshot.schema.field(name) for name in kept), target])

    def call(emit: Emit) -> int:
        return context.source.write_table(plan.into, schema, batches(emit), Mark.RESULT)

    def batches(emit: Emit) -> Iterator[pa.RecordBatch]:
        on_rows, done = row_progress(emit, "saving", snapshot.rows), 0
        for batch, predicted in zip(snapshot.batches(), predictions.batches(), strict=True):
            columns = [*(batch.column(name) for name in kept), predicted.column(0)]
            yield pa.record_batch(columns, schema=schema)
            done += batch.num_rows
            on_rows(done)

    return context.database.run(call)
