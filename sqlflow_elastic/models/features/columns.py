"""Raw fields, feature columns and labels: what the analyst or the derivation asked for.

Frozen values without TensorFlow. ``repr`` of each is the text that a generated program contains, `to_json` and
`from_json` are the form in a stored model, and `Column.check` tells the compiler what does not fit.

Columns are of three sorts. *Numbers* (`Dense`, `TimeParts`) are numbers of the row. *Categories* (`Sparse`, `Bucket`,
`CategoryId`, `Vocabulary`, …) are ids of the row: one, or a list of them. `Indicator` and `Embedding` turn a category's
ids into numbers inside the network.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from sqlflow_elastic.models.features.nodes import Node, literal

Kind = Literal["float", "integer", "text", "time", "boolean"]
"""What a raw field holds: ``time`` is a date or a timestamp; a decimal with digits after the point is a ``float``."""

KINDS: tuple[Kind, ...] = get_args(Kind)

ClassValue = int | str | bool

COMBINERS = ("sum", "mean", "sqrtn")
NUMBER_TYPES = frozenset({"float", "float32", "float64", "double", "int", "int32", "int64", "bigint"})
# fmt: off
INITIALIZERS = frozenset({
    "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "lecun_normal", "lecun_uniform", "normal",
    "ones", "orthogonal", "random_normal", "random_uniform", "truncated_normal", "uniform", "variance_scaling", "zeros",
})
# fmt: on


@dataclass(frozen=True, repr=False)
class Field(Node):
    """A raw column of the SELECT that features or the label are made of."""

    name: str
    kind: Kind


class Column(Node):
    """A feature column."""

    sql: ClassVar[str]
    """Its name in a COLUMN clause."""

    @property
    def sources(self) -> tuple[str | Column, ...]:
        """What it is made of, names of raw fields or columns: its first argument."""
        first = getattr(self, dataclasses.fields(self)[0].name)  # type: ignore[arg-type]
        return first if isinstance(first, tuple) else (first,)

    def fields(self) -> tuple[str, ...]:
        """Names of the raw fields it reads, each once, in order."""
        names = [[s] if isinstance(s, str) else s.fields() for s in self.sources]
        return tuple(dict.fromkeys(name for group in names for name in group))

    def check(self, kinds: Mapping[str, Kind]) -> list[str]:
        """What is wrong with it over fields of these kinds, a sentence each; empty when nothing is."""
        problems = [f"there is no field '{s}'" for s in self.sources if isinstance(s, str) and s not in kinds]
        for source in self.sources:
            if isinstance(source, Column):
                problems += source.check(kinds)
        return problems or self._problems(kinds)

    def _problems(self, kinds: Mapping[str, Kind]) -> list[str]:
        """What is wrong with this column itself, its sources being right."""
        raise NotImplementedError


class Category(Column):
    """A column whose values are ids."""


Source = str | Column


def _wrong_kind(column: Column, name: str, kind: Kind, allowed: Sequence[Kind], hint: str = "") -> list[str]:
    if kind in allowed:
        return []
    return [f"{column.sql} cannot read field '{name}', which is of kind {kind}{'; ' + hint if hint else ''}"]


def _below(column: Column, **values: int) -> list[str]:
    return [f"{column.sql}: {name} must be at least 1, not {value}" for name, value in values.items() if value < 1]


def _delimiters(column: Column, **values: str | None) -> list[str]:
    return [f"{column.sql}: {name} must not be empty" for name, value in values.items() if value == ""]


def _category_problems(column: Column, source: Source, kinds: Mapping[str, Kind]) -> list[str]:
    """Problems of a source whose values shall be the categories themselves."""
    if isinstance(source, Category):
        return []
    if isinstance(source, str):
        return _wrong_kind(
            column,
            source,
            kinds[source],
            ("integer", "text", "time", "boolean"),
            f"cut it into ranges with BUCKET({source}, [boundaries])",
        )
    return [f"{column.sql} needs a category, and {source.sql} is none"]


@dataclass(frozen=True, repr=False)
class Dense(Column):
    """``shape`` numbers a row: a number, or a text of numbers separated by ``delimiter`` (comma if not given).

    ``normalize`` standardises them with the mean and deviation that the data has, after a signed ``log1p`` where the
    data is extremely skewed. A NULL is the mean, with a 0/1 companion if the training data had NULLs.
    """

    sql: ClassVar[str] = "DENSE"
    field: str
    shape: int = 1
    delimiter: str | None = None
    dtype: str = "float32"
    normalize: bool = True

    def _problems(self, kinds: Mapping[str, Kind]) -> list[str]:
        kind = kinds[self.field]
        problems = _below(self, shape=self.shape) + _delimiters(self, delimiter=self.delimiter)
        if self.dtype not in NUMBER_TYPES:
            problems.append(f"{self.sql}: '{self.dtype}' is not a type of numbers; use float32 or int64")
        if self.shape > 1 and kind != "text":
            problems.append(f"{self.sql}: {self.shape} numbers need a text field, and '{self.field}' is of kind {kind}")
        hint = f"leave {self.sql} away to get its year, month, day and hour"
        return problems + _wrong_kind(self, self.field, kind, ("float", "integer", "boolean", "text"), hint)


@dataclass(frozen=True, repr=False)
class TimeParts(Column):
    """Year, month, day of month, day of week and hour of a date or timestamp; the cyclic ones as sine and cosine."""

    sql: ClassVar[str] = "TIME_PARTS"
    field: str

    def _problems(self, kinds: Mapping[str, Kind]) -> list[str]:
        return _wrong_kind(self, self.field, kinds[self.field], ("time",))


@dataclass(frozen=True, repr=False)
class Sparse(Category):
    """A text of ids below ``shape``, ``"3,5,7"``; with a ``kv_delimiter`` of ids and weights, ``"0:0.2,1:0.3"``.

    NULL and the empty text are the empty list.
    """

    sql: ClassVar[str] = "SPARSE"
    field: str
    shape: int
    delimiter: str = ","
    dtype: str = "int64"
    kv_delimiter: str | None = None
    key_dtype: str = "int64"

    def _problems(self, kinds: Mapping[str, Kind]) -> list[str]:
        problems = _below(self, shape=self.shape)
        problems += _delimiters(self, delimiter=self.delimiter, kv_delimiter=self.kv_delimiter)
        if self.delimiter == self.kv_delimiter:
            problems.append(f"{self.sql}: the two delimiters must differ, both are '{self.delimiter}'")
        return problems + _wrong_kind(self, self.field, kinds[self.field], ("text", "integer"))


@dataclass(frozen=True, repr=False)
class Vocabulary(Category):
    """The field's distinct values, learned from the data: the ``max_values`` most frequent ones each get an id.

    The others share one, NULL has its own.
    """

    sql: ClassVar[str] = "VOCABULARY"
    field: str
    max_values: int = 100_000

    def _problems(self, kinds: Mapping[str, Kind]) -> list[str]:
        return _below(self, max_values=self.max_values) + _category_problems(self, self.field, kinds)


@dataclass(frozen=True, repr=False)
class Bucket(Category):
    """The range a number falls into: id i if ``boundaries[i-1] <= number < boundaries[i]``."""

    sql: ClassVar[str] = "BUCKET"
    source: Source
    boundaries: Sequence[float]

    def _problems(self, kinds: Mapping[str, Kind]) -> list[str]:
        problems = []
        if not self.boundaries:
            problems.append(f"{self.sql} needs at least one boundary")
        if any(b <= a for a, b in zip(self.boundaries, self.boundaries[1:], strict=False)):
            problems.append(f"{self.sql}: the boundaries {literal(self.boundaries)} do not increase")
        if isinstance(self.source, Dense):
            if self.source.shape != 1:
                problems.append(f"{self.sql} takes one number a row, and {self.source!r} gives {self.source.shape}")
        elif isinstance(self.source, Column):
            problems.append(f"{self.sql} needs a number, and {self.source.sql} is none")
        else:
            problems += _wrong_kind(self, self.source, kinds[self.source], ("float", "integer"))
        return problems


@dataclass(frozen=True, repr=False)
class CategoryId(Category):
    """Ids in [0, n): an integer, a text of ids ``"3,5,7"``, or those of another column."""

    sql: ClassVar[str] = "CATEGORY_ID"
    source: Source
    n: int

    def _problems(self, kinds: Mapping[str, Kind]) -> list[str]:
        problems = _below(self, n=self.n)
        if isinstance(self.source, str):
            hint = f"cut it into ranges with BUCKET({self.source}, [boundaries])"
            problems += _wrong_kind(self, self.source, kinds[self.source], ("integer", "text", "boolean"), hint)
        elif isinstance(self.source, Dense):
            hint = f"cut it into ranges with BUCKET({self.source.field}, [boundaries])"
            problems += _wrong_kind(
                self, self.source.field, kinds[self.source.field], ("integer", "text", "boolean"), hint
            )
        elif not isinstance(self.source, Sparse | Bucket):
            problems.append(
                f"{self.sql} needs a field, DENSE, SPARSE or BUCKET, and {self.source.sql} is none of these"
            )
        return problems


@dataclass(frozen=True, repr=False)
class SeqCategoryId(CategoryId):
    """As `CategoryId`, and the order of the list matters: networks over sequences see one step for each id."""

    sql: ClassVar[str] = "SEQ_CATEGORY_ID"


@dataclass(frozen=True, repr=False)
class CategoryHash(Category):
    """The value's hash, an id in [0, n)."""

    sql: ClassVar[str] = "CATEGORY_HASH"
    source: Source
    n: int

    def _problems(self, kinds: Mapping[str, Kind]) -> list[str]:
        source = self.source.field if isinstance(self.source, Dense) and self.source.shape == 1 else self.source
        return _below(self, n=self.n) + _category_problems(self, source, kinds)


