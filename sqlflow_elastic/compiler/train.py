"""TO TRAIN: from the statement to its plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlflow_elastic.compiler.attributes import AttributeReader, Attributes
from sqlflow_elastic.compiler.bind import Rows, bind, field_at, sample
from sqlflow_elastic.compiler.columns import ColumnReader, input_of
from sqlflow_elastic.compiler.explain import explain
from sqlflow_elastic.compiler.going_on import check_same_columns, check_same_label, check_same_model
from sqlflow_elastic.compiler.labels import LabelReader, scale_of
from sqlflow_elastic.compiler.metrics import chosen_metrics
from sqlflow_elastic.compiler.models import find_model
from sqlflow_elastic.compiler.network import network_of
from sqlflow_elastic.compiler.plan import Features, TrainPlan
from sqlflow_elastic.compiler.program_text import ProgramText, listing
from sqlflow_elastic.compiler.render import render_train
from sqlflow_elastic.compiler.request import few_rows, train_request
from sqlflow_elastic.compiler.settings import class_weight, train_settings, without_effect
from sqlflow_elastic.compiler.stored import Trained, check_features, check_into, load_trained
from sqlflow_elastic.compiler.vectors import with_vectors
from sqlflow_elastic.datasource.base import DataSource, Mark
from sqlflow_elastic.errors import ParseError
from sqlflow_elastic.language import ast, parse_query
from sqlflow_elastic.models.features import Column, Field, Label
from sqlflow_elastic.models.zoo.attributes import TRAIN, VALIDATION
from sqlflow_elastic.models.zoo.declarations import Model, Task
from sqlflow_elastic.models.zoo.losses import Output, loss


def compile_train(program: ProgramText, statement: ast.Train, source: DataSource) -> TrainPlan:
    """The plan of a TO TRAIN. Raises: CompileError, DataSourceError, ModelStoreError."""
    model = find_model(program, statement.model)
    declared = (*model.attributes, *TRAIN, *VALIDATION)
    attributes = AttributeReader(program, model.name, declared, model.optimizers).read(statement.attributes)
    check_into(program, statement.into, statement.into.parts, source, Mark.MODEL)
    trained = None if statement.using is None else load_trained(program, statement.using, source)
    if trained is not None:
        attributes = check_same_model(statement, model, attributes, trained)
    _check_required(program, statement, model, attributes)
    rows = bind(program, statement.select, source)
    label = _label(program, statement, model, attributes, rows, source, trained)
    reader = ColumnReader(program, rows, label.field)
    if trained is None:
        columns = with_vectors(model, attributes, reader, _columns(program, statement, model, reader))
        fields = _fields(rows, columns, label)
    else:
        check_features(program, rows, trained, statement.select.span)
        check_same_columns(statement, model, reader, trained)
        columns, fields = trained.features.columns, trained.features.fields
    scale = scale_of(label, rows) if trained is None else trained.features.scale
    features = Features(fields, columns, label, _model_attributes(attributes, model), scale)
    every = [column for group in columns.values() for column in group]
    network = network_of(model, attributes, every, label, scale)
    settings = train_settings(attributes, rows)
    metrics = chosen_metrics(attributes, network.output)
    validation = _validation(attributes, features, source)
    text = program.text[statement.span.start : statement.span.end]
    request = train_request(attributes, statement.into.text, text, settings)
    notes = (*reader.notes, *few_rows(attributes.values, settings), *without_effect(attributes))
    return TrainPlan(
        program=render_train(
            text,
            name=statement.into.text,
            estimator=model.name,
            select=rows.select,
            validation=validation,
            features=features,
            network=network,
            metrics=metrics,
            settings=settings,
            class_weight=class_weight(attributes, label),
            using=trained is not None,
        ),
        request=request,
        select=rows.select,
        validation_select=validation,
        using=None if statement.using is None else statement.using.parts,
        into=statement.into.parts,
        attributes=dict(attributes.values),
        notes=notes,
        estimator=model.name,
        features=features,
        settings=settings,
        metrics=metrics,
        explanation=explain(model, features, network, rows, settings, attributes.values, request, notes),
    )


def _check_required(program: ProgramText, statement: ast.Train, model: Model, attributes: Attributes) -> None:
    for attribute in model.attributes:
        if attribute.required and attribute.name not in attributes.values:
            message = f"{model.name} needs {attribute.name}"
            raise program.error(statement.model.span, message, f"add WITH {attribute.name} = {attribute.kind.text}")


def _model_attributes(attributes: Attributes, model: Model) -> dict[str, Any]:
    """What was given about the model and its optimizers."""
    groups = ("model", *model.optimizers)
    return {name: value for name, value in attributes.values.items() if name.partition(".")[0] in groups}


def _label(
    program: ProgramText,
    statement: ast.Train,
    model: Model,
    attributes: Attributes,
    rows: Rows,
    source: DataSource,
    trained: Trained | None,
) -> Label:
    if statement.label is None:
        if trained is None:
            raise program.error(statement.model.span, f"{model.name} needs a label", "add LABEL and the field to learn")
        name, span = trained.features.label.field, statement.select.span
    else:
        name, span = statement.label.text, statement.label.span
    field = field_at(program, rows, name, span)
    reader = LabelReader(program, rows, source, field, span)
    if trained is not None:
        check_same_label(program, field, span, trained)
        reader.known(trained.features.label)
        return trained.features.label
    if _learns_classes(model, attributes, rows, field):
        return reader.classes(attributes)
    return reader.number()


def _learns_classes(model: Model, attributes: Attributes, rows: Rows, field: str) -> bool:
    """Whether the label is a class. For a user's model the loss says it, else the label: a float is none."""
    if model.task is not Task.LABEL:
        return model.task is Task.CLASS
    given = attributes.values.keys() & {"model.n_classes", "model.label_vocabulary"}
    if "model.loss" in attributes.values:
        return Output.NUMBER not in loss(attributes.values["model.loss"]).functions
    return bool(given) or rows.kinds[field] != "float"


