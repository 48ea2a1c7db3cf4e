"""The Keras functional model from raw fields to encoded arrays, piece by piece.

A *piece* is what one column (or the block of all plain number fields) adds to one array. The whole model puts the
pieces side by side; the encoder also runs them in groups, so that a piece of a single text field is computed once for
each distinct text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from sqlflow_elastic.models.features import layers
from sqlflow_elastic.models.features.columns import (
    Bucket,
    CategoryHash,
    CategoryId,
    Column,
    Cross,
    Dense,
    Embedding,
    Field,
    Indicator,
    Sparse,
    TimeParts,
    Vocabulary,
    WeightedCategory,
)
from sqlflow_elastic.models.features.layout import CategoryPlaces, Layout, NumberPlaces
from sqlflow_elastic.models.features.learners import NumberStatistics
from sqlflow_elastic.models.features.moments import is_constant
from sqlflow_elastic.models.features.raw import INTEGER_NULL, TEXT_NULL
from sqlflow_elastic.models.features.resolve import parts
from sqlflow_elastic.models.features.statistics import Statistics

Array = Literal["numbers", "ids", "weights"]

#: Numbers beyond are cut, so that float32 holds them: deviations can be tiny, and later numbers are not training's.
LIMIT = 1e30

#: Tokens that lookup layers want for "unknown", which no data can hold as a value of its own.
UNKNOWN_TEXT = "\x00unknown"
UNKNOWN_INTEGER = INTEGER_NULL + 1


@dataclass(frozen=True)
class Piece:
    """A part of one encoded array: ``tensor`` is [rows, width] and depends on these fields only."""

    array: Array
    fields: tuple[str, ...]
    tensor: Any

    @property
    def width(self) -> int:
        """How many places of the array it fills."""
        return int(self.tensor.shape[1])


@dataclass(frozen=True)
class _Ids:
    """Ids of a category as int64 [rows, length]; ``rows`` many different ones."""

    tensor: Any
    rows: int
    weights: Any = None


def raw_dtypes(columns: Sequence[Column], fields: Sequence[Field]) -> dict[str, str]:
    """How each field that the columns use enters the model.

    text: string · time: int64 · float: float64 · integer and boolean: int64 if a category reads them, else float64.
    """
    as_ids = {
        source
        for column in columns
        for source in column.sources
        if isinstance(source, str) and not isinstance(column, Dense)
    }
    used = {name for column in columns for name in column.fields()}

    def dtype(field: Field) -> str:
        if field.kind in ("text", "time"):
            return "string" if field.kind == "text" else "int64"
        return "int64" if field.name in as_ids and field.kind != "float" else "float64"

    return {field.name: dtype(field) for field in fields if field.name in used}


#: Names that Keras gives to layers and operations by itself, before it numbers them.
_TAKEN = {
    re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    for name in [*dir(keras.layers), *dir(ops), *dir(layers), "GetItem", "Functional", "Preprocessing"]
}


def raw_inputs(dtypes: Mapping[str, str]) -> dict[str, Any]:
    """A model's inputs, a tensor [rows] for each field.

    Their layers have the fields' names, but for those that Keras does not allow or uses for layers itself.
    """
    inputs = {}
    for i, (name, dtype) in enumerate(dtypes.items()):
        allowed = "/" not in name and re.sub(r"_\d+$", "", name) not in _TAKEN
        inputs[name] = keras.Input((), dtype=dtype, name=name if allowed else f"field:{i}")
        inputs[name].name = name
    return inputs


class Preprocessing:
    """The model's pieces, its raw inputs and the layout of what comes out.

    Args:
        columns: the columns in their plain form, each once.
        fields: the raw fields.
        statistics: what was learned from the training data.
    """

    def __init__(self, columns: Sequence[Column], fields: Sequence[Field], statistics: Statistics) -> None:
        self._statistics = statistics
        self.dtypes = raw_dtypes(parts(columns), fields)
        self.inputs = raw_inputs(self.dtypes)
        self.layout = Layout()
        self.pieces: list[Piece] = []
        self._known: dict[Column, _Ids] = {}
        self._split: dict[Sparse, tuple[Any, Any]] = {}
        self._add_single_numbers([c for c in columns if isinstance(c, Dense) and self._is_single(c)])
        for column in columns:
            if isinstance(column, Dense) and not self._is_single(column):
                self._add_numbers([column], _split_numbers(column)(self.inputs[column.field]))
            elif isinstance(column, TimeParts):
                self._add_numbers([column], layers.SplitTime()(self.inputs[column.field]))
            elif isinstance(column, Indicator | Embedding) and isinstance(column.category, Column):
                self._add_category(column.category)

    def model(self) -> keras.Model:
        """Raw fields, a dictionary of tensors [rows], → the encoded arrays."""
        return keras.Model(self.inputs, arrays_of(self.pieces), name="preprocessing")

    def _is_single(self, column: Dense) -> bool:
        return self.dtypes[column.field] != "string"

    def _number(self, column: Dense) -> Any:
        """The raw numbers of a column of one number, float64 [rows]."""
        raw = self.inputs[column.field]
        if not self._is_single(column):
            return ops.squeeze(_split_numbers(column)(raw), axis=1)
        return layers.ToNumber()(raw) if self.dtypes[column.field] == "int64" else raw

    def _add(self, array: Array, fields: Sequence[str], tensor: Any) -> tuple[int, ...]:
        """Add a piece; the places it fills."""
        piece = Piece(array, tuple(fields), tensor)
        start = getattr(self.layout, f"{array}_width")
        setattr(self.layout, f"{array}_width", start + piece.width)
        self.pieces.append(piece)
        return tuple(range(start, start + piece.width))

    def _add_single_numbers(self, columns: Sequence[Dense]) -> None:
        """The columns of one number field each, as one block: a layer for forty columns, not forty layers.

        Those that take a logarithm stand last, so that the block is cut in two only.
        """
        ordered = sorted(columns, key=lambda column: self._statistics.numbers[repr(column)].logarithmic[0])
        if ordered:
            self._add_numbers(ordered, ops.stack([self._number(column) for column in ordered], axis=1))

    def _add_numbers(self, columns: Sequence[Dense | TimeParts], raw: Any) -> None:
        """Standardise the float64 [rows, k] of one or more columns, and add what says that a number is missing."""
        learned = [self._statistics.numbers[repr(column)] for column in columns]
        scales = [_scale(column, statistics) for column, statistics in zip(columns, learned, strict=True)]
        numbers = _signed_log(raw, [log for statistics in learned for log in statistics.logarithmic])
        # Not Keras's Normalization: it rounds its mean to float32, which moves a timestamp by a minute.
        scale = np.concatenate([s.scale for s in scales])
        offset = np.concatenate([s.offset for s in scales])
        if (scale != 1).any() or offset.any():
            numbers = keras.layers.Rescaling(scale, offset, dtype="float64")(numbers)
        numbers = layers.FillMissing(np.concatenate([s.fill for s in scales]).tolist())(numbers)
        fields = [name for column in columns for name in column.fields()]
        places = self._add("numbers", fields, ops.cast(ops.clip(numbers, -LIMIT, LIMIT), "float32"))
        missing: dict[Column, int] = {}
        with_missing = [i for i, statistics in enumerate(learned) if statistics.missing]
        if with_missing:
            nan = ops.isnan(raw)
            if len(columns) == 1:
                nan = ops.any(nan, axis=1, keepdims=True)
            elif len(with_missing) < len(columns):
                nan = ops.take(nan, with_missing, axis=1)
            companions = self._add("numbers", fields, ops.cast(nan, "float32"))
            missing = {columns[i]: place for i, place in zip(with_missing, companions, strict=True)}
        start = 0
        for column, scaled in zip(columns, scales, strict=True):
            own = places[start : start + len(scaled.fill)]
            self.layout.numbers[column] = NumberPlaces(own, missing.get(column))
            start += len(own)

    def _add_category(self, column: Column) -> None:
        if column in self.layout.categories:
            return
        category = self._ids(column)
        ids = self._add("ids", column.fields(), ops.cast(category.tensor, "int32"))
        weights = None if category.weights is None else self._add("weights", column.fields(), category.weights)
        self.layout.categories[column] = CategoryPlaces(ids, category.rows, weights)

    def _ids(self, column: Column) -> _Ids:
        """A category's ids, the same tensor whenever it is asked for."""
        if column not in self._known:
            self._known[column] = self._build_ids(column)
        return self._known[column]

    def _build_ids(self, column: Column) -> _Ids:
        match column:
            case Vocabulary():
                return self._vocabulary(column)
            case Bucket(source=Dense() as number, boundaries=boundaries):
                raw = self._number(number)
                cut = keras.layers.Discretization(bin_boundaries=[float(b) for b in boundaries])
                rows = len(boundaries) + 1
                return self._with_null(raw, cut(ops.cast(raw, "float32")), rows, self._missing(number))
            case CategoryId(source=str() as name, n=n):
                null = n if self._statistics.nulls[name] else layers.ABSENT
                ids = layers.ToId(n, null)(self.inputs[name])
                return _Ids(_column(ids), max(n, null + 1))
            case CategoryId(source=Sparse() as sparse, n=n):
                return _Ids(layers.ToId(n)(self._elements(sparse)[0]), n)
            case CategoryId(source=Column() as inner):
                return self._ids(inner)
            case Sparse():
                return _Ids(layers.ToId(column.shape)(self._elements(column)[0]), column.shape)
            case CategoryHash(source=str() as name, n=n):
                raw = self.inputs[name]
                ids = keras.layers.Hashing(n, dtype="int64")(raw)
                return self._with_null(raw, ids, n, bool(self._statistics.nulls[name]))
            case CategoryHash(source=Sparse() as sparse, n=n):
                elements = self._elements(sparse)[0]
                ids = keras.layers.Hashing(n, dtype="int64")(elements)
                return _Ids(layers.NullId()(elements, ids), n)
            case CategoryHash(source=Column() as inner, n=n):
                ids = self._ids(inner).tensor
                hashed = keras.layers.Hashing(n, dtype="int64")(ids)
                return _Ids(ops.where(ids < 0, ops.cast(layers.ABSENT, "int64"), hashed), n)
            case WeightedCategory(category=category):
                sparse = next(part for part in parts([category]) if isinstance(part, Sparse))
                ids = self._ids(category)
                return _Ids(ids.tensor, ids.rows, self._elements(sparse)[1])
            case Cross(n=n):
                crossed = [
                    _column(self.inputs[source]) if isinstance(source, str) else self._ids(source).tensor
                    for source in column.sources
                ]
                if all(tensor.shape[1] == 1 for tensor in crossed):
                    return _Ids(keras.layers.HashedCrossing(n, dtype="int64")(crossed), n)
                return _Ids(layers.CrossLists(n)(crossed), n)
        raise TypeError(f"{column!r} is no category")

    def _vocabulary(self, column: Vocabulary) -> _Ids:
        """NULL is id 0, what training never saw id 1, the values follow."""
        values = list(self._statistics.vocabularies[repr(column)])
        raw = self.inputs[column.field]
        if self.dtypes[column.field] == "string":
            lookup = keras.layers.StringLookup(
                vocabulary=values or [UNKNOWN_TEXT + "!"], mask_token=TEXT_NULL, oov_token=UNKNOWN_TEXT
            )
        else:
            lookup = keras.layers.IntegerLookup(
                vocabulary=values or [UNKNOWN_INTEGER + 1], mask_token=INTEGER_NULL, oov_token=UNKNOWN_INTEGER
            )
        return _Ids(_column(lookup(raw)), 2 + max(1, len(values)))

    def _missing(self, column: Dense) -> bool:
        return self._statistics.numbers[repr(column)].missing > 0

    def _with_null(self, raw: Any, ids: Any, rows: int, seen: bool) -> _Ids:
        """Ids of single values [rows]; NULL has the last id if training saw one, and is absent otherwise."""
        null = rows if seen else layers.ABSENT
        return _Ids(_column(layers.NullId(null)(raw, ids)), max(rows, null + 1))

    def _elements(self, column: Sparse) -> tuple[Any, Any]:
        """The elements of lists as texts, and their weights, each [rows, length]."""
        if column not in self._split:
            length = max(1, self._statistics.lengths[repr(column)])
            split = layers.SplitList(length, column.delimiter, column.kv_delimiter)
            self._split[column] = split(self.inputs[column.field])
        return self._split[column]


