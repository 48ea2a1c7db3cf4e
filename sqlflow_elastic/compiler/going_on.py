"""USING in TO TRAIN: going on from a trained model, with its features, its label and its network."""

from __future__ import annotations

from sqlflow_elastic.compiler.attributes import Attributes
from sqlflow_elastic.compiler.columns import ColumnReader, input_of
from sqlflow_elastic.compiler.program_text import ProgramText
from sqlflow_elastic.compiler.stored import Trained
from sqlflow_elastic.errors import CompileError, Span
from sqlflow_elastic.language import ast
from sqlflow_elastic.models.features import Column
from sqlflow_elastic.models.zoo.declarations import Model

#: What may change between two trainings of one network: it has no weights in the model.
_FREE = ("model.loss", "model.loss_reduction", "model.dropout", "model.dnn_dropout")


def check_same_model(statement: ast.Train, model: Model, attributes: Attributes, trained: Trained) -> Attributes:
    """The attributes with those of the trained model. Raises: CompileError: they describe another network."""
    program = attributes.program
    if trained.estimator != model.name:
        message = f"'{trained.name.text}' is a {trained.estimator}, and a {model.name} cannot go on from it"
        raise program.error(trained.name.span, message)
    former = trained.features.attributes
    defaults = {attribute.name: attribute.default for attribute in model.attributes}
    fixed = [name for name in defaults if not name.endswith("optimizer") and name not in _FREE]
    for name in fixed:
        if name in attributes.values and attributes.values[name] != former.get(name, defaults[name]):
            message = f"'{trained.name.text}' has {name} = {former.get(name, defaults[name])!r}, which cannot change"
            raise attributes.error(name, message, "leave it away to go on with the same network")
    kept = {name: former[name] for name in fixed if name in former}
    return Attributes(program, {**kept, **attributes.values}, attributes.spans)


def check_same_label(program: ProgramText, field: str, span: Span, trained: Trained) -> None:
    """Raises: CompileError: the label is another field than the one that the model learned."""
    learned = trained.features.label.field
    if field != learned:
        message = f"'{trained.name.text}' learned the label '{learned}', not '{field}'"
        raise program.error(span, message, f"write {field} AS {learned}")


def check_same_columns(statement: ast.Train, model: Model, reader: ColumnReader, trained: Trained) -> None:
    """Raises: CompileError: a COLUMN clause says other columns than the model has.

    A field alone stands for whatever was derived from it, ``*`` for all that is not named.
    """
    said: dict[str, list[Column]] = {name: [] for name in model.inputs}
    for clause in statement.columns:
        name = input_of(reader.program, clause, model)
        known = trained.features.columns[name]
        for value in clause.columns:
            for source in [] if isinstance(value, ast.Star) else reader.sources(value):
                meant = [column for column in known if source in (column, *column.fields()[:1])]
                if not meant:
                    raise _other_columns(reader, clause, trained)
                said[name] += meant
        if any(isinstance(value, ast.Star) for value in clause.columns):
            said[name] += known
    for clause in statement.columns:
        name = input_of(reader.program, clause, model)
        if set(said[name]) != set(trained.features.columns[name]):
            raise _other_columns(reader, clause, trained)


def _other_columns(reader: ColumnReader, clause: ast.ColumnClause, trained: Trained) -> CompileError:
    message = f"these are not the columns of '{trained.name.text}', and they cannot change"
    return reader.program.error(clause.span, message, "leave COLUMN away to go on with the same columns")
