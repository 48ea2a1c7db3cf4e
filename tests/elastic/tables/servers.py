"""Servers of tables in threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlflow_elastic.elastic.comm.base import Place
from sqlflow_elastic.elastic.tables.client import Session, enter
from sqlflow_elastic.elastic.tables.server import TableServer
from sqlflow_elastic.models.tables.spec import TableSpec

TOKEN = b"a token of this test, long enough"
SECONDS = 30.0


class Servers:
    """Some servers, by name; started and stopped at will.

    Attributes:
        folder: of their snapshots.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, tuple[TableServer, threading.Thread]] = {}

    def start(self, *names: str) -> None:
        for name in names:
            server = TableServer(TOKEN, "127.0.0.1", name, self.folder)
            thread = threading.Thread(target=server.serve, name=name)
            thread.start()
            self._running[name] = server, thread

    def stop(self, *names: str) -> None:
        """What they had in memory is lost."""
        for name in names:
            server, thread = self._running.pop(name)
            server.close()
            thread.join(SECONDS)
            assert not thread.is_alive()

    def __getitem__(self, name: str) -> TableServer:
        return self._running[name][0]

    @property
    def names(self) -> list[str]:
        return list(self._running)

    def enter(
        self,
        specs: Sequence[TableSpec],
        *,
        version: int = 1,
        rank: int = 0,
        size: int = 1,
        step: int = 0,
        root: bool | None = None,
        new: bool | None = None,
    ) -> Session:
        """A member's session; rank 0 is the root, and step 0 is new, if nothing else is said."""
        servers = [(name, server.address) for name, (server, _) in self._running.items()]
        return enter(
            TOKEN,
            servers,
            specs,
            Place(version, rank, size, ""),
            step,
            root=rank == 0 if root is None else root,
            new=step == 0 if new is None else new,
            seconds=SECONDS,
            deadline=SECONDS,
        )


@contextmanager
def running(folder: Path, *names: str) -> Iterator[Servers]:
    servers = Servers(folder)
    servers.start(*names)
    try:
        yield servers
    finally:
        servers.stop(*servers.names)
