"""A worker's side: the servers of a world, asked for rows and given gradients."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from sqlflow_elastic.elastic.comm import WorldBroken
from sqlflow_elastic.elastic.comm.base import Place
from sqlflow_elastic.elastic.tables.connected import Connected, Ids, Numbers, dial_all, rates_of
from sqlflow_elastic.elastic.tables.link import Link
from sqlflow_elastic.elastic.tables.lookup import Lookup
from sqlflow_elastic.elastic.tables.wire import Header, Kind, message
from sqlflow_elastic.models.tables.spec import TableSpec


class Session(Connected):
    """The servers of one world, all at one step; made by `enter`. See `Connected`."""

    def __init__(self, links: Sequence[Link], servers: Sequence[str], specs: Sequence[TableSpec], step: int) -> None:
        super().__init__(links, servers, specs)
        self._step = step
        self._wanted = step
        self._lookups: dict[int, Lookup] = {}
        self._applied = [step for _ in links]

    def want(self, ids: Sequence[Ids]) -> None:
        """Ask for rows: of the next step, and then of the one after it.

        Args:
            ids: of each table, all different.
        """
        self._wanted += 1
        lookup = self._lookups[self._wanted] = self._lookup(ids)
        for server, link in enumerate(self._links):
            link.send(message(Kind.WANT, self._wanted, self._ids_for(server, lookup, ids)), self._receive)

    def rows(self) -> list[Numbers]:
        """The rows of the next step, [n, width] of each table; blocks until they are there."""
        lookup = self._lookups[self._step + 1]
        self._wait(lambda: lookup.complete)
        return lookup.rows

    def push(
        self, gradients: Sequence[Numbers], rates: Sequence[tuple[float, int]], want: Sequence[Ids] | None = None
    ) -> None:
        """Send the gradients of the next step, whose rows were taken; see `served.Tables.push`."""
        self._step += 1
        lookup = self._lookups.pop(self._step)
        wanted = None
        if want is not None:
            self._wanted += 1
            wanted = self._lookups[self._wanted] = self._lookup(want)
        for server, link in enumerate(self._links):
            ids = [] if wanted is None or want is None else self._ids_for(server, wanted, want)
            parts = [*rates_of(rates), *ids, *self._rows_for(server, lookup, gradients)]
            link.send(message(Kind.PUSH, self._step, parts, tag=bool(ids)), self._receive)

    def applied(self) -> None:
        """Return when all servers have applied what was pushed last."""
        self._wait(lambda: min(self._applied) >= self._step)

    def _take(self, server: int, header: Header, body: memoryview) -> None:
        match header.kind:
            case Kind.APPLIED:
                self._applied[server] = header.step
                self._take_figures(server, body)
            case Kind.ROWS:
                self._lookups[header.step].put(server, self._format, body)
            case Kind.EARLY_ROWS:
                self._lookups[header.step].put_early(server, self._format, body)
            case Kind.LATE_ROWS:
                self._lookups[header.step].put_late(server, self._format, body)
            case _:
                super()._take(server, header, body)


def enter(
    token: bytes,
    servers: Sequence[tuple[str, str]],
    specs: Sequence[TableSpec],
    place: Place,
    step: int,
    *,
    root: bool,
    new: bool,
    seconds: float,
    deadline: float = 30.0,
    opened: Callable[[Link], None] = lambda link: None,
) -> Session:
    """Connect to all servers of a world, which then stand at a step.

    Args:
        token: the job's.
        servers: names and addresses.
        specs: of all tables.
        place: this worker's in the world.
        step: that all members stand at.
        root: whether this member brings the servers to it; one of them does.
        new: whether nothing was trained yet.
        seconds: how long it may take; rows may have to be read from files.
        deadline: seconds without a byte after which the session's calls fail.
        opened: is told of each connection while it is being made, so that another thread can abort it.

    Raises:
        WorldBroken: a server is not there, or is in a later world.
        JobError: rows that are needed are not there.
    """
    names = [name for name, _ in servers]
    said: dict[str, Any] = {"root": root}
    if root:
        said |= {"step": step, "new": new, "servers": names, "specs": [spec.to_json() for spec in specs]}
    entering = message(Kind.ENTER, step, [json.dumps(said).encode()])
    links, stand = dial_all(token, servers, place, entering, seconds, deadline, opened)
    session = Session(links, names, specs, step)
    if any(each != step for each in stand):
        session.close()
        raise WorldBroken(f"not all servers stand at step {step}: {stand}")
    return session
