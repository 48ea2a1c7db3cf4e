"""One worker's connection at a server: bytes to messages and back, never blocking."""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sqlflow_elastic.elastic.comm import handshake
from sqlflow_elastic.elastic.tables.wire import HEADER_BYTES, MOST_ENTER_BYTES, Header, Kind

#: Buffers in one call of the system; it takes no more than 1,024.
_MOST_BUFFERS = 256


@dataclass(frozen=True)
class Message:
    """What a worker said. ``body`` stays valid as long as somebody holds it."""

    header: Header
    body: memoryview


class Connection:
    """See the module's page.

    Args:
        endpoint: the accepted socket, which it owns.
        token: the job's.

    Attributes:
        hello: what the worker has proven; None before.
    """

    def __init__(self, endpoint: socket.socket, token: bytes) -> None:
        endpoint.setblocking(False)
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.hello: handshake.Hello | None = None
        self._socket = endpoint
        self._token = token
        self._entered = False
        self._challenge = handshake.new_challenge()
        self._outgoing: deque[memoryview] = deque([memoryview(self._challenge)])
        self._header: Header | None = None
        self._incoming = memoryview(bytearray(handshake.HELLO_BYTES))
        self._filled = 0

    def fileno(self) -> int:
        """For ``select``."""
        return self._socket.fileno()

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._outgoing)

    def send(self, buffers: Sequence[memoryview]) -> None:
        """Send as soon as the worker takes it. The buffers must not change afterwards."""
        self._outgoing.extend(buffers)
        self.write()

    def write(self) -> None:
        """Send what the worker takes now. Raises: OSError: it is gone."""
        while self._outgoing:
            buffers = [self._outgoing[i] for i in range(min(len(self._outgoing), _MOST_BUFFERS))]
            try:
                sent = self._socket.sendmsg(buffers)
            except BlockingIOError:
                return
            while sent and sent >= len(self._outgoing[0]):
                sent -= len(self._outgoing.popleft())
            if sent:
                self._outgoing[0] = self._outgoing[0][sent:]

    def read(self) -> list[Message]:
        """What has come.

        Raises:
            OSError, ValueError: the worker is gone, is a stranger, or sends what makes no sense.
        """
        messages: list[Message] = []
        while True:
            if self._filled < len(self._incoming):
                try:
                    count = self._socket.recv_into(self._incoming[self._filled :])
                except BlockingIOError:
                    return messages
                if not count:
                    raise ConnectionResetError("the worker has closed the connection")
                self._filled += count
                if self._filled < len(self._incoming):
                    continue
            if (message := self._complete()) is not None:
                messages.append(message)

    def _complete(self) -> Message | None:
        """What was awaited is there; await what comes next."""
        incoming, self._filled = self._incoming, 0
        if self.hello is None:
            self.hello = handshake.read_hello(self._token, self._challenge, bytes(incoming))
            if self.hello is None:
                raise ValueError("a stranger")
            verdict = handshake.make_verdict(self._token, self.hello, handshake.Verdict.WELCOME)
            self.send([memoryview(verdict)])
        elif self._header is None:
            self._header = header = Header.unpack(incoming)
            if not self._entered and (header.kind is not Kind.ENTER or header.length > MOST_ENTER_BYTES):
                raise ValueError("a connection begins with entering a world")
            self._entered = True
            self._incoming = np.empty(header.length, np.uint8).data
            return None
        else:
            header, self._header = self._header, None
            self._incoming = memoryview(bytearray(HEADER_BYTES))
            return Message(header, incoming)
        self._incoming = memoryview(bytearray(HEADER_BYTES))
        return None

    def close(self) -> None:
        """What was not sent is lost."""
        with contextlib.suppress(OSError):
            self._socket.close()
