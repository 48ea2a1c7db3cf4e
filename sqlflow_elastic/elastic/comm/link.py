"""A ring member's two connections as one: bytes go to the next member while bytes come from the previous one.

Both sockets are non-blocking and one thread, the caller's, drives them: it sends what is queued as far as the kernel
takes it, receives what is there, and waits only when neither goes on. No helper thread wakes another on a step's path,
and while the caller adds numbers, the kernel's socket buffers keep both directions busy.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections import deque

from sqlflow_elastic.elastic.comm.base import WorldBroken

#: How often to look before sleeping, some 20 µs in all: neighbours in the same rhythm wait for less, and to sleep and
#: be woken takes longer, on a virtual machine much longer. Whoever else wants the core gets it in between.
_LOOKS = 20

_PREVIOUS_EVENTS = select.POLLIN
_NEXT_EVENTS = select.POLLOUT | select.POLLRDHUP


class Link:
    """See above.

    Args:
        previous: connected, non-blocking; only read. Closed with this object.
        next_: connected, non-blocking; only written. Closed with this object.
        ranks: of the previous and of the next member, to name a suspect.
        seconds: without a byte in or out until a member counts as gone.
    """

    def __init__(self, previous: socket.socket, next_: socket.socket, ranks: tuple[int, int], seconds: float) -> None:
        self._previous = previous
        self._next = next_
        self._previous_rank, self._next_rank = ranks
        self._seconds = seconds
        self._queue: deque[memoryview] = deque()
        self._idle = select.poll()
        self._idle.register(previous, _PREVIOUS_EVENTS)
        self._sending = select.poll()
        self._sending.register(next_, _NEXT_EVENTS)
        self._both = select.poll()
        self._both.register(previous, _PREVIOUS_EVENTS)
        self._both.register(next_, _NEXT_EVENTS)
        self._lock = threading.Lock()
        self._ended: WorldBroken | None = None

    def queue(self, data: memoryview) -> None:
        """Have bytes sent after those queued before. Their memory must not change until they are sent (see `drain`)."""
        if data:
            self._queue.append(data)

    def receive(self, target: memoryview) -> None:
        """Fill the target with the next bytes from the previous member, sending what is queued meanwhile.

        Raises: WorldBroken: a connection is closed, or the deadline has passed.
        """
        while target:
            sent = self._send()
            try:
                count = self._previous.recv_into(target)
            except BlockingIOError:
                if not sent:
                    self._wait(self._both if self._queue else self._idle)
                continue
            except OSError as error:
                raise self._lost(self._previous_rank, f"is gone ({error.strerror})") from None
            if not count:
                raise self._lost(self._previous_rank, "closed its connection")
            target = target[count:]

    def receive_bytes(self, count: int) -> bytearray:
        """The next bytes ``[count]`` from the previous member. Raises: WorldBroken, see `receive`."""
        data = bytearray(count)
        self.receive(memoryview(data))
        return data

    def drain(self, keep: int = 0) -> None:
        """Send until at most ``keep`` of the queued pieces are left. Raises: WorldBroken, see `receive`."""
        while len(self._queue) > keep:
            if not self._send():
                self._wait(self._sending)

    def end(self, broken: WorldBroken) -> None:
        """Let whoever uses it, and whoever will, raise this, and both neighbours see the end; from any thread.

        What it ended with first, stays.
        """
        with self._lock:
            if self._ended is None:
                # Without the frames that it came through, and all that they refer to.
                self._ended = WorldBroken(broken.reason, broken.suspect)
                for connection in (self._previous, self._next):
                    with contextlib.suppress(OSError):  # the peer was first
                        connection.shutdown(socket.SHUT_RDWR)

    @property
    def has_ended(self) -> bool:
        """Whether `end` was called."""
        return self._ended is not None

    def check(self) -> None:
        """Raises: WorldBroken: it has ended, with this."""
        if self._ended is not None:
            raise WorldBroken(self._ended.reason, self._ended.suspect)

    def close(self) -> None:
        """Free the sockets of a link that has ended. Only by the thread that uses them, or when none does."""
        with self._lock:  # `end` may be at the sockets
            self._queue.clear()
            self._previous.close()
            self._next.close()

    def _send(self) -> bool:
        """Send what goes without waiting; whether anything did."""
        some = False
        while self._queue:
            data = self._queue[0]
            try:
                count = self._next.send(data)
            except BlockingIOError:
                break
            except OSError as error:
                raise self._lost(self._next_rank, f"is gone ({error.strerror})") from None
            some = True
            if count == len(data):
                self._queue.popleft()
            else:
                # The kernel has taken what it has room for.
                self._queue[0] = data[count:]
                break
        return some

    def _wait(self, poll: select.poll) -> None:
        """Until a socket is ready. Every event leads to a byte or to an error, so this time is one without progress."""
        for _ in range(_LOOKS):
            if events := poll.poll(0):
                break
            os.sched_yield()
        else:
            events = poll.poll(self._seconds * 1000)
        if not events:
            # With bytes of ours waiting it is the next member who does not take them; its silence explains the other's.
            rank = self._next_rank if self._queue else self._previous_rank
            raise self._lost(rank, f"did nothing for {self._seconds:g} s")
        for descriptor, event in events:
            if descriptor == self._next.fileno() and event & (select.POLLHUP | select.POLLERR | select.POLLRDHUP):
                raise self._lost(self._next_rank, "closed its connection")

    def _lost(self, rank: int, what: str) -> WorldBroken:
        if self._ended is not None:
            return WorldBroken(self._ended.reason, self._ended.suspect)
        return WorldBroken(f"rank {rank} {what}", rank)
