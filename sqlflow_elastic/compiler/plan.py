"""Plans: what the compiler makes of a statement, the program included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlflow_elastic.jobs.request import JobRequest
from sqlflow_elastic.models.features import Column, Field, Label


@dataclass(frozen=True)
class Plan:
    """What every plan has.

    Attributes:
        program: the text of the Python program.
        request: what is asked of the job.
        select: the SELECT whose rows the job reads.
        validation_select: the SELECT of the rows to validate on, if there is one.
        using: name parts of the trained model's table to load into the job's folder, if there is one.
        into: name parts of the table that the result goes to; empty where none was asked for.
        attributes: the WITH clause as checked, by name, with those that have no effect yet.
        notes: sentences for the user.
    """

    program: str
    request: JobRequest
    select: str
    validation_select: str | None
    using: tuple[str, ...] | None
    into: tuple[str, ...]
    attributes: Mapping[str, Any]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Features:
    """What a model is made of besides its weights: kept in the model store, taken up again by USING.

    Attributes:
        fields: the raw fields that the columns and the label read.
        columns: the feature columns of each of the network's inputs.
        label: what the model learns to say.
        attributes: its ``model.*`` attributes and optimizer parameters as given.
        scale: of a label of numbers, deviation and mean in the sample, with which a network's outputs begin.
    """

    fields: tuple[Field, ...]
    columns: Mapping[str, tuple[Column, ...]]
    label: Label
    attributes: Mapping[str, Any]
    scale: tuple[float, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """For `ModelMetadata.features`."""
        return {
            "fields": [field.to_json() for field in self.fields],
            "columns": {name: [column.to_json() for column in group] for name, group in self.columns.items()},
            "label": self.label.to_json(),
            "attributes": dict(self.attributes),
            "scale": self.scale,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Features:
        """The inverse of `to_json`."""
        return cls(
            fields=tuple(map(Field.from_json, data["fields"])),
            columns={name: tuple(map(Column.from_json, group)) for name, group in data["columns"].items()},
            label=Label.from_json(data["label"]),
            attributes=data["attributes"],
            scale=None if data["scale"] is None else tuple(data["scale"]),
        )


@dataclass(frozen=True)
class TrainPlan(Plan):
    """TO TRAIN.

    Attributes:
        estimator: the model's name in the zoo, or a user's ``module.name``.
        features: fields, columns, label and attributes.
        settings: arguments of `elastic.TrainSettings`.
        metrics: what is measured on validation rows.
        explanation: the rows of `describe`.
    """

    estimator: str
    features: Features
    settings: Mapping[str, Any]
    metrics: tuple[str, ...]
    explanation: Sequence[tuple[str, str, str]]

    def describe(self) -> pa.RecordBatch:
        """What ``EXPLAIN SELECT … TO TRAIN`` answers: columns ``part``, ``item`` and ``detail``, all of them text."""
        parts, items, details = zip(*self.explanation, strict=True)
        return pa.record_batch({"part": parts, "item": items, "detail": details})


@dataclass(frozen=True)
class PredictPlan(Plan):
    """TO PREDICT.

    Attributes:
        target: the column of the table ``into`` that takes the predictions.
        replaced: the SELECT's column in whose place it comes, of the same name but for its case; None for none.
    """

    target: str
    replaced: str | None


@dataclass(frozen=True)
class EvaluatePlan(Plan):
    """TO EVALUATE; ``label`` is the field of the SELECT, ``metrics`` what is measured on it."""

    label: str
    metrics: tuple[str, ...]
