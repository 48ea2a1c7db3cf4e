"""A network cable that a test can pull out: a port of this machine that leads to another one."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Self


class Cable:
    """Passes connections on to a port; while it is cut there are none, and new ones are refused.

    Attributes:
        port: where to connect.
    """

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._listen(self._listener)

    def cut(self) -> None:
        with self._lock:
            ends = [*self._sockets, self._listener]
            self._sockets = []
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join(10)
        self._threads = []
        for end in ends:
            end.close()

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._listen(self._listener)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()

    def _listen(self, listener: socket.socket) -> None:
        def accept() -> None:
            while True:
                try:
                    near, _ = listener.accept()
                except OSError:
                    return
                far = socket.create_connection(("127.0.0.1", self._to_port))
                with self._lock:
                    self._sockets += [near, far]
                self._start(lambda near=near, far=far: _pass(near, far))
                self._start(lambda near=near, far=far: _pass(far, near))

        self._start(accept)

    def _start(self, target: object) -> None:
        thread = threading.Thread(target=target, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return
