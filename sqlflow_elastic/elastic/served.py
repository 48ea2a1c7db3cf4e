"""A model's tables that are on servers: what they are, what a batch looks up in them, and how its graph uses the rows.

`EmbeddingBag`s over the same ids that have one optimizer are the parts of one row. All categories whose rows have the
same parts and optimizer are one table, one category's ids behind the other's: a model of many embeddings has few
tables, so steps need few operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sqlflow_elastic.elastic.optimizers import Optimizers
from sqlflow_elastic.elastic.row_optimizers import row_optimizer
from sqlflow_elastic.elastic.tables.access import Ids, Numbers, Rows, Tables
from sqlflow_elastic.elastic.tables.unique import UniqueIds
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.models.features.embedding import EmbeddingBag, Given, given, look_up
from sqlflow_elastic.models.tables.spec import Range, TableSpec

#: The array of a dataset that the ids are in.
IDS = "ids"


@dataclass(frozen=True)
class Lookup:
    """What a batch needs.

    Attributes:
        ids: of each table, the different ones, int64 [n].
        places: int32 [b, columns]: where the row of each id of the batch is among its table's.
    """

    ids: list[Ids]
    places: NDArray[np.int32]


@dataclass(frozen=True)
class Category:
    """Layers that look up the same ids.

    Attributes:
        layers: one for each part of the rows.
        optimizer: updates their tables; None of a trained model.
    """

    layers: Sequence[EmbeddingBag]
    optimizer: keras.Optimizer | None

    @property
    def columns(self) -> tuple[int, ...]:
        """Of the dataset's array of ids."""
        return self.layers[0].columns

    @property
    def range(self) -> Range:
        """What a table says of it."""
        parts = tuple(part for layer in self.layers if (part := layer.part) is not None)
        return Range(self.layers[0].name, self.layers[0].rows, parts)


@dataclass(frozen=True)
class _Bag:
    """A layer: which columns of `Lookup.places` are its own, and where in its table's rows its vector is."""

    layer: EmbeddingBag
    columns: slice
    table: int
    part: int


