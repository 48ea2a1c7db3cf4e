"""What learns one thing each from the batches of a pass and refuses wrong values: numbers, lists, ids, labels …"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sqlflow_elastic.errors import DataError
from sqlflow_elastic.models.features.columns import (
    ClassLabel,
    ClassValue,
    Dense,
    Field,
    Kind,
    NumberLabel,
    Sparse,
    TimeParts,
    Vocabulary,
)
from sqlflow_elastic.models.features.lists import check_ids, dense_numbers, id_elements, number_column
from sqlflow_elastic.models.features.moments import Moments
from sqlflow_elastic.models.features.raw import Rows

MAX_CLASSES = 10_000
SKEWED = 5.0
"""Beyond this skewness numbers are standardised after a signed log1p, if that makes them half as skewed or less."""


@dataclass(frozen=True)
class NumberStatistics:
    """Of the numbers of one column, an entry for each of its places; ``missing`` counts rows where any is missing."""

    missing: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]
    logarithmic: tuple[bool, ...]
    """Where to take a signed log1p; mean and deviation are of the numbers after it."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NumberStatistics:
        """The statistics whose attributes came back from JSON."""
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list | tuple) else v for name, v in data.items()}
        return cls(**values)


class NumberLearner:
    """Means, deviations and ranges of all number columns together, so that numpy works on long rows."""

    def __init__(self, columns: Sequence[Dense | TimeParts], fields: Mapping[str, Field]) -> None:
        self._columns = columns
        self._fields = fields
        self._missing = np.zeros(len(columns), np.int64)
        self._plain: Moments | None = None
        self._logarithmic: Moments | None = None
        self._minimum: NDArray[np.float64] | None = None
        self._maximum: NDArray[np.float64] | None = None

    def add(self, rows: Rows) -> None:
        """Learn from a batch. Raises: DataError: text among numbers, or a text of the wrong number of them."""
        pieces = [numbers_of(rows, column, self._fields[column.field]) for column in self._columns]
        if not pieces:
            return
        self._missing += [int(np.isnan(piece).any(axis=1).sum()) for piece in pieces]
        values = np.concatenate([piece.T for piece in pieces])
        plain = Moments.of(values)
        logarithmic = Moments.of(np.sign(values) * np.log1p(np.abs(values)))
        minimum = np.fmin.reduce(values, axis=1, initial=np.inf)
        maximum = np.fmax.reduce(values, axis=1, initial=-np.inf)
        self._plain = self._plain.merge(plain) if self._plain else plain
        self._logarithmic = self._logarithmic.merge(logarithmic) if self._logarithmic else logarithmic
        self._minimum = minimum if self._minimum is None else np.minimum(self._minimum, minimum)
        self._maximum = maximum if self._maximum is None else np.maximum(self._maximum, maximum)

    def check(self, rows: Rows, names: Sequence[str]) -> None:
        """Refuse wrong values in the columns of these fields. Raises: DataError."""
        for column in self._columns:
            if column.field in names:
                numbers_of(rows, column, self._fields[column.field])

    def result(self) -> dict[str, NumberStatistics]:
        """By the column's text."""
        if self._plain is None or self._logarithmic is None or self._minimum is None or self._maximum is None:
            return {}
        plain, logarithmic = self._plain, self._logarithmic
        skewed = (np.abs(plain.skew) > SKEWED) & (np.abs(logarithmic.skew) <= np.abs(plain.skew) / 2)
        found, start = {}, 0
        for column, missing in zip(self._columns, self._missing, strict=True):
            place = slice(start, start + (column.shape if isinstance(column, Dense) else 1))
            log = skewed[place] & (isinstance(column, Dense) and column.normalize)
            found[repr(column)] = NumberStatistics(
                missing=int(missing),
                mean=tuple(np.where(log, logarithmic.mean[place], plain.mean[place]).tolist()),
                deviation=tuple(np.where(log, logarithmic.deviation[place], plain.deviation[place]).tolist()),
                minimum=tuple(_finite(self._minimum[place])),
                maximum=tuple(_finite(self._maximum[place])),
                logarithmic=tuple(log.tolist()),
            )
            start = place.stop
        return found


def numbers_of(rows: Rows, column: Dense | TimeParts, field: Field) -> NDArray[np.float64]:
    """A number column's raw numbers, float64 [rows, shape]; of a `TimeParts` the seconds. NaN where missing."""
    if isinstance(column, Dense):
        numbers = number_column(rows, column, field)
        infinite = np.isinf(numbers).any(axis=1)
        if infinite.any():
            rows.require(pa.array(~infinite), field, "a finite number")
        return numbers
    return np.asarray(rows.values(field).to_numpy(zero_copy_only=False), np.float64)[:, None]


def _finite(values: NDArray[np.float64]) -> list[float]:
    return [float(value) for value in np.where(np.isfinite(values), values, 0.0)]


class ListLearner:
    """The longest list of a `Sparse`; ``n`` bounds its ids, None if they are hashed."""

    def __init__(self, column: Sparse, field: Field, n: int | None) -> None:
        self.column = column
        self._field = field
        self._n = n
        self.longest = 0

    def add(self, rows: Rows) -> None:
        """Learn from a batch. Raises: DataError: an element is no id in [0, n), or no pair of key and value."""
        elements = id_elements(rows, self.column, self._field)
        if self._n is not None:
            check_ids(elements, self._n)
        self.longest = max(self.longest, int(np.bincount(np.asarray(elements.parents)).max(initial=0)))


