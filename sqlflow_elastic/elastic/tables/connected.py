"""What a worker has of its servers, whatever steps it takes: links, rows that are awaited, snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import WorldBroken
from sqlflow_elastic.elastic.comm.base import Place
from sqlflow_elastic.elastic.tables.link import Link
from sqlflow_elastic.elastic.tables.lookup import Lookup
from sqlflow_elastic.elastic.tables.sharding import owners, shards_of
from sqlflow_elastic.elastic.tables.wire import Format, Header, Kind, message
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.models.tables.spec import TableSpec

Ids = NDArray[np.int64]
Numbers = NDArray[Any]


@dataclass(frozen=True)
class ServerFigures:
    """What a server told last.

    Attributes:
        snapshot: the step of its newest finished snapshot; -1 for none.
        memory: bytes that its rows take.
        rows: that it has.
        step: steps that it has applied.
    """

    snapshot: int = -1
    memory: int = 0
    rows: int = 0
    step: int = 0


class Connected:
    """Servers that a worker is connected to. For one thread, but for `abort`.

    Each call that waits fails with `WorldBroken` when a server closes the connection, when nothing comes for the
    deadline, or after `abort`.

    Args:
        links: to the servers.
        names: by which shards are theirs, see `sharding.owners`.
        specs: of the tables.

    Attributes:
        figures: what each server told last.
        snapshot_failure: see `access.Tables`.
    """

    def __init__(self, links: Sequence[Link], names: Sequence[str], specs: Sequence[TableSpec]) -> None:
        self.figures = [ServerFigures() for _ in links]
        self._links = links
        self._specs = list(specs)
        self._format = Format(specs)
        self._owners = owners(names)
        self._peeks: dict[int, Lookup] = {}
        self._peek = 0
        self._snapshot = -1
        self._saving: set[int] = set()
        self.snapshot_failure = ""

    @property
    def sent(self) -> int:
        """Bytes to all servers, headers included."""
        return sum(link.sent for link in self._links)

    @property
    def received(self) -> int:
        """Bytes from all servers, headers included."""
        return sum(link.received for link in self._links)

    @property
    def snapshot_step(self) -> int:
        """See `access.Tables`."""
        return min(figures.snapshot for figures in self.figures)

    def peek(self, ids: Sequence[Ids]) -> list[Numbers]:
        """See `access.Rows.peek`."""
        self._peek += 1
        lookup = self._peeks[self._peek] = self._lookup(ids)
        for server, link in enumerate(self._links):
            if sum(lookup.counts(server)):
                link.send(message(Kind.PEEK, self._peek, self._ids_for(server, lookup, ids)), self._receive)
        self._wait(lambda: lookup.complete)
        del self._peeks[self._peek]
        return lookup.rows

    def begin_snapshot(self, step: int) -> None:
        """See `access.Tables`."""
        self._begin_snapshot(step, 0)

    def _begin_snapshot(self, step: int, tag: int) -> None:
        self.snapshot_failure = ""
        self._snapshot, self._saving = step, set(range(len(self._links)))
        for link in self._links:
            link.send(message(Kind.SNAPSHOT, step, tag=tag), self._receive)

    def snapshot(self, step: int) -> None:
        """See `access.Tables`."""
        self.begin_snapshot(step)
        # However long they write: a server that hangs is given up by the master.
        self._wait(lambda: not self._saving, endless=True)
        if self.snapshot_failure:
            raise JobError(f"tables could not be saved: {self.snapshot_failure}")

    def abort(self, reason: str) -> None:
        """End it, from any thread: what blocks raises `WorldBroken` with this reason."""
        for link in self._links:
            link.abort(reason)

    def close(self) -> None:
        """End it. Closing twice does nothing."""
        for link in self._links:
            link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lookup(self, ids: Sequence[Ids]) -> Lookup:
        if len(self._links) == 1:
            return Lookup(self._specs, ids, [[np.arange(len(each)) for each in ids]])
        of = [self._owners[shards_of(each)] for each in ids]
        places = [[np.flatnonzero(each == server) for each in of] for server in range(len(self._links))]
        return Lookup(self._specs, ids, places)

    def _ids_for(self, server: int, lookup: Lookup, ids: Sequence[Ids]) -> list[Numbers]:
        return self._format.ids([each[own] for each, own in zip(ids, lookup.places[server], strict=True)])

    def _rows_for(self, server: int, lookup: Lookup, rows: Sequence[Numbers]) -> list[Numbers]:
        return [
            each if len(each) == len(own) else each[own] for each, own in zip(rows, lookup.places[server], strict=True)
        ]

    def _wait(self, condition: Callable[[], bool], endless: bool = False) -> None:
        since = None if endless else time.monotonic()
        while not condition():
            Link.wait(self._links, since)
            self._receive()

    def _receive(self) -> None:
        """Take in what has come."""
        for server, link in enumerate(self._links):
            for header, body in link.read():
                self._take(server, header, body)

    def _take(self, server: int, header: Header, body: memoryview) -> None:
        match header.kind:
            case Kind.PEEKED:
                self._peeks[header.step].put(server, self._format, body)
            case Kind.SAVED:
                failure = bytes(body).decode()
                if not failure:
                    self.figures[server] = replace(self.figures[server], snapshot=header.step)
                if header.step == self._snapshot:  # else it was begun before
                    self._saving.discard(server)
                    self.snapshot_failure = self.snapshot_failure or failure
            case _:
                raise WorldBroken(f"a server said {header.kind.name}")

    def _take_figures(self, server: int, body: memoryview) -> None:
        self.figures[server] = ServerFigures(*np.frombuffer(body, np.int64).tolist())


def rates_of(rates: Sequence[tuple[float, int]]) -> list[Numbers]:
    """Learning rates and optimizers' steps, as they travel."""
    return [
        np.array([rate for rate, _ in rates], np.float64),
        np.array([iteration for _, iteration in rates], np.int64),
    ]


def dial_all(
    token: bytes,
    servers: Sequence[tuple[str, str]],
    place: Place,
    entering: list[memoryview],
    seconds: float,
    deadline: float,
    opened: Callable[[Link], None],
) -> tuple[list[Link], list[int]]:
    """Connect to all servers, and wait until all are ready.

    Args:
        token, servers, place, seconds, deadline, opened: see `client.enter`.
        entering: the first message to each.

    Returns:
        The links, and the step at which each server stands.

    Raises:
        WorldBroken: a server is not there, or knows of a later world.
        JobError: rows that are needed are not there.
    """
    end = time.monotonic() + seconds
    links: list[Link] = []
    try:
        for name, at in servers:
            link = Link.dial(name, at, token, place, min(seconds, deadline), deadline)
            opened(link)
            links.append(link)
        for link in links:
            link.send(entering)
        return links, [_ready(link, *link.next(end)) for link in links]
    except BaseException:
        for link in links:
            link.close()
        raise


def _ready(link: Link, header: Header, body: memoryview) -> int:
    match header.kind:
        case Kind.READY:
            return header.step
        case Kind.REFUSED:
            raise JobError(f"{link.name}: {bytes(body).decode()}")
        case Kind.OVER:
            raise WorldBroken(f"{link.name}: this world is over")
    raise WorldBroken(f"{link.name} said {header.kind.name}")
