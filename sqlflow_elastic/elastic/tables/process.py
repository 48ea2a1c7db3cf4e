"""A server of tables as a process of a job: ``python -m sqlflow_elastic.elastic.tables.process``.

One thread serves the workers, another one has the stream to the master, and shows it that this process lives. Needs no
TensorFlow.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlflow_elastic.elastic.folder import JOB_VARIABLE, JobFolder
from sqlflow_elastic.elastic.master_stream import Lost, MasterStream, Up
from sqlflow_elastic.elastic.member import HOST_VARIABLE, WORKER_VARIABLE, master_address
from sqlflow_elastic.elastic.membership.messages import (
    NO_STATE,
    End,
    Hello,
    Leaving,
    Progress,
    Release,
    ServerState,
    Standing,
    Welcome,
)
from sqlflow_elastic.elastic.membership.servers import OUT_OF_MEMORY_EXIT
from sqlflow_elastic.elastic.tables.server import TableServer

_FIRST_HEARTBEAT = 0.5
#: Without a master for so long, the job is over: its session, and so the cluster, would have ended this process before.
_ALONE_SECONDS = 600.0


class Service:
    """A server's stream to its master.

    Args:
        folder: the job's.
        name: the server's.
        server: what is served.
    """

    def __init__(self, folder: JobFolder, name: str, server: TableServer) -> None:
        self._name = name
        self._server = server
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._leaving = False
        self._up = False
        token = folder.token.read_text(encoding="utf-8")
        self._stream = MasterStream(lambda: master_address(folder.master), token, self._inbox.put)
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """SIGTERM: it serves until the master lets it go. For signal handlers."""
        self._inbox.put(Leaving())

    def close(self) -> None:
        """Say no more."""
        self._stream.close()

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException:  # noqa: BLE001 - a bug: without this thread the process would stand there for ever
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    def _serve(self) -> None:
        heartbeat, beat, heard = _FIRST_HEARTBEAT, 0.0, time.monotonic()
        while True:
            now = time.monotonic()
            if now >= beat:
                beat = now + heartbeat
                self._beat()
            if self._up:
                heard = now
            elif now - heard > _ALONE_SECONDS:
                self._server.close()
                return
            try:
                event = self._inbox.get(timeout=max(0.0, beat - now))
            except queue.Empty:
                continue
            match event:
                case Up():
                    self._up = True
                    hello = Hello(self._name, self._server.address, Standing.READY, 0, NO_STATE, self._leaving)
                    self._stream.say(hello)
                case Lost():
                    self._up = False
                case Welcome(seconds):
                    heartbeat = seconds
                case Leaving():
                    self._leaving = True
                    if self._up:
                        self._stream.say(event)
                case Release() | End():
                    self._server.close()
                    return

    def _beat(self) -> None:
        if self._up:
            store = self._server.store
            self._stream.say(Progress(0, store.step))
            self._stream.say(ServerState(store.memory, store.rows, store.step))


def main() -> int:
    """Serve until the master ends it. Returns the exit code."""
    folder = JobFolder(Path(os.environ[JOB_VARIABLE]))
    name = os.environ[WORKER_VARIABLE]
    token = folder.token.read_text(encoding="utf-8").encode()
    server = TableServer(token, os.environ.get(HOST_VARIABLE, "127.0.0.1"), name, folder.tables)
    service = Service(folder, name, server)
    _on_signals(service.leave)
    try:
        server.serve()
    except MemoryError as error:
        sys.stderr.write(f"out of memory: {error}\n")
        return OUT_OF_MEMORY_EXIT
    finally:
        service.close()
    return 0


def _on_signals(leave: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leave())


if __name__ == "__main__":
    # Without the interpreter's own clearing up, which could wait for threads.
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