class IdLearner:
    """Checks a field of single ids in [0, n)."""

    def __init__(self, field: Field, n: int) -> None:
        self._field = field
        self._n = n

    def add(self, rows: Rows) -> None:
        """Check a batch. Raises: DataError."""
        ids = rows.values(self._field)
        valid = pc.fill_null(pc.and_(pc.greater_equal(ids, 0), pc.less(ids, self._n)), True)
        rows.require(valid, self._field, f"an id from 0 to {self._n - 1}")


class NullLearner:
    """How many values of a field are NULL."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.count = 0

    def add(self, rows: Rows) -> None:
        """Learn from a batch."""
        self.count += rows.values(self.field).null_count


class VocabularyLearner:
    """The most frequent values of a field.

    Counts are exact up to four times ``max_values`` distinct values; beyond, the rarest are forgotten now and then.
    """

    def __init__(self, column: Vocabulary, field: Field) -> None:
        self.column = column
        self._field = field
        self._counts: Counter[str | int] = Counter()

    def add(self, rows: Rows) -> None:
        """Learn from a batch."""
        count_values(self._counts, rows.values(self._field))
        if len(self._counts) > 4 * self.column.max_values:
            self._counts = Counter(dict(self._counts.most_common(2 * self.column.max_values)))

    def result(self) -> tuple[str | int, ...]:
        """The values, the most frequent first, equally frequent ones in order."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(value for value, _ in ordered[: self.column.max_values])


def count_values(counts: Counter[str | int], values: pa.Array) -> None:
    """Add how often each value is there, NULL left out."""
    pairs = pc.value_counts(values.drop_null())
    for value, count in zip(pairs.field("values").to_pylist(), pairs.field("counts").to_pylist(), strict=True):
        counts[value] += count


def class_kind(label: ClassLabel, kind: Kind) -> Kind:
    """How the values of a class label are read: as its classes are, or as whole numbers, texts or booleans."""
    if label.classes:
        first = label.classes[0]
        return "boolean" if isinstance(first, bool) else "integer" if isinstance(first, int) else "text"
    return "integer" if kind == "float" else kind


class ClassLearner:
    """The classes of a label and how many rows each has."""

    def __init__(self, label: ClassLabel, field: Field) -> None:
        self._label = label
        self._field = Field(field.name, class_kind(label, field.kind))
        self._counts: Counter[str | int] = Counter()

    def add(self, rows: Rows) -> None:
        """Learn from a batch. Raises: DataError: a NULL, a value that is none of the classes, too many classes."""
        values = rows.values(self._field)
        check_classes(rows, values, self._field, self._label.classes)
        count_values(self._counts, values)
        if len(self._counts) > MAX_CLASSES:
            raise DataError(
                f"label '{self._field.name}' has more than {MAX_CLASSES} different values, too many classes"
            )

    def result(self) -> tuple[tuple[ClassValue, ...], tuple[int, ...]]:
        """The classes and their counts. Raises: DataError: there is one class only."""
        if len(self._counts) < 2:
            only = next(iter(self._as_classes(self._counts)))
            raise DataError(
                f"label '{self._field.name}' is {only!r} in all rows, expected at least two classes to tell apart"
            )
        raw = sorted(self._counts) if self._label.classes is None else list(self._label.classes)
        return tuple(self._as_classes(raw)), tuple(self._counts[value] for value in raw)

    def _as_classes(self, values: Sequence[ClassValue] | Counter[str | int]) -> list[ClassValue]:
        return [bool(value) for value in values] if self._field.kind == "boolean" else list(values)


def check_classes(rows: Rows, values: pa.Array, field: Field, classes: Sequence[ClassValue] | None) -> None:
    """Raise the `DataError` of the first label that is NULL or none of the classes."""
    if classes is None:
        rows.require(values.is_valid(), field, "a class")
        return
    known = pa.array(classes).cast(values.type)
    shown = ", ".join(map(repr, classes[:10])) + (", …" if len(classes) > 10 else "")
    rows.require(pc.is_in(values, value_set=known), field, f"a class out of {shown}")


def label_numbers(rows: Rows, label: NumberLabel, field: Field) -> NDArray[np.float64]:
    """A number label's values, float64 [rows, shape]. Raises: DataError: one is missing, no number, or infinite."""
    if field.kind == "text":
        numbers = dense_numbers(rows, field, label.shape, "," if label.shape > 1 else None)
    else:
        numbers = number_column(rows, Dense(label.field), field)
    rows.require(pa.array(np.isfinite(numbers).all(axis=1)), field, "a number" if label.shape == 1 else "numbers")
    return numbers


class NumberLabelLearner:
    """The mean and deviation of a label of numbers."""

    def __init__(self, label: NumberLabel, field: Field) -> None:
        self._label = label
        self._field = field
        self._moments: Moments | None = None

    def add(self, rows: Rows) -> None:
        """Learn from a batch. Raises: DataError."""
        moments = Moments.of(label_numbers(rows, self._label, self._field).T)
        self._moments = self._moments.merge(moments) if self._moments else moments

    def result(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Means and deviations, one for each place."""
        assert self._moments is not None  # noqa: S101 - rows were added
        return tuple(self._moments.mean.tolist()), tuple(self._moments.deviation.tolist())