def arrays_of(pieces: Sequence[Piece]) -> dict[str, Any]:
    """The encoded arrays that pieces side by side make, by name."""
    tensors: dict[str, list[Any]] = {}
    for piece in pieces:
        tensors.setdefault(piece.array, []).append(piece.tensor)
    return {name: ops.concatenate(group, axis=1) if len(group) > 1 else group[0] for name, group in tensors.items()}


def _column(tensor: Any) -> Any:
    """[rows] → [rows, 1]."""
    return ops.expand_dims(tensor, axis=1)


def _split_numbers(column: Dense) -> layers.SplitNumbers:
    return layers.SplitNumbers(column.shape, column.delimiter or ("," if column.shape > 1 else None))


def _signed_log(numbers: Any, where: Sequence[bool]) -> Any:
    """``sign(x) · log(1 + |x|)`` in the places that say so."""
    if not any(where):
        return numbers
    start = list(where).index(True)
    if not all(where[start:]):
        return ops.where(ops.convert_to_tensor(list(where)), _log(numbers), numbers)
    if start == 0:
        return _log(numbers)
    return ops.concatenate([numbers[:, :start], _log(numbers[:, start:])], axis=1)


def _log(numbers: Any) -> Any:
    return ops.sign(numbers) * ops.log1p(ops.abs(numbers))


@dataclass(frozen=True)
class _Scale:
    """How numbers are standardised, ``x · scale + offset``, and what a missing one is then; float64 [places] each."""

    scale: NDArray[np.float64]
    offset: NDArray[np.float64]
    fill: NDArray[np.float64]


def _scale(column: Dense | TimeParts, learned: NumberStatistics) -> _Scale:
    mean, deviation = np.array(learned.mean), np.array(learned.deviation)
    if isinstance(column, Dense) and not column.normalize:
        return _Scale(np.ones_like(mean), np.zeros_like(mean), mean)
    scale = 1 / np.where(is_constant(mean, deviation), 1.0, deviation)
    offset = -mean * scale
    if isinstance(column, TimeParts):  # years are standardised as the seconds are; sines and cosines stay
        cyclic = layers.TIME_PARTS - 1
        scale = np.append(scale * layers.YEAR, np.ones(cyclic))
        offset = np.append(offset, np.zeros(cyclic))
    return _Scale(scale, offset, np.zeros_like(scale))