def _columns(
    program: ProgramText, statement: ast.Train, model: Model, reader: ColumnReader
) -> Mapping[str, tuple[Column, ...]]:
    """The feature columns of each input. Without COLUMN every input gets all the fields."""
    if not statement.columns:
        derived = _some(program, statement, tuple(reader.remaining(())))
        return dict.fromkeys(model.inputs, derived)
    columns: dict[str, list[Column]] = {name: [] for name in model.inputs}
    with_rest: list[str] = []
    for clause in statement.columns:
        name = input_of(program, clause, model)
        columns[name] += reader.read(clause)
        with_rest += [name for value in clause.columns if isinstance(value, ast.Star)]
    for name in dict.fromkeys(with_rest):
        columns[name] += reader.remaining(columns[name])
    missing = [name for name, group in columns.items() if not group]
    if missing:
        message = f"{model.name} has no columns for its input {listing(missing)}"
        raise program.error(statement.columns[0].span, message, f"add COLUMN … FOR {missing[0]}")
    return {name: tuple(dict.fromkeys(group)) for name, group in columns.items()}


def _some(program: ProgramText, statement: ast.Train, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    if not columns:
        raise program.error(statement.select.span, "the SELECT gives no field that a feature can be made of")
    return columns


def _fields(rows: Rows, columns: Mapping[str, tuple[Column, ...]], label: Label) -> tuple[Field, ...]:
    """The raw fields that the columns and the label read, in the order of the SELECT."""
    read = {label.field, *(name for group in columns.values() for column in group for name in column.fields())}
    return tuple(Field(name, kind) for name, kind in rows.kinds.items() if name in read)


def _validation(attributes: Attributes, features: Features, source: DataSource) -> str | None:
    """The SELECT of the validation rows, checked against the features and the label."""
    name = "validation.select"
    select: str | None = attributes.values.get(name)
    if select is None:
        return None
    if "validation.fraction" in attributes.values:
        raise attributes.error("validation.fraction", "validation.select and validation.fraction exclude each other")
    try:
        select = parse_query(select, source.dialect).text
    except ParseError as error:
        raise attributes.error(name, f"validation.select is not a query: {error.message}", error.hint) from None
    rows = sample(select, source)
    if rows.sample.num_rows == 0:
        raise attributes.error(name, "validation.select gives no row")
    missing = [field.name for field in features.fields if field.name not in rows.names]
    if missing:
        raise attributes.error(name, f"validation.select lacks {listing(missing)}")
    return select
