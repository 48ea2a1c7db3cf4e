"""A server: one thread that receives, applies and replies."""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sqlflow_elastic.elastic.comm import Place, address
from sqlflow_elastic.elastic.tables.connection import Connection, Message
from sqlflow_elastic.elastic.tables.gate import Entry, Gate
from sqlflow_elastic.elastic.tables.serving import Applied, Rows, Steps
from sqlflow_elastic.elastic.tables.snapshots import SnapshotError, Snapshots
from sqlflow_elastic.elastic.tables.store import TableStore
from sqlflow_elastic.elastic.tables.wire import Format, Kind, message, take
from sqlflow_elastic.models.tables.spec import TableSpec

_BACKLOG = 128
_WAIT_SECONDS = 0.2
#: Callers that have not entered a world yet: above, the one that came first is dropped; and after so long each of them.
MAX_STRANGERS = 64
STRANGER_SECONDS = 5.0
#: Copying a piece of a snapshot takes longer than this; where it does not, its writer is behind, and gets so long.
_COPY_SECONDS, _WRITE_SECONDS = 0.0002, 0.002


class TableServer:
    """See the module's page. It lives in one thread, but for `close`.

    Args:
        token: the job's.
        host: a numeric address of this machine that the workers reach.
        name: in its job.
        folder: of the job's snapshots.

    Attributes:
        address: host:port.
    """

    def __init__(self, token: bytes, host: str, name: str, folder: Path) -> None:
        self._token = token
        self._snapshots = Snapshots(folder, name)
        self.store = TableStore(name, self._snapshots)
        self._format = Format([])
        self._strangers: dict[Connection, float] = {}
        self._gate = Gate[Connection]()
        self._steps: Steps | None = None
        self._waits_for_snapshot: Connection | None = None
        self._copies = False
        self._closed = False
        self._waking = threading.Lock()
        self._listener = socket.socket(address.family_of(host), socket.SOCK_STREAM)
        self._listener.setblocking(False)
        self._listener.bind((host, 0))
        self._listener.listen(_BACKLOG)
        self.address = address.join(host, self._listener.getsockname()[1])
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)

    def serve(self) -> None:
        """Serve until `close`."""
        try:
            while not self._closed:
                for key, events in self._selector.select(self._seconds()):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, Connection) and key.fileobj.fileno() >= 0:
                        self._serve(key.fileobj, events)
                if self._snapshots.busy:
                    self._save()
                if self._strangers:
                    self._drop_strangers()
        finally:
            for key in list(self._selector.get_map().values()):
                if isinstance(key.fileobj, Connection):
                    key.fileobj.close()
            self._selector.close()
            self._listener.close()
            self._snapshots.close()
            with self._waking:
                self._closed = True
                os.close(self._wake)

    def close(self) -> None:
        """Let `serve` return soon. For any thread."""
        with self._waking:
            if not self._closed:
                self._closed = True
                os.eventfd_write(self._wake, 1)

    def _seconds(self) -> float:
        """How long to wait for something to do."""
        if not self._snapshots.busy:
            return _WAIT_SECONDS
        return 0.0 if self._copies else _WRITE_SECONDS

    def _accept(self) -> None:
        try:
            connection = Connection(self._listener.accept()[0], self._token)
        except OSError:
            return
        self._strangers[connection] = time.monotonic()
        self._selector.register(connection, selectors.EVENT_READ)
        self._send(connection, ())
        if len(self._strangers) > MAX_STRANGERS:
            self._drop(next(iter(self._strangers)))

    def _drop_strangers(self) -> None:
        latest = time.monotonic() - STRANGER_SECONDS
        for connection in [each for each, since in self._strangers.items() if since < latest]:
            self._drop(connection)

    def _serve(self, connection: Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                connection.write()
            if events & selectors.EVENT_READ:
                for each in connection.read():
                    self._handle(connection, each)
        except (OSError, ValueError) as error:
            if not isinstance(error, OSError):
                sys.stderr.write(f"a connection is dropped: {error}\n")
            self._drop(connection)
        else:
            self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        """Wait for what a connection waits for."""
        if connection.fileno() >= 0:
            writes = selectors.EVENT_WRITE if connection.wants_to_write else 0
            self._selector.modify(connection, selectors.EVENT_READ | writes)

    def _send(self, connection: Connection, buffers: Sequence[memoryview]) -> None:
        try:
            connection.send(buffers)
            self._watch(connection)
        except OSError:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        """A member that is gone takes its world with it: all others see it at once."""
        if connection.fileno() < 0:
            return
        self._selector.unregister(connection)
        connection.close()
        self._strangers.pop(connection, None)
        self._end(self._gate.leaves(connection))

    def _end(self, connections: Sequence[Connection]) -> None:
        for connection in connections:
            self._drop(connection)

    def _handle(self, connection: Connection, said: Message) -> None:
        """Raises: ValueError: it makes no sense."""
        header, body = said.header, said.body
        hello = connection.hello
        assert hello is not None  # noqa: S101 - there is no message before
        if header.kind is Kind.ENTER:
            self._enter(connection, json.loads(bytes(body)))
            return
        steps = self._steps
        if steps is None or self._gate.members.get(hello.rank) is not connection:
            raise ValueError("it is in no world")
        match header.kind:
            case Kind.WANT:
                ids, _ = self._format.read_ids(body)
                self._reply(steps.want(hello.rank, header.step, ids))
            case Kind.PUSH:
                self._push(steps, hello.rank, header.step, header.tag, body)
            case Kind.PEEK:
                ids, _ = self._format.read_ids(body)
                rows = [table.peek(each) for table, each in zip(self.store.tables, ids, strict=True)]
                self._send(connection, message(Kind.PEEKED, header.step, rows))
            case Kind.SNAPSHOT:
                self._begin_snapshot(connection, header.step)
            case _:
                raise ValueError(f"a worker does not say {header.kind.name}")

    def _enter(self, connection: Connection, said: dict[str, Any]) -> None:
        hello = connection.hello
        assert hello is not None  # noqa: S101 - there is no message before
        place = Place(hello.version, hello.rank, hello.size, "")
        self._strangers.pop(connection, None)
        entry, over = self._gate.enters(connection, place, bool(said.get("root")))
        self._end(over)
        match entry:
            case Entry.OVER:
                self._send(connection, message(Kind.OVER, 0))
            case Entry.JOINS:
                self._send(connection, message(Kind.READY, self.store.step))
            case Entry.BEGINS:
                self._begin(connection, place, said)

    def _begin(self, connection: Connection, place: Place, said: dict[str, Any]) -> None:
        """A root brings the server to where its world begins."""
        self._steps = None
        try:
            specs = [TableSpec.from_json(each) for each in said["specs"]]
            self.store.stand_at(int(said["step"]), specs, said["servers"], said["new"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"a root that says not what is needed: {error}") from error
        except SnapshotError as error:
            self._send(connection, message(Kind.REFUSED, 0, [str(error).encode()]))
            return
        self._format = Format(specs)
        self._steps = Steps(self.store, place.size)
        for member in self._gate.begin(connection, place):
            self._send(member, message(Kind.READY, self.store.step))

    def _push(self, steps: Steps, rank: int, step: int, wants: int, body: memoryview) -> None:
        tables = self.store.tables
        learning_rates, body = take(body, np.dtype(np.float64), len(tables))
        iterations, body = take(body, np.dtype(np.int64), len(tables))
        if wants:
            ids, body = self._format.read_ids(body)
            self._reply(steps.want(rank, step + 2, ids))
        gradients = self._format.read_rows(body, steps.counts(rank, step))
        rates = list(zip(learning_rates.tolist(), iterations.tolist(), strict=True))
        self._reply(steps.push(rank, step, gradients, rates))

    def _reply(self, replies: Sequence[Applied | Rows]) -> None:
        """Tell each member all that it is told at once, in one call of the system."""
        outgoing: dict[int, list[memoryview]] = {rank: [] for rank in self._gate.members}
        for reply in replies:
            if isinstance(reply, Applied):
                figures = np.array([self._snapshots.step, self.store.memory, self.store.rows], np.int64)
                for buffers in outgoing.values():
                    buffers += message(Kind.APPLIED, reply.step, [figures])
            elif reply.rank in outgoing:
                parts = [array for array in reply.rows if array.size]
                kind = Kind.LATE_ROWS if reply.late else Kind.ROWS
                if reply.early is not None:
                    kind, parts = Kind.EARLY_ROWS, [np.packbits(reply.early), *parts]
                outgoing[reply.rank] += message(kind, reply.step, parts)
        members = dict(self._gate.members)
        for rank, buffers in outgoing.items():
            if buffers:
                self._send(members[rank], buffers)

    def _begin_snapshot(self, connection: Connection, step: int) -> None:
        if step != self.store.step:
            raise ValueError(f"a snapshot of step {step} is wanted after step {self.store.step}")
        self._waits_for_snapshot = connection
        if self._snapshots.step == step:
            self._saved("")
        else:
            self._snapshots.begin(step, self.store.servers)

    def _save(self) -> None:
        """Copy the next piece of a snapshot, if the writer takes one now."""
        began = time.monotonic()
        if self._snapshots.work(0.0):
            self._saved(self._snapshots.failure)
        self._copies = time.monotonic() - began > _COPY_SECONDS

    def _saved(self, failure: str) -> None:
        connection, self._waits_for_snapshot = self._waits_for_snapshot, None
        if connection is not None and connection.fileno() >= 0:
            self._send(connection, message(Kind.SAVED, self._snapshots.step, [failure.encode()]))
