"""One attempt of a member to find both its neighbours in a new world: one loop over non-blocking sockets, no threads.

It dials the next member and answers whoever dials it. Three kinds of callers come: the previous member of this world; a
member of a later world, which is kept for the meeting of that world; and strangers, of whom a bounded number is heard
at a time, for a bounded time, and for as many bytes as a hello has. A member of an earlier world is refused.

A world that cannot come about any more is not waited for. It is over when a member of a later world dials: its place is
next to this one, so this one stands in that world too, and worlds come one after the other. And it is over when a
neighbour that was found closes its connection: who closed it has given the world up.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlflow_elastic.elastic.comm import address, handshake
from sqlflow_elastic.elastic.comm.base import Place, WorldBroken
from sqlflow_elastic.elastic.comm.handshake import Hello, Verdict

#: Callers that have proven nothing yet: above, the one that came first is dropped.
MAX_STRANGERS = 64
STRANGER_SECONDS = 5.0
#: After a connection was lost on the way.
REDIAL_SECONDS = 0.05
#: Of the kernel's buffers, where it grants them.
SOCKET_BUFFER_BYTES = 4 << 20


@dataclass(frozen=True)
class Early:
    """A member of a later world that has proven itself and waits for the verdict."""

    connection: socket.socket
    hello: Hello


@dataclass
class _Stranger:
    """Somebody who dialled and has proven nothing yet."""

    connection: socket.socket
    challenge: bytes
    until: float
    heard: bytearray = field(default_factory=bytearray)


@dataclass
class _Call:
    """This member's own connection to the next one."""

    connection: socket.socket
    connected: bool = False
    transcript: bytes = b""
    heard: bytearray = field(default_factory=bytearray)


