"""One end of a socket that carries messages and descriptors (SOCK_SEQPACKET), for a loop that must never wait."""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque
from collections.abc import Sequence

#: The longest message.
MESSAGE_BYTES = 1 << 16

#: The most descriptors that go with one.
MAX_DESCRIPTORS = 16

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class Channel:
    """A non-blocking end. What the other side does not take yet waits here, in order; who sends keeps that bounded.

    Args:
        end: the socket; closed with this object.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._unsent: deque[tuple[bytes, Sequence[int]]] = deque()

    def fileno(self) -> int:
        """For the selector; -1 when closed."""
        return self._end.fileno()

    @property
    def is_idle(self) -> bool:
        """Whether the other side has room for more, as far as is known."""
        return not self._unsent

    def send(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send it, or keep it for `flush`. The descriptors are closed when they are sent, or with the channel."""
        self._unsent.append((message, descriptors))
        self.flush()

    def flush(self) -> None:
        """Send what the other side takes now. If it is gone, that is told by `receive`."""
        while self._unsent:
            message, descriptors = self._unsent[0]
            try:
                socket.send_fds(self._end, [message], descriptors)
            except ConnectionError:
                pass  # nobody is there to take it
            except OSError:
                return  # no room there, or in the kernel: later
            self._unsent.popleft()
            close_all(descriptors)

    def receive(self) -> tuple[bytes, list[int]] | None:
        """A message and its descriptors; an empty one if the other side is gone; None if there is none now."""
        try:
            return receive(self._end)
        except BlockingIOError:
            return None

    def close(self) -> None:
        """Close the socket, and the descriptors of what was not sent. Closing twice is fine."""
        for _, descriptors in self._unsent:
            close_all(descriptors)
        self._unsent.clear()
        self._end.close()


def receive(end: socket.socket) -> tuple[bytes, list[int]]:
    """A message and its descriptors; an empty one when the other side is gone, and all it had sent is received.

    When this process can have no more open files, no descriptor comes; a message that is too long is cut.

    Raises: TimeoutError, BlockingIOError: as the socket is set to.
    """
    space = socket.CMSG_SPACE(array.array("i").itemsize * MAX_DESCRIPTORS)
    try:
        message, ancillary, flags, _ = end.recvmsg(MESSAGE_BYTES, space, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:  # it has left something unread; told once, and what it sent comes all the same
        message, ancillary, flags, _ = end.recvmsg(MESSAGE_BYTES, space, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, part in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(part[: len(part) - len(part) % descriptors.itemsize])
    if flags & socket.MSG_CTRUNC:
        close_all(descriptors)
        return message, []
    return message, descriptors.tolist()


def close_all(descriptors: Sequence[int]) -> None:
    """Close descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)


def is_own(end: socket.socket) -> bool:
    """Whether the other side is a process of the same user."""
    credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())
