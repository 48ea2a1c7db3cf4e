"""Rows that a worker has asked several servers for, put together as they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables.wire import Format
from sqlflow_elastic.models.tables.spec import TableSpec

Ids = NDArray[np.int64]
Numbers = NDArray[Any]


class Lookup:
    """Rows that are awaited.

    Args:
        specs: of the tables.
        ids: of each table.
        places: of each server and table, which of the ids are its own.

    Attributes:
        rows: of each table, [n, width], filled in as they come.
    """

    def __init__(self, specs: Sequence[TableSpec], ids: Sequence[Ids], places: list[list[NDArray[np.int64]]]) -> None:
        self.places = places
        self.rows = [np.empty((len(each), spec.width), spec.dtype) for each, spec in zip(ids, specs, strict=True)]
        self._early: dict[int, list[NDArray[np.bool_]]] = {}
        self._lacking = {server for server, own in enumerate(places) if sum(map(len, own))}

    @property
    def complete(self) -> bool:
        """Whether all rows are there."""
        return not self._lacking

    def counts(self, server: int) -> list[int]:
        """How many rows of each table come from a server."""
        return [len(own) for own in self.places[server]]

    def put(self, server: int, format: Format, body: memoryview) -> None:
        """All rows of a server."""
        for table, rows in enumerate(format.read_rows(body, self.counts(server))):
            self.rows[table][self.places[server][table]] = rows
        self._lacking.discard(server)

    def put_early(self, server: int, format: Format, body: memoryview) -> None:
        """Some rows of a server, and which they are."""
        counts = self.counts(server)
        size = -(-sum(counts) // 8)
        bits = np.unpackbits(np.frombuffer(body[:size], np.uint8), count=sum(counts)).view(np.bool_)
        early = self._early[server] = np.split(bits, np.cumsum(counts)[:-1])
        self._some(server, format, body[size:], early)
        if bits.all():
            self._lacking.discard(server)

    def put_late(self, server: int, format: Format, body: memoryview) -> None:
        """The other rows of a server."""
        self._some(server, format, body, [~early for early in self._early[server]])
        self._lacking.discard(server)

    def _some(self, server: int, format: Format, body: memoryview, chosen: Sequence[NDArray[np.bool_]]) -> None:
        for table, rows in enumerate(format.read_rows(body, [int(each.sum()) for each in chosen])):
            self.rows[table][self.places[server][table][chosen[table]]] = rows
