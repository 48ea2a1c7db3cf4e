"""Checkpoints of a training whose tables were elsewhere: with the workers, or on servers.

A checkpoint of a training that holds its tables has them among its arrays, one of a training with servers has its rows
in a snapshot of theirs. Either is made into the other here. Rows that nobody has touched are in no snapshot: they are
what they begin with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.checkpoints import Checkpoint
from sqlflow_elastic.elastic.optimizers import Optimizers
from sqlflow_elastic.elastic.row_updates import row_rule
from sqlflow_elastic.elastic.tables.segments import Ids, Numbers
from sqlflow_elastic.elastic.tables.snapshots import SnapshotError, manifests_of, rows_of
from sqlflow_elastic.elastic.tables.whole_snapshot import write_whole_snapshot
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.models.features.embedding import EmbeddingBag
from sqlflow_elastic.models.local_tables import bags_of
from sqlflow_elastic.models.tables.initial import first_rows, initial_rows, with_first_slots
from sqlflow_elastic.models.tables.spec import TableSpec

#: Names of groups of arrays in checkpoints.
MODEL, OPTIMIZER, BEST = "model", "optimizer", "best"
_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class _Table:
    """Where a layer's table is among the model's variables, and its slots among the optimizers'."""

    bag: EmbeddingBag
    weights: int
    slots: tuple[int, ...]

    @property
    def names(self) -> list[str]:
        """Of the arrays: the weights, then the slots as the row rule has them."""
        return [f"{MODEL}/{self.weights}", *(f"{OPTIMIZER}/{slot}" for slot in self.slots)]


