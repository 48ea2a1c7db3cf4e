"""From settled values to the text of a program, through the templates in ``codegen_templates``."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2

from sqlflow_elastic.compiler.network import Network
from sqlflow_elastic.compiler.plan import Features
from sqlflow_elastic.compiler.python_text import LINE, Call, comment, line, literal, text_block
from sqlflow_elastic.compiler.user_models import UserModel
from sqlflow_elastic.models.features import Column, Field, Label


@functools.cache
def environment() -> jinja2.Environment:
    """The templates, with the few names they may use; a missing value is an error."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("sqlflow_elastic.codegen_templates", ""),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Python and not HTML; every value passes `literal`
    )
    found.filters.update(literal=literal, comment=comment, text_block=text_block)
    found.globals.update(line=line, call=Call)
    return found


def render_train(
    statement: str,
    *,
    name: str,
    estimator: str,
    select: str,
    validation: str | None,
    features: Features,
    network: Network,
    metrics: Sequence[str],
    settings: Mapping[str, Any],
    class_weight: str | Mapping[Any, float] | None,
    using: bool,
) -> str:
    """The program of a TO TRAIN."""
    return (
        environment()
        .get_template(f"train_{network.family.value}.py.j2")
        .render(
            statement=statement,
            name=name,
            estimator=estimator,
            select=select,
            validation=validation,
            fields=list(features.fields),
            columns={key: list(group) for key, group in features.columns.items()},
            label=features.label,
            feature_import=_feature_import(_nodes_of(features)),
            network=network,
            metrics=list(metrics),
            settings=dict(settings),
            class_weight=class_weight,
            using=using,
        )
    )


@dataclass(frozen=True)
class UserNetwork:
    """The user's model that a trained model is.

    Attributes:
        model: where it is defined.
        arguments: what it is called with.
        features: of the trained model.
    """

    model: UserModel
    arguments: Mapping[str, Any]
    features: Features


def render_predict(
    statement: str, *, name: str, select: str, target: str, batch_size: int, user: UserNetwork | None
) -> str:
    """The program of a TO PREDICT; ``name`` is the trained model's, ``user`` the user's model that it is, if any."""
    values = {"statement": statement, "name": name, "select": select, "target": target, "batch_size": batch_size}
    return environment().get_template("predict.py.j2").render(**values, **_of_user(user))


def render_evaluate(
    statement: str, *, name: str, select: str, label: str, metrics: Sequence[str], user: UserNetwork | None
) -> str:
    """The program of a TO EVALUATE; ``name`` is the trained model's, ``user`` the user's model that it is, if any."""
    values = {"statement": statement, "name": name, "select": select, "label": label, "metrics": list(metrics)}
    return environment().get_template("evaluate.py.j2").render(**values, **_of_user(user))


def render_export(*, name: str, artifact: str, directory: str, user: UserNetwork | None) -> str:
    """The program that exports a trained model's file into a directory."""
    values = {"name": name, "artifact": artifact, "directory": directory}
    return environment().get_template("export.py.j2").render(**values, **_of_user(user))


def _of_user(user: UserNetwork | None) -> dict[str, Any]:
    """What templates know of a user's model."""
    if user is None:
        return {"user": None}
    columns = [column for group in user.features.columns.values() for column in group]
    return {
        "user": user.model,
        "arguments": dict(user.arguments),
        "columns": {key: list(group) for key, group in user.features.columns.items()},
        "feature_import": _feature_import(columns if user.model.takes_columns else ()),
    }


def _nodes_of(features: Features) -> list[Field | Column | Label]:
    return [*features.fields, features.label, *(column for group in features.columns.values() for column in group)]


def _feature_import(written: Iterable[Field | Column | Label]) -> str:
    return _import("sqlflow_elastic.models.features", {"FeatureInputs", *_classes_of(written)})


def _classes_of(written: Iterable[Field | Column | Label]) -> Iterable[str]:
    """Names of the classes that these are written with."""
    nodes = list(written)
    while nodes:
        node = nodes.pop()
        yield type(node).__name__
        if isinstance(node, Column):
            nodes += [source for source in node.sources if isinstance(source, Column)]


def _import(module: str, names: Iterable[str]) -> str:
    """An import as ``ruff format`` lays it out."""
    ordered = sorted(set(names))
    flat = f"from {module} import {', '.join(ordered)}"
    if len(flat) <= LINE:
        return flat
    return f"from {module} import (\n{''.join(f'    {name},{chr(10)}' for name in ordered)})"