class ServedTables:
    """The served tables of a model.

    Args:
        tables: each with the categories whose rows it has, in the order of its ranges.

    Attributes:
        specs: what each table is.
    """

    def __init__(self, tables: Sequence[tuple[TableSpec, Sequence[Category]]]) -> None:
        self.specs = [spec for spec, _ in tables]
        self._optimizers = [categories[0].optimizer for _, categories in tables]
        every = [(table, category) for table, (_, categories) in enumerate(tables) for category in categories]
        self._columns = np.concatenate([category.columns for _, category in every]).astype(np.int64)
        self._bags: list[_Bag] = []
        start = 0
        for table, category in every:
            columns = slice(start, start + len(category.columns))
            self._bags += [_Bag(layer, columns, table, part) for part, layer in enumerate(category.layers)]
            start = columns.stop
        self._unique = UniqueIds(
            [len(category.columns) for _, category in every],
            [table for table, _ in every],
            [base for spec in self.specs for base in spec.bases[:-1]],
        )

    @classmethod
    def of(cls, model: keras.Model, optimizers: Optimizers) -> Self | None:
        """Those of a model; None if it has none.

        Args:
            model: built.
            optimizers: who updates which variables.

        Raises:
            JobError: a table has an optimizer that servers cannot run.
        """
        categories: dict[tuple[tuple[int, ...], int], Category] = {}
        owners = {id(variable): i for i, (_, variables) in enumerate(optimizers) for variable in variables}
        for layer in served_layers(model):
            owner = owners.get(id(layer.table))
            if owner is None:
                raise JobError(f"{layer.name} is on servers, and no optimizer updates it")
            before = categories.get((layer.columns, owner))
            layers = [] if before is None else before.layers
            categories[layer.columns, owner] = Category([*layers, layer], optimizers[owner][0])
        alike: dict[tuple[Any, ...], list[Category]] = {}
        for (_, owner), category in categories.items():
            seed = category.layers[0].seed
            alike.setdefault((owner, seed, *(layer.size for layer in category.layers)), []).append(category)
        tables = []
        for group in alike.values():
            rule = row_optimizer(group[0].optimizer)
            if rule is None:
                raise JobError(f"{type(group[0].optimizer).__name__} as it is set cannot update rows on servers")
            first = group[0].layers[0]
            ranges = tuple(category.range for category in group)
            tables.append((TableSpec(first.name, ranges, rule, str(first.table.dtype), first.seed), group))
        return cls(tables) if tables else None

    @classmethod
    def stored(cls, model: keras.Model, specs: Sequence[TableSpec]) -> Self:
        """Those of a trained model, whose tables are as their files say."""
        layers = {layer.stream: layer for layer in served_layers(model)}
        categories = [
            [Category([layers[part.stream] for part in each.parts], None) for each in spec.ranges] for spec in specs
        ]
        return cls(list(zip(specs, categories, strict=True)))

    def lookups(self, ids: NDArray[np.int32]) -> list[Lookup]:
        """What batches need.

        Args:
            ids: [k, b, columns]: k batches of the dataset's array of ids.
        """
        return [Lookup(*self._unique(batch)) for batch in ids[..., self._columns]]

    def no_rows(self) -> list[Numbers]:
        """Of each table: [0, width]."""
        return [np.zeros((0, spec.width), spec.dtype) for spec in self.specs]

    def inputs(self, features: dict[str, Numbers], rows: Rows) -> tuple[Any, ...]:
        """What `using` takes in a graph, read for rows of a dataset: places, then rows of each table."""
        lookup = Lookup(*self._unique(features[IDS][:, self._columns]))
        return (lookup.places, *rows.peek(lookup.ids))

    @property
    def input_specs(self) -> tuple[tf.TensorSpec, ...]:
        """The specs of `inputs`."""
        rows = [tf.TensorSpec((None, spec.width), tf.as_dtype(spec.dtype)) for spec in self.specs]
        return (tf.TensorSpec((None, len(self._columns)), tf.int32), *rows)

    # Graph code.

    def using(self, places: tf.Tensor, *rows: tf.Tensor) -> AbstractContextManager[None]:
        """Within, the model's layers look up these rows: all that have the same part of a table in one operation.

        The model is called once, within the tape that takes the gradients, if any are taken.
        """
        vectors: dict[str, Given] = {}
        for table, (spec, tensor) in enumerate(zip(self.specs, rows, strict=True)):
            for part, of_part in enumerate(tf.split(tensor, spec.widths, axis=1)):
                bags = [bag for bag in self._bags if (bag.table, bag.part) == (table, part)]
                vectors |= _together(bags, of_part, places)
        return given(vectors)

    def rates(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Of each table the learning rate, float64 [tables], and its optimizer's steps, int64 [tables]."""
        optimizers: list[Any] = self._optimizers
        return (
            tf.stack([tf.cast(each.learning_rate, tf.float64) for each in optimizers]),
            tf.stack([tf.cast(each.iterations.value, tf.int64) for each in optimizers]),
        )

    def gradients(self, of: dict[int, Any], rows: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The gradients of each table's rows, as `using` got them.

        Args:
            of: by a variable's id its gradient; those of served tables are taken out.
            rows: of each table.
        """
        slices: dict[tuple[int, int], list[tf.IndexedSlices]] = {}
        for bag in self._bags:
            gradient = of.pop(id(bag.layer.table))
            if gradient is not None:
                slices.setdefault((bag.table, bag.part), []).append(gradient)
        return [
            tf.concat([_summed(slices.get((i, part), []), width, rows[i]) for part, width in enumerate(spec.widths)], 1)
            for i, spec in enumerate(self.specs)
        ]


def _together(bags: Sequence[_Bag], rows: tf.Tensor, places: tf.Tensor) -> dict[str, Given]:
    """What each layer is given, looked up when the first one asks; the gradient is the first one's."""
    columns = tf.concat([places[:, bag.columns] for bag in bags], 1)
    lengths = [bag.columns.stop - bag.columns.start for bag in bags]
    found: list[tf.Tensor] = []

    def vectors(index: int) -> Given:
        def give(anchor: Any) -> tf.Tensor:
            if not found:
                found.extend(tf.split(look_up(anchor, rows, columns), lengths, axis=1))
            return found[index]

        return give

    return {bag.layer.name: vectors(index) for index, bag in enumerate(bags)}


def _summed(slices: Sequence[tf.IndexedSlices], width: int, rows: tf.Tensor) -> tf.Tensor:
    count = tf.shape(rows)[0]
    if not slices:
        return tf.zeros((count, width), rows.dtype)
    values = tf.cast(tf.concat([each.values for each in slices], 0), rows.dtype)
    return tf.math.unsorted_segment_sum(values, tf.concat([each.indices for each in slices], 0), count)


class CallSteps:
    """The steps of one call of a graph: their lookups, one after the other.

    Args:
        served: the tables.
        tables: where they are.
        lookups: one a step, at least one.
    """

    def __init__(self, served: ServedTables, tables: Tables, lookups: Sequence[Lookup]) -> None:
        self._served = served
        self._tables = tables
        self._lookups = lookups

    def first(self) -> list[Numbers]:
        """Each table's rows of the first step."""
        for lookup in self._lookups[:2]:
            self._tables.want(lookup.ids)
        return self._tables.rows()

    def push(self, step: int, gradients: Sequence[Numbers], rates: Numbers, iterations: NDArray[np.int64]) -> None:
        """A step's gradients of each table's rows, and each table's learning rate and optimizer's steps."""
        want = self._lookups[step + 2].ids if step + 2 < len(self._lookups) else None
        self._tables.push(gradients, list(zip(rates.tolist(), iterations.tolist(), strict=True)), want)

    def applied(self, step: int) -> list[Numbers]:
        """Return when that step is applied: each table's rows of the next one; none after the last one."""
        self._tables.applied()
        return self._tables.rows() if step + 1 < len(self._lookups) else self._served.no_rows()


class StandInTables:
    """Tables of zeros, which nothing changes."""

    def __init__(self, served: ServedTables) -> None:
        self._specs = served.specs
        self._wanted: list[Sequence[Ids]] = []

    def peek(self, ids: Sequence[Ids]) -> list[Numbers]:
        """See `Rows`."""
        return [np.zeros((len(each), spec.width), spec.dtype) for each, spec in zip(ids, self._specs, strict=True)]

    def want(self, ids: Sequence[Ids]) -> None:
        """See `Tables`."""
        self._wanted.append(ids)

    def rows(self) -> list[Numbers]:
        """See `Tables`."""
        return self.peek(self._wanted.pop(0))

    def push(
        self, gradients: Sequence[Numbers], rates: Sequence[tuple[float, int]], want: Sequence[Ids] | None = None
    ) -> None:
        """See `Tables`."""
        if want is not None:
            self._wanted.append(want)

    def applied(self) -> None:
        """See `Tables`."""

    def begin_snapshot(self, step: int) -> None:
        """See `Tables`."""

    @property
    def snapshot_step(self) -> int:
        """See `Tables`."""
        return -1

    @property
    def snapshot_failure(self) -> str:
        """See `Tables`."""
        return ""

    def snapshot(self, step: int) -> None:
        """See `Tables`."""


def served_layers(model: keras.Model) -> list[EmbeddingBag]:
    """The layers of a model whose tables are elsewhere, in the model's order."""
    return [layer for layer in model._flatten_layers() if isinstance(layer, EmbeddingBag) and layer.served]