class PlacedTables:
    """The tables of a training that could be with workers or on servers.

    Args:
        model: built.
        optimizers: built, who updates which of its variables.
        variables: the optimizers' state, in the order in which checkpoints have it.
        specs: of the tables that are on servers now.
        folder: where servers' snapshots are; None for a training that has no servers in all its life.

    Attributes:
        specs: see above.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizers: Optimizers,
        variables: Sequence[keras.Variable],
        specs: Sequence[TableSpec],
        folder: Path | None,
    ) -> None:
        self.specs = specs
        self._folder = folder
        of_model = {id(variable): i for i, variable in enumerate(model.variables)}
        of_optimizers = {id(variable): i for i, variable in enumerate(variables)}
        owners: dict[int, Any] = {id(variable): optimizer for optimizer, owned in optimizers for variable in owned}
        self._tables: dict[int, _Table] = {}
        for stream, bag in bags_of(model).items():
            optimizer = owners.get(id(bag.table))
            rule = None if optimizer is None else row_rule(optimizer)
            if bag.part is not None and optimizer is not None and rule is not None:
                index = optimizer._get_variable_index(bag.table)
                slots = tuple(of_optimizers[id(slot[index])] for slot in rule.slots(optimizer))
                self._tables[stream] = _Table(bag, of_model[id(bag.table)], slots)

    @property
    def description(self) -> list[dict[str, Any]]:
        """What a checkpoint says of where the tables are, as JSON's types."""
        return [spec.to_json() for spec in self.specs]

    def shape(self, group: str, index: int, variable: keras.Variable) -> list[int]:
        """A variable's, wherever its table is."""
        for table in self._tables.values():
            if f"{group}/{index}" in table.names:
                return [table.bag.rows, table.bag.size]
        return list(variable.shape)

    def converted(self, checkpoint: Checkpoint) -> Checkpoint:
        """A checkpoint of this training as if the tables had been where they are now; for one process at a time.

        For tables that go to servers a snapshot of the checkpoint's step is written, and of the best weights' one.

        Raises:
            JobError: a snapshot that it needs is not there, or damaged.
            OSError: the disk is full.
        """
        description = checkpoint.description
        was = [TableSpec.from_json(each) for each in description["tables"]]
        if was == list(self.specs):
            return checkpoint
        arrays, best = dict(checkpoint.arrays), description["position"]["best_step"] if description["best"] else None
        try:
            self._fill(arrays, was, checkpoint.step, best)
        except SnapshotError as error:
            raise JobError(f"training cannot go on from step {checkpoint.step}: {error}") from error
        self._give_away(arrays, checkpoint.step, best)
        return dataclasses.replace(checkpoint, arrays=arrays, description={**description, "tables": self.description})

    def _fill(self, arrays: dict[str, Any], was: Sequence[TableSpec], step: int, best: int | None) -> None:
        """Put tables that were on servers into the arrays."""
        for stream, values in self._read(was, step).items():
            arrays.update(zip(self._tables[stream].names, values, strict=True))
        if best is not None:
            for stream, (weights, *_) in self._read(was, best).items():
                arrays[f"{BEST}/{self._tables[stream].weights}"] = weights

    def _read(self, specs: Sequence[TableSpec], step: int) -> dict[int, list[NDArray[Any]]]:
        """Of each layer by its stream: all rows, and those of each slot."""
        found: dict[int, list[NDArray[Any]]] = {}
        manifests = [] if self._folder is None or not specs else manifests_of(self._folder, step)
        for index, spec in enumerate(specs):
            for each in spec.ranges:
                for part in each.parts:
                    slots = [np.full((each.rows, part.width), v, spec.dtype) for v in spec.optimizer.initial_slots]
                    found[part.stream] = [initial_rows(part, spec.seed, np.arange(each.rows), spec.dtype), *slots]
            assert self._folder is not None  # noqa: S101 - tables were on servers
            for ids, whole in rows_of(self._folder, manifests, index, spec):
                _put(spec, found, ids, whole)
        return found

    def _give_away(self, arrays: dict[str, Any], step: int, best: int | None) -> None:
        """Take tables that are on servers now out of the arrays, into snapshots of theirs."""
        if not self.specs:
            return
        assert self._folder is not None  # noqa: S101 - tables are on servers
        of_step = {stream: [arrays[name] for name in table.names] for stream, table in self._tables.items()}
        if best is not None and best != step:
            of_best = {stream: [arrays[f"{BEST}/{table.weights}"]] for stream, table in self._tables.items()}
            write_whole_snapshot(self._folder, best, _changed(self.specs, of_best))
        write_whole_snapshot(self._folder, step, _changed(self.specs, of_step))
        for table in (self._tables[stream] for spec in self.specs for stream in spec.streams):
            for name in (*table.names, *([] if best is None else [f"{BEST}/{table.weights}"])):
                arrays[name] = arrays[name][:0]


def _put(spec: TableSpec, found: Mapping[int, Sequence[NDArray[Any]]], ids: Ids, whole: Numbers) -> None:
    """Put rows of a table into the arrays of its layers."""
    for part, places, own, columns in spec.parts_of(ids):
        for slot, values in enumerate(found[part.stream]):
            values[own] = whole[places, slot * spec.width :][:, columns]


def _changed(
    specs: Sequence[TableSpec], of: Mapping[int, Sequence[NDArray[Any]]]
) -> Iterator[tuple[int, Ids, Numbers]]:
    """All rows of tables that are not as they begin, with slots; those that are not given are as they begin."""
    for index, spec in enumerate(specs):
        size = max(1, _CHUNK_BYTES // spec.row_bytes)
        for each, base in zip(spec.ranges, spec.bases[:-1], strict=True):
            given = [[np.asarray(array) for array in of[part.stream]] for part in each.parts]
            for start in range(0, each.rows, size):
                ids = np.arange(base + start, base + min(start + size, each.rows))
                first = with_first_slots(spec, first_rows(spec, ids))
                whole = first.copy()
                numbers = [arrays[slot][start : start + size] for slot in range(len(given[0])) for arrays in given]
                whole[:, : len(given[0]) * spec.width] = np.concatenate(numbers, axis=1)
                changed = (whole != first).any(axis=1)
                yield index, ids[changed], whole[changed]
