"""A worker's side: the servers of a world, asked for rows and given gradients."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import WorldBroken
from sqlflow_elastic.elastic.comm.base import Place
from sqlflow_elastic.elastic.tables.link import Link
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
    """

    snapshot: int = -1
    memory: int = 0
    rows: int = 0


class _Lookup:
    """Rows that are awaited.

    Attributes:
        rows: of each table, [n, width], filled in as they come.
        complete: whether they are there.
    """

    def __init__(self, specs: Sequence[TableSpec], ids: Sequence[Ids], places: list[list[NDArray[np.int64]]]) -> None:
        self.places = places
        self.rows = [np.empty((len(each), spec.width), spec.dtype) for each, spec in zip(ids, specs, strict=True)]
        self._early: dict[int, list[NDArray[np.bool_]]] = {}
        self._lacking = {server for server, own in enumerate(places) if sum(map(len, own))}

    @property
    def complete(self) -> bool:
        return not self._lacking

    def counts(self, server: int) -> list[int]:
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


class Session:
    """The servers of one world, all at one step; made by `enter`. For one thread, but for `abort`.

    Each call that waits fails with `WorldBroken` when a server closes the connection, when nothing comes for the
    deadline, or after `abort`.

    Attributes:
        sent, received: bytes, headers included.
    """

    def __init__(self, links: Sequence[Link], servers: Sequence[str], specs: Sequence[TableSpec], step: int) -> None:
        self.figures = [ServerFigures() for _ in links]
        self._links = links
        self._specs = list(specs)
        self._format = Format(specs)
        self._owners = owners(servers)
        self._step = step
        self._wanted = step
        self._lookups: dict[int, _Lookup] = {}
        self._applied = [step for _ in links]
        self._peeks: dict[int, _Lookup] = {}
        self._peek = 0
        self._saving: set[int] = set()
        self._failure = ""

    @property
    def sent(self) -> int:
        """Bytes to all servers."""
        return sum(link.sent for link in self._links)

    @property
    def received(self) -> int:
        """Bytes from all servers."""
        return sum(link.received for link in self._links)

    @property
    def snapshot_step(self) -> int:
        """See `served.Tables`."""
        return min(figures.snapshot for figures in self.figures)

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
        learning_rates = np.array([rate for rate, _ in rates], np.float64)
        iterations = np.array([iteration for _, iteration in rates], np.int64)
        wanted = None
        if want is not None:
            self._wanted += 1
            wanted = self._lookups[self._wanted] = self._lookup(want)
        for server, link in enumerate(self._links):
            own = [
                gradient if len(gradient) == len(places) else gradient[places]
                for gradient, places in zip(gradients, lookup.places[server], strict=True)
            ]
            ids = [] if wanted is None or want is None else self._ids_for(server, wanted, want)
            parts = [learning_rates, iterations, *ids, *own]
            link.send(message(Kind.PUSH, self._step, parts, tag=bool(ids)), self._receive)

    def applied(self) -> None:
        """Return when all servers have applied what was pushed last."""
        self._wait(lambda: min(self._applied) >= self._step)

    def peek(self, ids: Sequence[Ids]) -> list[Numbers]:
        """See `served.Rows.peek`."""
        self._peek += 1
        lookup = self._peeks[self._peek] = self._lookup(ids)
        for server, link in enumerate(self._links):
            if sum(lookup.counts(server)):
                link.send(message(Kind.PEEK, self._peek, self._ids_for(server, lookup, ids)), self._receive)
        self._wait(lambda: lookup.complete)
        del self._peeks[self._peek]
        return lookup.rows

    def begin_snapshot(self, step: int) -> None:
        """See `served.Tables`."""
        self._failure = ""
        self._saving = set(range(len(self._links)))
        for link in self._links:
            link.send(message(Kind.SNAPSHOT, step), self._receive)

    def snapshot(self, step: int) -> None:
        """See `served.Tables`."""
        self.begin_snapshot(step)
        # However long they write: a server that hangs is given up by the master.
        self._wait(lambda: not self._saving, endless=True)
        if self._failure:
            raise JobError(f"tables could not be saved: {self._failure}")

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

    def _lookup(self, ids: Sequence[Ids]) -> _Lookup:
        if len(self._links) == 1:
            return _Lookup(self._specs, ids, [[np.arange(len(each)) for each in ids]])
        of = [self._owners[shards_of(each)] for each in ids]
        places = [[np.flatnonzero(each == server) for each in of] for server in range(len(self._links))]
        return _Lookup(self._specs, ids, places)

    def _ids_for(self, server: int, lookup: _Lookup, ids: Sequence[Ids]) -> list[Numbers]:
        return self._format.ids([each[own] for each, own in zip(ids, lookup.places[server], strict=True)])

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
            case Kind.APPLIED:
                self._applied[server] = header.step
                self.figures[server] = ServerFigures(*np.frombuffer(body, np.int64).tolist())
            case Kind.ROWS:
                self._lookups[header.step].put(server, self._format, body)
            case Kind.EARLY_ROWS:
                self._lookups[header.step].put_early(server, self._format, body)
            case Kind.LATE_ROWS:
                self._lookups[header.step].put_late(server, self._format, body)
            case Kind.PEEKED:
                self._peeks[header.step].put(server, self._format, body)
            case Kind.SAVED:
                self._saving.discard(server)
                self._failure = self._failure or bytes(body).decode()
                figures = self.figures[server]
                self.figures[server] = ServerFigures(header.step, figures.memory, figures.rows)
            case _:
                raise WorldBroken(f"a server said {header.kind.name}")


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
    end = time.monotonic() + seconds
    names = [name for name, _ in servers]
    links: list[Link] = []
    try:
        for name, at in servers:
            link = Link.dial(name, at, token, place, min(seconds, deadline), deadline)
            opened(link)
            links.append(link)
        said: dict[str, Any] = {"root": root}
        if root:
            said |= {"step": step, "new": new, "servers": names, "specs": [spec.to_json() for spec in specs]}
        for link in links:
            link.send(message(Kind.ENTER, step, [json.dumps(said).encode()]))
        for link in links:
            _check_ready(link, *link.next(end), step)
    except BaseException:
        for link in links:
            link.close()
        raise
    return Session(links, names, specs, step)


def _check_ready(link: Link, header: Header, body: memoryview, step: int) -> None:
    match header.kind:
        case Kind.REFUSED:
            raise JobError(f"{link.name}: {bytes(body).decode()}")
        case Kind.OVER:
            raise WorldBroken(f"{link.name}: this world is over")
    if header.kind is not Kind.READY or header.step != step:
        raise WorldBroken(f"{link.name} does not stand at step {step}: {header.kind.name} {header.step}")
