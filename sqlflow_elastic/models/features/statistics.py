"""What has to be learned from the data before columns can be encoded, in one streaming pass with bounded memory.

Learned once, at training, and stored with the model: prediction never derives again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlflow_elastic.errors import DataError
from sqlflow_elastic.models.features.columns import (
    CategoryHash,
    CategoryId,
    ClassLabel,
    ClassValue,
    Column,
    Dense,
    Field,
    Label,
    NumberLabel,
    Sparse,
    TimeParts,
    Vocabulary,
)
from sqlflow_elastic.models.features.learners import (
    ClassLearner,
    IdLearner,
    ListLearner,
    NullLearner,
    NumberLabelLearner,
    NumberLearner,
    NumberStatistics,
    VocabularyLearner,
)
from sqlflow_elastic.models.features.raw import Rows
from sqlflow_elastic.models.features.resolve import parts, resolve


@dataclass(frozen=True)
class Statistics:
    """The learned state of columns in their plain form (see `resolve`), by the column's text."""

    rows: int
    numbers: dict[str, NumberStatistics]
    lengths: dict[str, int]
    """The longest list of each `Sparse`."""
    vocabularies: dict[str, tuple[str | int, ...]]
    nulls: dict[str, int]
    """How many NULLs each field of single categories had."""
    classes: tuple[ClassValue, ...] = ()
    class_counts: tuple[int, ...] = ()
    label_mean: tuple[float, ...] = ()
    label_deviation: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A dictionary of JSON values, from which `from_json` makes an equal value."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Statistics:
        """The statistics that `to_json` described."""
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
        values["vocabularies"] = {key: tuple(words) for key, words in data["vocabularies"].items()}
        values["numbers"] = {key: NumberStatistics.from_json(number) for key, number in data["numbers"].items()}
        return cls(**values)


class Learners:
    """All that columns and a label learn and check, batch by batch."""

    def __init__(self, columns: Iterable[Column], fields: Sequence[Field], label: Label | None = None) -> None:
        by_name = {field.name: field for field in fields}
        kinds = {field.name: field.kind for field in fields}
        found = parts(resolve(column, kinds) for column in columns)
        self.numbers = NumberLearner([c for c in found if isinstance(c, Dense | TimeParts)], by_name)
        self.lists = [
            ListLearner(source, by_name[source.field], _bound(column, source))
            for column in found
            for source in column.sources
            if isinstance(source, Sparse)
        ]
        self.ids = [
            IdLearner(by_name[column.source], column.n)
            for column in found
            if isinstance(column, CategoryId) and isinstance(column.source, str)
        ]
        self.vocabularies = [VocabularyLearner(c, by_name[c.field]) for c in found if isinstance(c, Vocabulary)]
        single = [
            source
            for column in found
            if isinstance(column, CategoryId | CategoryHash | Vocabulary)
            for source in column.sources
            if isinstance(source, str)
        ]
        self.nulls = [NullLearner(by_name[name]) for name in dict.fromkeys(single)]
        self.classes = ClassLearner(label, by_name[label.field]) if isinstance(label, ClassLabel) else None
        self.label = NumberLabelLearner(label, by_name[label.field]) if isinstance(label, NumberLabel) else None

    def add(self, rows: Rows) -> None:
        """Learn from a batch. Raises: DataError."""
        labels = [learner for learner in (self.classes, self.label) if learner is not None]
        for learner in [self.numbers, *self.lists, *self.ids, *self.vocabularies, *self.nulls, *labels]:
            learner.add(rows)

    def check_text(self, rows: Rows, name: str) -> None:
        """Check one text field's lists and numbers. Raises: DataError."""
        for learner in self.lists:
            if learner.column.field == name:
                learner.add(rows)
        self.numbers.check(rows, [name])

    def result(self, rows: int) -> Statistics:
        """What was learned from that many rows. Raises: DataError: the label has one class only."""
        lengths: dict[str, int] = {}
        for learner in self.lists:
            key = repr(learner.column)
            lengths[key] = max(lengths.get(key, 0), learner.longest)
        classes, counts = self.classes.result() if self.classes else ((), ())
        mean, deviation = self.label.result() if self.label else ((), ())
        return Statistics(
            rows=rows,
            numbers=self.numbers.result(),
            lengths=lengths,
            vocabularies={repr(learner.column): learner.result() for learner in self.vocabularies},
            nulls={learner.field.name: learner.count for learner in self.nulls},
            classes=classes,
            class_counts=counts,
            label_mean=mean,
            label_deviation=deviation,
        )


def _bound(parent: Column, source: Sparse) -> int | None:
    """Below which ids of a `Sparse` inside another column have to be; None if they are hashed."""
    if isinstance(parent, CategoryHash):
        return None
    return parent.n if isinstance(parent, CategoryId) else source.shape


def learn(
    columns: Iterable[Column], fields: Sequence[Field], label: Label | None, batches: Iterable[pa.RecordBatch]
) -> Statistics:
    """Learn from the rows of a SELECT, read once.

    Args:
        columns: the columns of all the network's inputs.
        fields: the raw fields they and the label are made of.
        label: what the model learns to say, or None.
        batches: the rows; only one batch is held at a time.

    Raises: DataError: a value is wrong, a label is NULL or has one class only, or there are no rows. The message names
        row, field and value.
    """
    learners = Learners(columns, fields, label)
    count = 0
    for batch in batches:
        if batch.num_rows:
            learners.add(Rows(batch, count))
            count += batch.num_rows
    if count == 0:
        raise DataError("there are no rows to learn from")
    return learners.result(count)
