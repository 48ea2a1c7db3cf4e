"""Trained models that a statement goes on from, and tables that it writes to."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from sqlflow_elastic.compiler.bind import Rows
from sqlflow_elastic.compiler.plan import Features
from sqlflow_elastic.compiler.program_text import ProgramText, did_you_mean, listing
from sqlflow_elastic.datasource.base import DataSource, Mark
from sqlflow_elastic.errors import ModelStoreError, Span
from sqlflow_elastic.language import ast
from sqlflow_elastic.models.store import ModelMetadata, load_metadata


@dataclass(frozen=True)
class Trained:
    """A trained model: its table, the name of its estimator, and what it is made of."""

    name: ast.Name
    estimator: str
    features: Features


def load_trained(program: ProgramText, name: ast.Name, source: DataSource) -> Trained:
    """The trained model of a name. Raises: CompileError: there is none."""
    mark = source.mark(name.parts)
    if mark is not Mark.MODEL:
        if source.columns(name.parts) is not None:
            raise program.error(name.span, f"the table '{name.text}' is not a trained model")
        models = [".".join(parts) for parts in source.marked(Mark.MODEL)]
        hint = did_you_mean(name.text, models) or (f"there are {listing(models)}" if models else "train one first")
        raise program.error(name.span, f"there is no trained model '{name.text}'", hint)
    metadata = load_metadata(source, name.parts)
    return Trained(name, metadata.estimator, features_of(metadata))


def features_of(metadata: ModelMetadata) -> Features:
    """What a trained model is made of. Raises: ModelStoreError: another version of this package wrote that."""
    try:
        return Features.from_json(metadata.features)
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelStoreError(f"the features of the model '{metadata.name}' cannot be read: train it again") from error


def check_features(program: ProgramText, rows: Rows, trained: Trained, span: Span) -> None:
    """Check that a SELECT gives every field that the features of a trained model read. Raises: CompileError."""
    needed = [name for group in trained.features.columns.values() for column in group for name in column.fields()]
    missing = [name for name in dict.fromkeys(needed) if name not in rows.names]
    if not missing:
        return
    message = f"the SELECT lacks {listing(missing)}, which the model '{trained.name.text}' was trained on"
    alike = rows.find(missing[0])
    if alike is None:
        others = [name for name in rows.names if name not in needed]
        alike = next(iter(difflib.get_close_matches(missing[0], others, n=1)), None)
    raise program.error(span, message, f"write {alike} AS {missing[0]}" if alike else f"it gives {listing(rows.names)}")


def check_into(program: ProgramText, name: ast.Name, parts: tuple[str, ...], source: DataSource, mark: Mark) -> None:
    """Check that writing to a table overwrites nothing but an earlier result of its sort. Raises: CompileError."""
    if source.mark(parts) is mark or source.columns(parts) is None:
        return
    what = "a trained model" if mark is Mark.MODEL else "a result of TO PREDICT or TO EVALUATE"
    message = f"the table '{'.'.join(parts)}' is there already and is not {what}; it will not be overwritten"
    raise program.error(name.span, message, "choose another name, or drop it first")
