"""All tables of one server, and the step that they stand at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables.sharding import SHARDS, owners, places
from sqlflow_elastic.elastic.tables.snapshots import Snapshots
from sqlflow_elastic.elastic.tables.table import Positions, Table, Undo
from sqlflow_elastic.models.tables.spec import TableSpec

Numbers = NDArray[Any]


class TableStore:
    """See the module's page.

    Args:
        name: the server's.
        snapshots: makes and reads snapshots of the tables.

    Attributes:
        name: the server's.
        tables: in the order of their specs; none before the first `stand_at`.
        step: steps applied; -1 for nothing.
        servers: the names of all servers of the world.
    """

    def __init__(self, name: str, snapshots: Snapshots) -> None:
        self.tables: list[Table] = []
        self.step = -1
        self.servers: tuple[str, ...] = ()
        self.name = name
        self._snapshots = snapshots
        self._shards = np.zeros(SHARDS, np.bool_)
        self._undo: list[Undo] | None = None

    @property
    def specs(self) -> list[TableSpec]:
        """Of all tables."""
        return [table.spec for table in self.tables]

    @property
    def memory(self) -> int:
        """Bytes of all tables."""
        return sum(table.memory for table in self.tables)

    @property
    def rows(self) -> int:
        """Of all tables."""
        return sum(map(len, self.tables))

    def stand_at(self, step: int, specs: Sequence[TableSpec], servers: Sequence[str], new: bool) -> None:
        """Have the rows of this server's shards as they were after so many steps.

        The step that was applied last is taken back if need be; for others, and for shards that were not this server's,
        the snapshot of that step is read.

        Args:
            step: how many.
            specs: of all tables.
            servers: of the world; this one is among them.
            new: nothing was trained yet: no row is there.

        Raises:
            SnapshotError: there is no such snapshot, or it is damaged.
        """
        self._snapshots.cancel()
        own = owners(servers) == list(servers).index(self.name)
        if self.servers != tuple(servers):
            self.servers = tuple(servers)
            self._snapshots.forget()
        if self.specs != list(specs):
            self.tables, self.step = [Table(spec) for spec in specs], -1
        self._snapshots.of(self.tables)
        if self.step == step + 1 and self._undo is not None:
            self.step_back()
        moved = (own != self._shards).any()
        if new or self.step != step:
            self._empty()
            if not new:
                self._snapshots.load(step, own)
        elif moved:
            lacking = own & ~self._shards
            self.step = -1  # until all is there
            for table in self.tables:
                table.keep(own)
            if lacking.any():
                self._snapshots.load(step, lacking)
        if moved:
            self._undo = None
        self.step, self._shards = step, own

    def stand_alone(self, specs: Sequence[TableSpec], servers: Sequence[str], newest: int | None = None) -> None:
        """Have rows of this server's shards, as new as there are any: for steps that wait for nobody.

        A shard belongs to the server at the same place among all, so that a successor takes over its predecessor's.
        Rows that are here stay; others are read from the newest snapshot, if there is one.

        Args:
            specs: of all tables.
            servers: their names; this one's is among them.
            newest: the step of the newest snapshot of all servers; None if there is none.

        Raises:
            SnapshotError: the snapshot is damaged.
        """
        self._snapshots.cancel()
        own = owners(places(len(servers))) == list(servers).index(self.name)
        if self.servers != tuple(servers):
            self.servers = tuple(servers)
            self._snapshots.forget()
        if self.specs != list(specs):
            self.tables, self.step = [Table(spec) for spec in specs], -1
        self._snapshots.of(self.tables)
        if self.step < 0:
            self._empty()
            self._shards = np.zeros(SHARDS, np.bool_)
        lacking = own & ~self._shards
        if (own != self._shards).any():
            before, self.step = self.step, -1  # until all is there
            for table in self.tables:
                table.keep(own)
            if newest is not None and lacking.any():
                self._snapshots.load(newest, lacking)
            self.step = max(before, 0 if newest is None else newest)
        self._undo, self._shards = None, own

    def _empty(self) -> None:
        self.step, self._undo = -1, None
        for table in self.tables:
            table.clear()
        self._snapshots.forget()

    def apply(
        self, pushes: Sequence[tuple[Sequence[Positions], Sequence[Numbers]]], rates: Sequence[tuple[float, int]]
    ) -> None:
        """Apply one step.

        Args:
            pushes: of each worker: of each table, positions and gradients.
            rates: of each table, learning rate and optimizer's steps.
        """
        self._undo = [
            table.update([push[0][i] for push in pushes], [push[1][i] for push in pushes], *rates[i])
            for i, table in enumerate(self.tables)
        ]
        self.step += 1
        for i, undo in enumerate(self._undo):
            self._snapshots.noticed(i, undo)

    def step_back(self) -> None:
        """Take back the step that was applied last."""
        assert self._undo is not None  # noqa: S101 - callers look
        for table, undo in zip(self.tables, self._undo, strict=True):
            table.undo(undo)
            table.mark_changed(undo.positions)
        self._undo = None
        self.step -= 1
        if self._snapshots.step > self.step:
            self._snapshots.step = -1