class Meeting:
    """See above. Everything but the two sockets that `run` returns and ``early`` is closed when `run` ends.

    Args:
        listener: non-blocking; stays open.
        wake: an eventfd that makes `run` look at ``given_up``.
        token: the job's.
        place: where this member will stand.
        early: members of later worlds; changed in place. At most `MAX_STRANGERS`: they end the turn they are heard in.
        given_up: whether to stop.
    """

    def __init__(
        self,
        listener: socket.socket,
        wake: int,
        token: bytes,
        place: Place,
        early: list[Early],
        given_up: Callable[[], bool],
    ) -> None:
        self._listener = listener
        self._wake = wake
        self._token = token
        self._place = place
        self._early = early
        self._given_up = given_up
        self._previous_rank = (place.rank - 1) % place.size
        self._next_rank = (place.rank + 1) % place.size
        self._family, self._next_address = address.parse(place.next)
        self._strangers: dict[socket.socket, _Stranger] = {}
        self._call: _Call | None = None
        self._redial_at = 0.0
        self._previous: socket.socket | None = None
        self._next: socket.socket | None = None

    def run(self, seconds: float) -> tuple[socket.socket, socket.socket]:
        """The connections from the previous and to the next member, both proven, non-blocking.

        Raises: WorldBroken: not within the time, or not at all any more.
        """
        deadline = time.monotonic() + seconds
        try:
            with selectors.DefaultSelector() as self._selector, select.epoll() as self._ends:
                self._selector.register(self._wake, selectors.EVENT_READ)
                self._selector.register(self._listener, selectors.EVENT_READ)
                self._selector.register(self._ends, selectors.EVENT_READ)
                self._greet_early()
                while self._previous is None or self._next is None:
                    self._turn(deadline)
        except BaseException:
            for connection in (self._previous, self._next):
                if connection is not None:
                    connection.close()
            raise
        finally:
            for stranger in self._strangers.values():
                stranger.connection.close()
            if self._call is not None:
                self._call.connection.close()
        return self._previous, self._next

    def _turn(self, deadline: float) -> None:
        """Wait for the next thing to happen, and do what it asks for."""
        if self._given_up():
            raise WorldBroken(f"world {self._place.version} was given up")
        if self._early:
            later = max(member.hello.version for member in self._early)
            raise WorldBroken(f"world {later} has followed world {self._place.version}")
        now = time.monotonic()
        if now >= deadline:
            raise self._missed()
        for stranger in [stranger for stranger in self._strangers.values() if stranger.until <= now]:
            self._drop(stranger)
        if self._next is None and self._call is None and now >= self._redial_at:
            self._dial()
        until = min([deadline, *(stranger.until for stranger in self._strangers.values())])
        if self._next is None and self._call is None:
            until = min(until, self._redial_at)
        for key, _ in self._selector.select(max(0.0, until - now)):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj == self._wake:
                os.eventfd_read(self._wake)
            elif key.fileobj is self._ends:
                self._check_ends()
            elif self._call is not None and key.fileobj is self._call.connection:
                self._go_on(self._call)
            elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._strangers:
                self._hear(self._strangers[key.fileobj])

    def _missed(self) -> WorldBroken:
        found = {self._previous_rank: self._previous, self._next_rank: self._next}
        missing = [rank for rank, connection in found.items() if connection is None]
        said = " and ".join(f"rank {rank}" for rank in missing)
        suspect = missing[0] if len(missing) == 1 else None
        return WorldBroken(f"{said} did not come to world {self._place.version} in time", suspect)

    # Those who were found.

    def _watch(self, neighbour: socket.socket) -> None:
        """See its end, whatever it has sent before: a ring that is whole on its side may sum already."""
        self._ends.register(neighbour, select.EPOLLRDHUP)

    def _check_ends(self) -> None:
        for descriptor, _ in self._ends.poll(0):
            is_next = self._next is not None and self._next.fileno() == descriptor
            rank = self._next_rank if is_next else self._previous_rank
            raise WorldBroken(f"rank {rank} has left world {self._place.version} again")

    # The one that this member dials.

    def _dial(self) -> None:
        connection = socket.socket(self._family, socket.SOCK_STREAM)
        self._call = _Call(connection)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _enlarge(connection, socket.SO_SNDBUF)
        error = connection.connect_ex(self._next_address)
        if error in (0, errno.EINPROGRESS):
            self._selector.register(connection, selectors.EVENT_WRITE)
        else:
            self._hang_up(error)

    def _go_on(self, call: _Call) -> None:
        if not call.connected:
            error = call.connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            # A port that nobody listens on may be the one that the kernel gave to this very socket.
            if not error and _is_its_own_peer(call.connection):
                error = errno.ECONNREFUSED
            if error:
                self._hang_up(error)
                return
            call.connected = True
            self._selector.modify(call.connection, selectors.EVENT_READ)
            return
        expected = handshake.VERDICT_BYTES if call.transcript else handshake.CHALLENGE_BYTES
        if not _read(call.connection, call.heard, expected):
            self._hang_up(0)
        elif len(call.heard) == expected:
            said = bytes(call.heard)
            call.heard.clear()
            if not call.transcript:
                hello = handshake.make_hello(self._token, self._place, said)
                call.transcript = said + hello
                if not _say(call.connection, hello):
                    self._hang_up(0)
            else:
                self._conclude(call, handshake.read_verdict(self._token, call.transcript, said))

    def _conclude(self, call: _Call, verdict: Verdict | None) -> None:
        if verdict is Verdict.WELCOME:
            self._selector.unregister(call.connection)
            self._next, self._call = call.connection, None
            self._watch(self._next)
        elif verdict is Verdict.REFUSED:
            raise WorldBroken(f"rank {self._next_rank} stands in another world than {self._place.version}")
        else:
            raise WorldBroken(f"what answers for rank {self._next_rank} is no member of the job", self._next_rank)

    def _hang_up(self, error: int) -> None:
        """The call has failed: dial again in a moment, unless nobody listens there any more."""
        if self._call is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._call.connection)
            self._call.connection.close()
            self._call = None
        if error == errno.ECONNREFUSED:
            raise WorldBroken(f"rank {self._next_rank} does not listen any more", self._next_rank)
        self._redial_at = time.monotonic() + REDIAL_SECONDS

    # Those who dial this member.

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):  # gone again
            return
        if len(self._strangers) == MAX_STRANGERS:
            self._drop(next(iter(self._strangers.values())))
        stranger = _Stranger(connection, handshake.new_challenge(), time.monotonic() + STRANGER_SECONDS)
        self._strangers[connection] = stranger
        self._selector.register(connection, selectors.EVENT_READ)
        connection.setblocking(False)
        if not _say(connection, stranger.challenge):
            self._drop(stranger)

    def _hear(self, stranger: _Stranger) -> None:
        if not _read(stranger.connection, stranger.heard, handshake.HELLO_BYTES):
            self._drop(stranger)
        elif len(stranger.heard) == handshake.HELLO_BYTES:
            hello = handshake.read_hello(self._token, stranger.challenge, bytes(stranger.heard))
            if hello is None:
                self._drop(stranger)
                return
            del self._strangers[stranger.connection]
            self._selector.unregister(stranger.connection)
            self._answer(Early(stranger.connection, hello))

    def _drop(self, stranger: _Stranger) -> None:
        del self._strangers[stranger.connection]
        self._selector.unregister(stranger.connection)
        stranger.connection.close()

    def _greet_early(self) -> None:
        """Those who came before this meeting did: it may be theirs now, or past theirs."""
        early, self._early[:] = list(self._early), []
        for member in early:
            if _lives(member.connection):
                self._answer(member)
            else:
                member.connection.close()

    def _answer(self, member: Early) -> None:
        """A member has proven itself: let it in, keep it for later, or refuse it."""
        hello = member.hello
        if hello.version > self._place.version:
            self._early.append(member)
            return
        here = (self._place.version, self._previous_rank, self._place.size)
        if (hello.version, hello.rank, hello.size) != here:
            _say(member.connection, handshake.make_verdict(self._token, hello, Verdict.REFUSED))
            member.connection.close()
        elif _say(member.connection, handshake.make_verdict(self._token, hello, Verdict.WELCOME)):
            # A stranger is left with the kernel's small default: it is not read, and could fill what it gets.
            _enlarge(member.connection, socket.SO_RCVBUF)
            if self._previous is not None:  # who dials twice has lost its first connection
                self._previous.close()
            self._previous = member.connection
            self._watch(self._previous)
        else:
            member.connection.close()


def _enlarge(connection: socket.socket, option: int) -> None:
    """Set a buffer's size if the kernel grants it all: a size that is cut is worse than what it finds by itself."""
    with socket.socket(connection.family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
        granted = probe.getsockopt(socket.SOL_SOCKET, option)
    if granted >= SOCKET_BUFFER_BYTES:
        connection.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)


def _is_its_own_peer(connection: socket.socket) -> bool:
    """Whether both ends are this one; not if the other has gone again already, which reading will tell."""
    try:
        return bool(connection.getsockname() == connection.getpeername())
    except OSError:
        return False


def _lives(connection: socket.socket) -> bool:
    """Whether one that waits for a verdict, and has nothing more to say, still waits."""
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _read(connection: socket.socket, heard: bytearray, expected: int) -> bool:
    """Read what is there, up to so many bytes in all; whether the connection lives."""
    try:
        data = connection.recv(expected - len(heard))
    except BlockingIOError:
        return True
    except OSError:
        return False
    heard += data
    return bool(data)


def _say(connection: socket.socket, message: bytes) -> bool:
    """Send a message that is smaller than an empty socket buffer; whether it went."""
    try:
        return connection.send(message) == len(message)
    except OSError:
        return False
