"""A server: one thread that receives, applies and replies."""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import Place, address
from sqlflow_elastic.elastic.tables.connection import Connection, Message
from sqlflow_elastic.elastic.tables.exchanges import Exchanges
from sqlflow_elastic.elastic.tables.gate import Entry, Gate
from sqlflow_elastic.elastic.tables.manifests import complete_steps
from sqlflow_elastic.elastic.tables.serving import Steps
from sqlflow_elastic.elastic.tables.snapshots import SnapshotError, Snapshots
from sqlflow_elastic.elastic.tables.store import TableStore
from sqlflow_elastic.elastic.tables.talks import Answers, LoneTalk, Talk, WorldTalk
from sqlflow_elastic.elastic.tables.wire import YIELDED, YIELDS, Format, Kind, message
from sqlflow_elastic.models.tables.spec import TableSpec

_BACKLOG = 128
_WAIT_SECONDS = 0.2
#: Callers that have not entered a world yet: above, the one that came first is dropped; and after so long each of them.
MAX_STRANGERS = 64
STRANGER_SECONDS = 5.0
#: Copying a piece of a snapshot takes longer than this; where it does not, its writer is behind, and gets so long.
_COPY_SECONDS, _WRITE_SECONDS = 0.0002, 0.002


#: How often workers hear that they are kept waiting.
COMFORT_SECONDS = 1.0


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
        self._folder = folder
        self._snapshots = Snapshots(folder, name)
        self.store = TableStore(name, self._snapshots)
        self._format = Format([])
        self._strangers: dict[Connection, float] = {}
        self._gate = Gate[Connection]()
        self._talk: WorldTalk | LoneTalk | None = None
        self._told = time.monotonic()
        self._waits_for_snapshot: tuple[Connection, int] | None = None
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
                if isinstance(self._talk, LoneTalk):
                    self._comfort(self._talk)
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
        """If somebody waits for the step of a member that is gone, all of its world see it at once."""
        if connection.fileno() < 0:
            return
        self._selector.unregister(connection)
        connection.close()
        self._strangers.pop(connection, None)
        names = [name for name, each in self._gate.lone.items() if each is connection]
        self._end(self._gate.leaves(connection, isinstance(self._talk, WorldTalk) and self._talk.waits))
        if isinstance(self._talk, LoneTalk):
            for name in names:
                self._answer(self._talk.rests(name))

    def _end(self, connections: Sequence[Connection]) -> None:
        for connection in connections:
            self._drop(connection)

    def _handle(self, connection: Connection, said: Message) -> None:
        """Raises: ValueError: it makes no sense; OSError: there is no answer any more."""
        header, body = said.header, said.body
        hello = connection.hello
        assert hello is not None  # noqa: S101 - there is no message before
        if header.kind is Kind.ENTER:
            try:
                self._enter(connection, json.loads(bytes(body)))
            except (AttributeError, KeyError, TypeError) as error:
                raise ValueError(f"who enters says not what is needed: {error}") from error
            return
        who = self._who(connection)
        if who is None or self._talk is None:
            raise ValueError("it is in no world")
        match header.kind:
            case Kind.PEEK:
                ids, _ = self._format.read_ids(body)
                rows = [table.peek(each) for table, each in zip(self.store.tables, ids, strict=True)]
                self._send(connection, message(Kind.PEEKED, header.step, rows))
            case Kind.SNAPSHOT:
                self._begin_snapshot(connection, header.step, yields=header.tag == YIELDS)
            case _ if self._gate.left:
                raise ConnectionAbortedError("its world takes no more steps")
            case _:
                talk: Talk = self._talk
                self._answer(talk.handle(who, header, body))

    def _who(self, connection: Connection) -> int | str | None:
        """The rank of a member, or the name of a worker that takes steps alone."""
        everybody: list[tuple[int | str, Connection]] = [*self._gate.members.items(), *self._gate.lone.items()]
        return next((who for who, each in everybody if each is connection), None)

    def _answer(self, answers: Answers) -> None:
        receivers: dict[Any, Connection] = {**self._gate.members, **self._gate.lone}
        for who, buffers in answers.items():
            if (receiver := receivers.get(who)) is not None:
                self._send(receiver, buffers)

    def _comfort(self, talk: LoneTalk) -> None:
        """Those who are kept waiting for others hear that this server lives."""
        now = time.monotonic()
        if now - self._told > COMFORT_SECONDS:
            self._told = now
            self._answer(talk.still_held())

    def _enter(self, connection: Connection, said: dict[str, Any]) -> None:
        hello = connection.hello
        assert hello is not None  # noqa: S101 - there is no message before
        place = Place(hello.version, hello.rank, hello.size, "")
        self._strangers.pop(connection, None)
        if "worker" in said:
            self._join(connection, place, said)
            return
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
        self._talk = None
        if not self._stands(
            connection, said, lambda specs: self.store.stand_at(int(said["step"]), specs, said["servers"], said["new"])
        ):
            return
        self._talk = WorldTalk(Steps(self.store, place.size), self._format, place.size, self._figures)
        for member in self._gate.begin(connection, place):
            self._send(member, message(Kind.READY, self.store.step))

    def _join(self, connection: Connection, place: Place, said: dict[str, Any]) -> None:
        """A worker that takes steps alone; the first of a version brings the server to what it knows of."""
        version = self._gate.version
        entry, over = self._gate.joins(connection, place.version, said["worker"])
        self._end(over)
        if entry is Entry.OVER:
            self._send(connection, message(Kind.OVER, 0))
            return
        if not isinstance(self._talk, LoneTalk) or version != place.version:
            self._talk = None
            newest = max(complete_steps(self._folder), default=None)
            if not self._stands(connection, said, lambda specs: self.store.stand_alone(specs, said["servers"], newest)):
                self._gate.leaves(connection, awaited=False)
                return
            staleness = int(said["staleness"]) if said["servers"][0] == self.store.name else None
            self._talk = LoneTalk(Exchanges(self.store, staleness), self._format, self._figures)
        elif _specs(said) != self.store.specs:
            raise ValueError("it has other tables")
        else:
            self._answer(self._talk.rests(said["worker"]))  # one of that name was there before
        self._send(connection, message(Kind.READY, self.store.step))

    def _stands(self, connection: Connection, said: dict[str, Any], stand: Callable[[list[TableSpec]], None]) -> bool:
        """Have the rows that somebody who enters needs; whether they are there."""
        try:
            specs = _specs(said)
            stand(specs)
        except SnapshotError as error:
            self._send(connection, message(Kind.REFUSED, 0, [str(error).encode()]))
            return False
        self._format = Format(specs)
        return True

    def _figures(self) -> NDArray[np.int64]:
        return np.array([self._snapshots.step, self.store.memory, self.store.rows, self.store.step], np.int64)

    def _begin_snapshot(self, connection: Connection, step: int, *, yields: bool) -> None:
        if yields and self._snapshots.busy:
            self._send(connection, message(Kind.SAVED, step, [YIELDED.encode()]))
            return
        if step != self.store.step and isinstance(self._talk, WorldTalk):
            raise ValueError(f"a snapshot of step {step} is wanted after step {self.store.step}")
        self._waits_for_snapshot = connection, step
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
        waiting, self._waits_for_snapshot = self._waits_for_snapshot, None
        if waiting is not None and waiting[0].fileno() >= 0:
            connection, step = waiting
            self._send(connection, message(Kind.SAVED, step, [failure.encode()]))


def _specs(said: dict[str, Any]) -> list[TableSpec]:
    return [TableSpec.from_json(each) for each in said["specs"]]
