"""TO PREDICT, TO EVALUATE and export: what uses a trained model."""

from __future__ import annotations

from sqlflow_elastic.compiler.attributes import AttributeReader
from sqlflow_elastic.compiler.bind import Rows, bind, field_at
from sqlflow_elastic.compiler.labels import LabelReader, output_of
from sqlflow_elastic.compiler.metrics import chosen_metrics
from sqlflow_elastic.compiler.network import user_arguments
from sqlflow_elastic.compiler.plan import EvaluatePlan, Features, PredictPlan
from sqlflow_elastic.compiler.program_text import ProgramText, listing
from sqlflow_elastic.compiler.render import UserNetwork, render_evaluate, render_export, render_predict
from sqlflow_elastic.compiler.request import use_request
from sqlflow_elastic.compiler.stored import Trained, check_features, check_into, features_of, load_trained
from sqlflow_elastic.compiler.user_models import NotAModelError, find_user_model
from sqlflow_elastic.datasource.base import DataSource, Mark
from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.jobs.request import JobKind
from sqlflow_elastic.language import ast
from sqlflow_elastic.models.store import load_metadata
from sqlflow_elastic.models.zoo.attributes import EVALUATE, PREDICT
from sqlflow_elastic.models.zoo.declarations import find

BATCH_SIZE = 1024


def compile_predict(program: ProgramText, statement: ast.Predict, source: DataSource) -> PredictPlan:
    """The plan of a TO PREDICT. Raises: CompileError, DataSourceError, ModelStoreError."""
    attributes = AttributeReader(program, "TO PREDICT", PREDICT).read(statement.attributes)
    *into, target = statement.target.parts
    trained = load_trained(program, statement.using, source)
    check_into(program, statement.target, tuple(into), source, Mark.RESULT)
    rows = bind(program, statement.select, source)
    check_features(program, rows, trained, statement.select.span)
    features = trained.features
    replaced = rows.find(target)
    if (replaced or target) in {
        name for group in features.columns.values() for column in group for name in column.fields()
    }:
        message = f"'{target}' is a feature of the model '{trained.name.text}': predictions cannot take its place"
        raise program.error(statement.target.span, message, "give the predictions a column of their own")
    _check_table(program, statement, rows, source)
    text = program.text[statement.span.start : statement.span.end]
    return PredictPlan(
        program=render_predict(
            text,
            name=trained.name.text,
            select=rows.select,
            target=target,
            batch_size=attributes.values.get("predict.batch_size", BATCH_SIZE),
            user=_user(program, trained),
        ),
        request=use_request(attributes, JobKind.PREDICT, ".".join(into), text),
        select=rows.select,
        validation_select=None,
        using=statement.using.parts,
        into=tuple(into),
        attributes=dict(attributes.values),
        notes=(),
        target=target,
        replaced=replaced,
    )


def compile_evaluate(program: ProgramText, statement: ast.Evaluate, source: DataSource) -> EvaluatePlan:
    """The plan of a TO EVALUATE. Raises: CompileError, DataSourceError, ModelStoreError."""
    attributes = AttributeReader(program, "TO EVALUATE", EVALUATE).read(statement.attributes)
    trained = load_trained(program, statement.model, source)
    if statement.into is not None:
        check_into(program, statement.into, statement.into.parts, source, Mark.RESULT)
    rows = bind(program, statement.select, source)
    check_features(program, rows, trained, statement.select.span)
    learned = trained.features.label
    if statement.label is None:
        name, span = learned.field, statement.select.span
    else:
        name, span = statement.label.text, statement.label.span
    label = field_at(program, rows, name, span)
    LabelReader(program, rows, source, label, span).known(learned)
    metrics = chosen_metrics(attributes, output_of(learned))
    text = program.text[statement.span.start : statement.span.end]
    return EvaluatePlan(
        program=render_evaluate(
            text,
            name=trained.name.text,
            select=rows.select,
            label=label,
            metrics=metrics,
            user=_user(program, trained),
        ),
        request=use_request(attributes, JobKind.EVALUATE, statement.model.text, text),
        select=rows.select,
        validation_select=None,
        using=statement.model.parts,
        into=() if statement.into is None else statement.into.parts,
        attributes=dict(attributes.values),
        notes=(),
        label=label,
        metrics=metrics,
    )


def _check_table(program: ProgramText, statement: ast.Predict, rows: Rows, source: DataSource) -> None:
    """Raises: CompileError: columns that differ in case only, which no table has but PostgreSQL's."""
    alike = [name for name in rows.names if [other.lower() for other in rows.names].count(name.lower()) > 1]
    if alike and source.dialect != "postgres":
        message = f"the SELECT gives {listing(alike)}, which a table cannot have side by side"
        raise program.error(statement.select.span, message, "give each its own name with AS")


def compile_export(source: DataSource, table: tuple[str, ...], artifact: str, directory: str) -> str:
    """The program that exports a trained model.

    Args:
        source: the database.
        table: the model's, which is there.
        artifact: the model's file, as `load_model` wrote it.
        directory: where to.

    Raises: ModelStoreError: the model cannot be read, or its code is gone.
    """
    metadata = load_metadata(source, table)
    features = features_of(metadata)
    user = _user_network(metadata.estimator, features)
    if user is None and find(metadata.estimator) is None:
        raise ModelStoreError(_gone(metadata.name, metadata.estimator))
    return render_export(name=metadata.name, artifact=artifact, directory=directory, user=user)


def _user(program: ProgramText, trained: Trained) -> UserNetwork | None:
    """The user's model that a trained model is; None for one of the zoo. Raises: CompileError: its code is gone."""
    user = _user_network(trained.estimator, trained.features)
    if user is None and find(trained.estimator) is None:
        message, _, hint = _gone(trained.name.text, trained.estimator).partition("; ")
        raise program.error(trained.name.span, message, hint)
    return user


def _user_network(estimator: str, features: Features) -> UserNetwork | None:
    """None for a model of the zoo, and for one that is gone."""
    if find(estimator) is not None:
        return None
    try:
        user = find_user_model(estimator)
    except NotAModelError:
        return None
    if user is None:
        return None
    return UserNetwork(user, user_arguments(user, features.attributes, features.label), features)


def _gone(name: str, estimator: str) -> str:
    return f"'{name}' is a '{estimator}', and there is no such model any more; its module has to be importable here"
