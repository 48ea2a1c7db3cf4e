"""Labels: what kind of answer a model learns, and which classes there are.

Classes are settled here, so that the program can state them:

- ``model.label_vocabulary`` lists them; or
- the label holds integers and ``model.n_classes = n`` is given: they are 0 to n - 1, as in TensorFlow; or
- they are the label's different values. If the sample is not all of the data the database is asked for them.

The job checks every row against them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlflow_elastic.compiler.attributes import Attributes
from sqlflow_elastic.compiler.bind import Rows
from sqlflow_elastic.compiler.program_text import ProgramText, listing
from sqlflow_elastic.datasource.base import DataSource
from sqlflow_elastic.errors import CompileError, Span
from sqlflow_elastic.models.features import ClassLabel, Label, NumberLabel
from sqlflow_elastic.models.zoo.losses import Output

#: More different values than this are no classes.
MOST_CLASSES = 10_000

_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*")

Class = int | str | bool


def output_of(label: Label) -> Output:
    """What a network says of a row that learns this label."""
    if not isinstance(label, ClassLabel):
        return Output.NUMBER
    return Output.BINARY if len(label.classes or ()) == 2 else Output.CLASSES


def scale_of(label: Label, rows: Rows) -> tuple[float, float] | None:
    """Deviation and mean of a label's finite numbers in the sample, to four digits; None for classes."""
    if isinstance(label, ClassLabel):
        return None
    values = rows.sample[label.field].drop_null()
    if rows.kinds[label.field] == "text":
        values = pc.utf8_trim_whitespace(values)
    values = values.cast(pa.float64())
    values = values.filter(pc.is_finite(values))
    mean, deviation = float(f"{pc.mean(values).as_py() or 0.0:.4g}"), float(f"{pc.stddev(values).as_py() or 1.0:.4g}")
    return (deviation, mean) if math.isfinite(deviation) and math.isfinite(mean) else (1.0, 0.0)


@dataclass(frozen=True)
class LabelReader:
    """Reads the label of one statement; all errors are at the label, or at the attribute that contradicts it."""

    program: ProgramText
    rows: Rows
    source: DataSource
    field: str
    span: Span

    def number(self) -> NumberLabel:
        """A label of numbers. Raises: CompileError: it holds something else."""
        label = NumberLabel(self.field)
        if problems := label.check(self.rows.kinds):
            raise self._error(problems[0])
        if self.rows.kinds[self.field] == "text":
            for value in self._sampled():
                if not _NUMBER.fullmatch(value):
                    message = f"the label '{self.field}' holds {value!r}, which is not a number"
                    raise self._error(message, "a classifier like DNNClassifier learns texts")
        return label

    def classes(self, attributes: Attributes) -> ClassLabel:
        """A label of classes. Raises: CompileError: it holds none, only one, or others than the attributes say."""
        if problems := ClassLabel(self.field).check(self.rows.kinds):
            raise self._error(problems[0])
        count: int | None = attributes.values.get("model.n_classes")
        listed: Sequence[Class] | None = attributes.values.get("model.label_vocabulary")
        kind = self.rows.kinds[self.field]
        sampled = self._classes_of(self._sampled())
        if listed is not None:
            self._check_listed(attributes, listed, sampled, count)
            return self._several(listed, sampled)
        if kind == "boolean":
            if count not in (None, 2):
                raise attributes.error(
                    "model.n_classes", f"the label '{self.field}' is True or False: it has 2 classes"
                )
            return self._several([False, True], sampled)
        if kind != "text" and count is not None:
            for value in sampled:
                if not 0 <= value < count:  # type: ignore[operator]
                    message = (
                        f"the label '{self.field}' has the value {value!r}, "
                        f"and with model.n_classes = {count} its values are 0 to {count - 1}"
                    )
                    raise self._error(message, "leave model.n_classes away to take the values as they are")
            return self._several(list(range(count)), sampled)
        found = self._all_classes(sampled)
        if count is not None and len(found) != count and len(found) > 1:
            values = listing(map(str, found), 5)
            message = f"the label '{self.field}' has {len(found)} different values ({values}), not {count}"
            hint = "leave model.n_classes away, or list the classes in model.label_vocabulary"
            raise attributes.error("model.n_classes", message, hint)
        return self._several(found, found)

    def known(self, label: Label) -> None:
        """Check the sample against the label of a trained model. Raises: CompileError."""
        if not isinstance(label, ClassLabel):
            self.number()
            return
        for value in self._classes_of(self._sampled()):
            if value not in (label.classes or ()):
                message = f"the label '{self.field}' has the value {value!r}, which the model does not know"
                raise self._error(message, f"it was trained on {listing(map(str, label.classes or ()), 5)}")

    def _several(self, classes: Sequence[Class], seen: Sequence[Class]) -> ClassLabel:
        """The label, unless all rows are of one class."""
        if len(seen) < 2 and not self.rows.complete:
            seen = self._all_classes(seen)
        if len(seen) < 2:
            only = repr(seen[0]) if seen else "NULL"
            message = f"the label '{self.field}' is {only} in all rows"
            raise self._error(message, "a classifier needs rows of at least two classes")
        return ClassLabel(self.field, tuple(classes))

    def _check_listed(
        self, attributes: Attributes, listed: Sequence[Class], sampled: Sequence[Class], count: int | None
    ) -> None:
        if count is not None and count != len(listed):
            message = f"model.n_classes is {count}, and model.label_vocabulary lists {len(listed)} classes"
            raise attributes.error("model.n_classes", message, "one of the two is enough")
        for value in sampled:
            if value not in listed:
                message = (
                    f"the label '{self.field}' has the value {value!r}, which model.label_vocabulary does not list"
                )
                raise attributes.error("model.label_vocabulary", message)

    def _sampled(self) -> list[Any]:
        """The label's different values in the sample, in order, without NULL."""
        return sorted(value for value in self.rows.sample[self.field].unique().to_pylist() if value is not None)

    def _all_classes(self, sampled: Sequence[Class]) -> list[Class]:
        """The label's different values in all of the data."""
        if self.rows.complete:
            return list(sampled)
        field = self.source.quote((self.field,))
        select = f"SELECT DISTINCT {field} FROM ({self.rows.select}\n) AS labels WHERE {field} IS NOT NULL"  # noqa: S608
        found = self.source.probe(select, MOST_CLASSES + 1).column(0).to_pylist()
        if len(found) > MOST_CLASSES:
            message = f"the label '{self.field}' has more than {MOST_CLASSES} different values, too many for classes"
            raise self._error(message, "a regressor like DNNRegressor learns numbers")
        # Under some collations DISTINCT takes 'yes' and 'Yes' for one: what the sample shows counts too.
        return sorted({*self._classes_of(found), *sampled})

    def _classes_of(self, values: Sequence[Any]) -> list[Class]:
        """Values as classes: whole floats and decimals are integers. Raises: CompileError: a number is not whole."""
        if self.rows.kinds[self.field] not in ("float", "integer"):
            return list(values)
        for value in values:
            if value != value or value in (float("inf"), float("-inf")) or int(value) != value:
                message = f"the label '{self.field}' has the value {value}, which is not a class"
                raise self._error(message, "a regressor like DNNRegressor learns numbers")
        return [int(value) for value in values]

    def _error(self, message: str, hint: str | None = None) -> CompileError:
        return self.program.error(self.span, message, hint)
