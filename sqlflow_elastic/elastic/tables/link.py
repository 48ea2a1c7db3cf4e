"""A worker's connection to one server."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np

from sqlflow_elastic.elastic.comm import WorldBroken, address, handshake
from sqlflow_elastic.elastic.comm.base import Place
from sqlflow_elastic.elastic.tables.wire import HEADER_BYTES, Header

_MOST_BUFFERS = 256


class Link:
    """Messages to and from one server; see `client.Session` for who may call what.

    Attributes:
        name: the server's.
        sent, received: bytes.
    """

    def __init__(self, name: str, endpoint: socket.socket, deadline: float) -> None:
        self.name = name
        self.sent = self.received = 0
        self._socket = endpoint
        self._deadline = deadline
        self._heard = time.monotonic()
        self._aborted: str | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._closed = False
        self._lock = threading.Lock()
        self._header: Header | None = None
        self._incoming = memoryview(bytearray(HEADER_BYTES))
        self._filled = 0

    @classmethod
    def dial(cls, name: str, at: str, token: bytes, place: Place, seconds: float, deadline: float) -> Self:
        """Connect, and prove to each other that both know the token. Raises: WorldBroken."""
        family, where = address.parse(at)
        endpoint = socket.socket(family, socket.SOCK_STREAM)
        try:
            endpoint.settimeout(seconds)
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            endpoint.connect(where)
            _prove(endpoint, token, place)
        except OSError as error:
            endpoint.close()
            raise WorldBroken(f"{name} cannot be reached: {error}") from None
        endpoint.setblocking(False)
        return cls(name, endpoint, deadline)

    def send(self, buffers: Sequence[memoryview], receive: Callable[[], None] | None = None) -> None:
        """Send a message; while the server does not take it, ``receive`` takes in what it sends.

        Raises: WorldBroken.
        """
        left = list(buffers)
        self._heard = time.monotonic()
        while left:
            try:
                sent = self._socket.sendmsg(left[:_MOST_BUFFERS])
            except BlockingIOError:
                self._await(select.POLLOUT | (select.POLLIN if receive else 0))
                if receive is not None:
                    receive()
                continue
            except OSError as error:
                raise self._broken(str(error)) from None
            self._heard = time.monotonic()
            self.sent += sent
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = left[0][sent:]

    def read(self) -> Iterator[tuple[Header, memoryview]]:
        """The messages that have come. Raises: WorldBroken."""
        while True:
            while self._filled < len(self._incoming):
                try:
                    count = self._socket.recv_into(self._incoming[self._filled :])
                except BlockingIOError:
                    self._check()
                    return
                except OSError as error:
                    raise self._broken(str(error)) from None
                if not count:
                    raise self._broken("it closed the connection")
                self._filled += count
                self.received += count
                self._heard = time.monotonic()
            incoming, self._filled = self._incoming, 0
            if self._header is None:
                try:
                    self._header = Header.unpack(incoming)
                except ValueError as error:
                    raise self._broken(str(error)) from None
                self._incoming = np.empty(self._header.length, np.uint8).data
                continue
            header, self._header = self._header, None
            self._incoming = memoryview(bytearray(HEADER_BYTES))
            yield header, incoming

    def next(self, end: float) -> tuple[Header, memoryview]:
        """The next message, which comes before a moment of the monotonic clock. Raises: WorldBroken."""
        while True:
            for said in self.read():
                return said
            seconds = end - time.monotonic()
            if seconds <= 0:
                raise self._broken("it did not answer in time")
            self._poll(select.POLLIN, seconds)

    @staticmethod
    def wait(links: Sequence[Link], since: float | None) -> None:
        """Block until one of them has something to read.

        Args:
            links: at least one, with one deadline.
            since: when the wait of which this is a part began, by the monotonic clock; None: for however long.

        Raises:
            WorldBroken: none of them said anything for the deadline.
        """
        poll = select.poll()
        for link in links:
            link._check()
            poll.register(link._socket, select.POLLIN)
            poll.register(link._wake, select.POLLIN)
        if since is None:
            poll.poll()
            return
        quietest = min(links, key=lambda link: link._heard)
        heard = max(since, *(link._heard for link in links))
        seconds = heard + quietest._deadline - time.monotonic()
        if seconds <= 0 or not poll.poll(seconds * 1000):
            raise quietest._broken(f"it was silent for {quietest._deadline:.3g} s")

    def abort(self, reason: str) -> None:
        """What blocks raises `WorldBroken` with this reason, and so does what is called later. For any thread."""
        with self._lock:
            self._aborted = self._aborted or reason
            if not self._closed:
                os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """End it. Closing twice does nothing."""
        with self._lock:  # `abort` may be at the descriptor
            if not self._closed:
                self._closed = True
                self._aborted = self._aborted or "closed"
                self._socket.close()
                os.close(self._wake)

    def _check(self) -> None:
        if self._aborted is not None:
            raise WorldBroken(self._aborted)

    def _await(self, events: int) -> None:
        seconds = self._heard + self._deadline - time.monotonic()
        if seconds <= 0 or not self._poll(events, seconds):
            raise self._broken(f"it took nothing for {self._deadline:.3g} s")

    def _poll(self, events: int, seconds: float) -> bool:
        self._check()
        poll = select.poll()
        poll.register(self._socket, events)
        poll.register(self._wake, select.POLLIN)
        ready = bool(poll.poll(seconds * 1000))
        self._check()
        return ready

    def _broken(self, why: str) -> WorldBroken:
        return WorldBroken(self._aborted or f"{self.name}: {why}")


def _prove(endpoint: socket.socket, token: bytes, place: Place) -> None:
    """Raises: OSError: the other side does not know the token, or does not answer."""
    challenge = _exactly(endpoint, handshake.CHALLENGE_BYTES)
    hello = handshake.make_hello(token, place, challenge)
    endpoint.sendall(hello)
    verdict = _exactly(endpoint, handshake.VERDICT_BYTES)
    if handshake.read_verdict(token, challenge + hello, verdict) is not handshake.Verdict.WELCOME:
        raise OSError("it does not know the job's token")


def _exactly(endpoint: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = endpoint.recv(count - len(data))
        if not piece:
            raise OSError("it closed the connection")
        data += piece
    return data
