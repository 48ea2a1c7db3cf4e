"""A worker's side where steps wait for nobody: rows for gradients, with each server in one exchange."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np

from sqlflow_elastic.elastic.comm.base import Place
from sqlflow_elastic.elastic.tables.connected import Connected, Ids, Numbers, dial_all, rates_of
from sqlflow_elastic.elastic.tables.link import Link
from sqlflow_elastic.elastic.tables.lookup import Lookup
from sqlflow_elastic.elastic.tables.sharding import places
from sqlflow_elastic.elastic.tables.wire import GRADIENTS, LOOKUP, YIELDS, Header, Kind, message
from sqlflow_elastic.models.tables.spec import TableSpec

_FIGURES_BYTES = 4 * 8


class LoneSession(Connected):
    """The servers of a job whose workers take steps alone; made by `join`. See `Connected`."""

    def __init__(self, links: Sequence[Link], specs: Sequence[TableSpec]) -> None:
        super().__init__(links, places(len(links)), specs)
        self._last: Lookup | None = None
        self._next: Lookup | None = None
        self._number = 0
        self._waits_for: set[int] = set()

    @property
    def step(self) -> int:
        """How many steps all workers have taken, as far as the first server has told."""
        return self.figures[0].step

    def exchange(
        self,
        gradients: Sequence[Numbers] | None = None,
        rates: Sequence[tuple[float, int]] = (),
        want: Sequence[Ids] | None = None,
    ) -> list[Numbers]:
        """Have gradients applied, and get the rows for the next step.

        Args:
            gradients: of the rows that the exchange before this one returned, of each table [n, width]; None for none.
            rates: of each table its optimizer's learning rate and the steps that it has taken.
            want: of each table the ids of the next step, all different; None if there is none yet.

        Returns:
            The rows, of each table [n, width]; [0, width] if none were wanted.

        Blocks until all servers have applied the gradients, and no other worker is too far behind.

        Raises:
            WorldBroken: see `Connected`. Whether the gradients were applied is not known then.
            RuntimeError: there are gradients, and no rows that they belong to.
        """
        last = self._last
        if gradients is not None and last is None:
            raise RuntimeError("there are gradients of no rows")
        self._number += 1
        self._last, self._next = None, None if want is None else self._lookup(want)
        self._waits_for = set(range(len(self._links)))
        for server, link in enumerate(self._links):
            parts, tag = [], 0
            if gradients is not None:
                parts, tag = rates_of(rates), GRADIENTS
            if want is not None and self._next is not None:
                parts, tag = [*parts, *self._ids_for(server, self._next, want)], tag | LOOKUP
            if gradients is not None and last is not None:
                parts += self._rows_for(server, last, gradients)
            link.send(message(Kind.EXCHANGE, self._number, parts, tag), self._receive)
        self._wait(lambda: not self._waits_for)
        self._last = self._next
        return (
            [np.empty((0, spec.width), spec.dtype) for spec in self._specs] if self._last is None else self._last.rows
        )

    def offer_snapshot(self, step: int) -> None:
        """Like `begin_snapshot`, but for servers that have one under way."""
        self._begin_snapshot(step, YIELDS)

    def idle(self) -> None:
        """This worker waits for work: no other one waits for it until its next exchange."""
        self._last = None
        for link in self._links:
            link.send(message(Kind.IDLE, 0), self._receive)

    def assign(self, table: int, ids: Ids, rows: Numbers) -> None:
        """Say what rows begin with; for those that are there already it has no effect.

        Args:
            table: which, an index.
            ids: int64 [n], all different.
            rows: [n, width].
        """
        every = [ids if i == table else np.empty(0, np.int64) for i in range(len(self._specs))]
        numbers = [
            rows.astype(spec.dtype) if i == table else np.empty((0, spec.width), spec.dtype)
            for i, spec in enumerate(self._specs)
        ]
        lookup = self._lookup(every)
        for server, link in enumerate(self._links):
            parts = [*self._ids_for(server, lookup, every), *self._rows_for(server, lookup, numbers)]
            link.send(message(Kind.ASSIGN, 0, parts), self._receive)

    def _take(self, server: int, header: Header, body: memoryview) -> None:
        match header.kind:
            case Kind.HELD:
                pass
            case Kind.GIVEN:
                self._take_figures(server, body[:_FIGURES_BYTES])
                if self._next is not None:
                    self._next.put(server, self._format, body[_FIGURES_BYTES:])
                self._waits_for.discard(server)
            case _:
                super()._take(server, header, body)


def join(
    token: bytes,
    servers: Sequence[tuple[str, str]],
    specs: Sequence[TableSpec],
    version: int,
    worker: str,
    staleness: int,
    *,
    seconds: float,
    deadline: float = 30.0,
    opened: Callable[[Link], None] = lambda link: None,
) -> LoneSession:
    """Connect to all servers of a job, to take steps that wait for nobody.

    Args:
        token: the job's.
        servers: names and addresses, in the order that all workers have; a successor is in the place of the one before.
        specs: of all tables.
        version: of this list of servers; grows with each other one. Who has an older one is sent away.
        worker: this worker's name.
        staleness: so many steps a worker may be ahead of the slowest one.
        seconds, deadline, opened: see `client.enter`.

    Raises:
        WorldBroken: a server is not there, or knows of a later list.
        JobError: rows that are needed cannot be read.
    """
    said = {
        "worker": worker,
        "staleness": staleness,
        "servers": [name for name, _ in servers],
        "specs": [spec.to_json() for spec in specs],
    }
    entering = message(Kind.ENTER, 0, [json.dumps(said).encode()])
    links, _ = dial_all(token, servers, Place(version, 0, 1, ""), entering, seconds, deadline, opened)
    return LoneSession(links, specs)