@dataclass(frozen=True, repr=False)
class WeightedCategory(Category):
    """A category over a `Sparse` with key:value pairs, each id counting with its weight."""

    sql: ClassVar[str] = "WEIGHTED_CATEGORY"
    category: Column

    def _problems(self, kinds: Mapping[str, Kind]) -> list[str]:
        inner = self.category.source if isinstance(self.category, CategoryId | CategoryHash) else self.category
        if isinstance(inner, Sparse) and inner.kv_delimiter is not None:
            return []
        return [f"{self.sql} needs ids with weights: a category over SPARSE with a delimiter for key and value"]


@dataclass(frozen=True, repr=False)
class Cross(Category):
    """The combination of several categories, hashed to an id in [0, n)."""

    sql: ClassVar[str] = "CROSS"
    columns: Sequence[Source]
    n: int

    def _problems(self, kinds: Mapping[str, Kind]) -> list[str]:
        problems = _below(self, n=self.n)
        if len(self.columns) < 2:
            problems.append(f"{self.sql} needs at least two columns")
        for source in self.columns:
            if isinstance(source, WeightedCategory):
                problems.append(f"{self.sql} cannot combine {source.sql}: a combination has no weight")
            single = isinstance(source, Dense) and source.shape == 1
            problems += _category_problems(self, source.field if single else source, kinds)  # type: ignore[union-attr]
        return problems


