"""A process's listening socket, open for its whole life: worlds come and go, its address stays."""

from __future__ import annotations

import os
import socket
import threading
from types import TracebackType
from typing import Self

from sqlflow_elastic.elastic.comm import address
from sqlflow_elastic.elastic.comm.alone import Alone
from sqlflow_elastic.elastic.comm.base import Communicator, Place, WireDtype, WorldBroken
from sqlflow_elastic.elastic.comm.link import Link
from sqlflow_elastic.elastic.comm.meeting import Early, Meeting
from sqlflow_elastic.elastic.comm.ring import Ring

STEP_DEADLINE_SECONDS = 30.0

_MIN_TOKEN_BYTES = 16
_BACKLOG = 128
#: Above the version of every world: all are given up.
_CLOSED = 2**63


class Endpoint:
    """Makes this process's communicators, one world after the other.

    Between two `connect` nobody is answered: who dials early waits in the kernel's queue, or is kept from the `connect`
    before.

    Args:
        token: the job's secret, at least 16 bytes; never sent or shown.
        host: a numeric address of this machine that the other members reach.
        step_deadline: seconds without a byte of progress after which a communicator's operation fails.
    """

    def __init__(
        self,
        token: bytes,
        host: str = "127.0.0.1",
        *,
        step_deadline: float = STEP_DEADLINE_SECONDS,
    ) -> None:
        if len(token) < _MIN_TOKEN_BYTES:
            raise ValueError(f"a token has at least {_MIN_TOKEN_BYTES} bytes")
        if not step_deadline > 0:
            raise ValueError(f"a step deadline is above 0 s, not {step_deadline}")
        family = address.family_of(host)
        self._token = token
        self._step_deadline = step_deadline
        self._early: list[Early] = []
        self._connecting = threading.Lock()
        self._state = threading.Lock()
        self._under_way: int | None = None
        self._given_up = -1
        self._closed = False
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._listener.setblocking(False)
            self._listener.bind((host, 0))
            self._listener.listen(_BACKLOG)
            self.address = address.join(host, self._listener.getsockname()[1])
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except BaseException:
            self._listener.close()
            raise

    def connect(self, place: Place, seconds: float, wire: WireDtype | None = None) -> Communicator:
        """Take a place in a world: both neighbours connected and proven.

        Args:
            place: the place.
            seconds: how long to try.
            wire: what floats travel in, at all members; their own dtype if None.

        Blocks until they are, for at most ``seconds``. A world of one is there at once.

        Raises:
            WorldBroken: a neighbour did not come in time or does not listen any more (it is the suspect), has gone on
                to another world or left this one again, or the world was given up here.
            ValueError: ``place.next`` is no address.
            RuntimeError: another thread is in this call.
        """
        if not self._connecting.acquire(blocking=False):
            if self._given_up == _CLOSED:  # `close` may be freeing it
                raise WorldBroken(f"world {place.version} was given up")
            raise RuntimeError("an endpoint is connected by one thread at a time")
        try:
            with self._state:
                self._under_way = place.version
            if self._is_given_up():
                raise WorldBroken(f"world {place.version} was given up")
            if place.size == 1:
                return Alone(place)
            meeting = Meeting(self._listener, self._wake, self._token, place, self._early, self._is_given_up)
            previous, next_ = meeting.run(seconds)
        finally:
            with self._state:
                self._under_way = None
            self._connecting.release()
            self._free()
        neighbours = ((place.rank - 1) % place.size, (place.rank + 1) % place.size)
        return Ring(place, Link(previous, next_, neighbours, self._step_deadline), wire)

    def cancel(self, version: int | None = None) -> None:
        """Give up worlds, from any thread: a `connect` of one under way raises `WorldBroken` at once.

        Args:
            version: this world and all before it, whose `connect` may also come later. None: the one under way, if any.
        """
        with self._state:
            if version is None:
                version = -1 if self._under_way is None else self._under_way
            self._given_up = max(self._given_up, version)
            if not self._closed:
                os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Listen no more; communicators live on. A `connect` under way raises `WorldBroken`. Does not block."""
        with self._state:
            self._given_up = _CLOSED
        self.cancel()
        self._free()

    def _is_given_up(self) -> bool:
        return self._under_way is not None and self._under_way <= self._given_up

    def _free(self) -> None:
        """Free the sockets after `close`, as soon as no `connect` uses them: each comes here at its end."""
        if self._given_up == _CLOSED and self._connecting.acquire(blocking=False):
            try:
                with self._state:
                    if not self._closed:
                        self._closed = True
                        os.close(self._wake)
                self._listener.close()
                for member in self._early:
                    member.connection.close()
                self._early.clear()
            finally:
                self._connecting.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
