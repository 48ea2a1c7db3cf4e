"""The tables of a trained model by layer, whether its network holds them or they are in files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.models.artifact import Artifact
from sqlflow_elastic.models.local_tables import bags_of
from sqlflow_elastic.models.tables.spec import Range
from sqlflow_elastic.models.tables.table_file import Ids, TableFile

_CHUNK_BYTES = 4 << 20


class TrainedTables:
    """See the module's page. Layers of two networks that one program built are the same if their streams are.

    Args:
        artifact: the trained model.

    Attributes:
        seed: that rows which were never trained are drawn with; None if the network holds all rows.

    Raises: ModelStoreError: a table is missing or damaged.
    """

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._files = [] if artifact.tables is None else artifact.tables.files
        self.seed = self._files[0].spec.seed if self._files else None
        self._in_files: dict[int, _InFile] = {}
        for file in self._files:
            for each, base in zip(file.spec.ranges, file.spec.bases[:-1], strict=True):
                at = 0
                for part in each.parts:
                    self._in_files[part.stream] = _InFile(file, base, slice(at, at + part.width))
                    at += part.width

    def check(self) -> None:
        """Read all files. Raises: ModelStoreError: one is damaged."""
        for file in self._files:
            file.check()

    def count(self, stream: int, rows: int) -> int:
        """How many rows of a layer, which has so many, were trained. Raises: ModelStoreError: a file cannot be read."""
        found = self._in_files.get(stream)
        return rows if found is None else len(found.ids(0, rows))

    def chunks(self, each: Range) -> Iterator[tuple[Ids, NDArray[Any]]]:
        """Of the layers whose rows are side by side in a range of a table, all rows that were trained.

        Yields:
            Ids [n] from the range's first one on, ascending, and rows [n, width]. In a row of which only some layers'
            parts were trained, the others are what they began with.

        Raises: ModelStoreError: a file cannot be read, or the network not be built.
        """
        sources: list[_Source] = [
            self._in_files.get(part.stream) or self._in_network[part.stream] for part in each.parts
        ]
        size = max(1, _CHUNK_BYTES // (4 * sum(part.width for part in each.parts)))
        for start in range(0, each.rows, size):
            stop = min(start + size, each.rows)
            ids = np.unique(np.concatenate([source.ids(start, stop) for source in sources]))
            if len(ids):
                yield ids, np.concatenate([source.rows(ids) for source in sources], axis=1)

    @cached_property
    def _in_network(self) -> dict[int, _InNetwork]:
        bags = bags_of(self._artifact.model)
        return {stream: _InNetwork(bag.table.numpy()) for stream, bag in bags.items() if not bag.served}


class _Source(Protocol):
    """Where the rows of a layer are."""

    def ids(self, start: int, stop: int) -> Ids:
        """Those of [start, stop) that were trained, ascending."""
        ...

    def rows(self, ids: Ids) -> NDArray[Any]:
        """[n, width]."""
        ...


@dataclass(frozen=True)
class _InFile:
    file: TableFile
    base: int
    columns: slice

    def ids(self, start: int, stop: int) -> Ids:
        return self.file.ids(self.base + start, self.base + stop) - self.base

    def rows(self, ids: Ids) -> NDArray[Any]:
        return self.file.rows(self.base + ids)[:, self.columns]


@dataclass(frozen=True)
class _InNetwork:
    values: NDArray[Any]

    def ids(self, start: int, stop: int) -> Ids:
        return np.arange(start, stop)

    def rows(self, ids: Ids) -> NDArray[Any]:
        return self.values[ids]