@dataclass(frozen=True, repr=False)
class Indicator(Column):
    """A 0/1 number for each id of the category (a count, or the weight, where a list repeats one)."""

    sql: ClassVar[str] = "INDICATOR"
    category: Source

    def _problems(self, kinds: Mapping[str, Kind]) -> list[str]:
        return _category_problems(self, self.category, kinds)


@dataclass(frozen=True, repr=False)
class Embedding(Column):
    """``size`` learned numbers for each id of the category, combined over a list by sum, mean or sqrtn."""

    sql: ClassVar[str] = "EMBEDDING"
    category: Source
    size: int
    combiner: str = "sum"
    initializer: str | None = None

    def _problems(self, kinds: Mapping[str, Kind]) -> list[str]:
        problems = _below(self, size=self.size)
        if self.combiner not in COMBINERS:
            problems.append(f"{self.sql}: the combiner must be sum, mean or sqrtn, not '{self.combiner}'")
        if self.initializer is not None and self.initializer not in INITIALIZERS:
            problems.append(f"{self.sql}: there is no initializer '{self.initializer}'")
        return problems + _category_problems(self, self.category, kinds)


class Label(Node):
    """What a model learns to say."""

    field: str

    def check(self, kinds: Mapping[str, Kind]) -> list[str]:
        """What is wrong with it over fields of these kinds; empty when nothing is."""
        if self.field not in kinds:
            return [f"there is no field '{self.field}'"]
        return self._problems(kinds[self.field])

    def _problems(self, kind: Kind) -> list[str]:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class ClassLabel(Label):
    """A class: integers, strings or booleans; learned from the data, in order, if ``classes`` is None."""

    field: str
    classes: Sequence[ClassValue] | None = None

    def _problems(self, kind: Kind) -> list[str]:
        problems = []
        if self.classes is not None and len(self.classes) < 2:
            problems.append(f"the label '{self.field}' needs at least two classes")
        if self.classes is not None and len(set(self.classes)) != len(self.classes):
            problems.append(f"the label '{self.field}' has a class twice")
        if kind == "time":
            problems.append(f"the label '{self.field}' is of kind time, which is not a class")
        return problems


@dataclass(frozen=True, repr=False)
class NumberLabel(Label):
    """``shape`` numbers: a number, or a text of numbers separated by commas."""

    field: str
    shape: int = 1

    def _problems(self, kind: Kind) -> list[str]:
        if self.shape < 1:
            return [f"the label '{self.field}' needs a shape of at least 1, not {self.shape}"]
        if kind not in (("float", "integer", "boolean", "text") if self.shape == 1 else ("text",)):
            numbers = "a number" if self.shape == 1 else f"a text of {self.shape} numbers"
            return [f"the label '{self.field}' is of kind {kind}, not {numbers}"]
        return []
