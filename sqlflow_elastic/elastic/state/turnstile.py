"""A lock among processes that is fair: nobody who comes later passes one who waits.

The kernel gives it back when its holder is killed, whatever the moment.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_SECONDS = 0.001
#: The bytes of the file that are locked: one is held by the first of those who wait, the other by who has gone through.
_WAITING, _THROUGH = 0, 1


class Turnstile:
    """The lock behind a file, which is made if it does not exist. Objects of one process exclude each other too.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def passed(self, seconds: float) -> Iterator[None]:
        """Hold the lock.

        Raises:
            TimeoutError: it was not to be had within so many seconds.
        """
        deadline = time.monotonic() + seconds
        self._take(_WAITING, deadline)
        try:
            self._take(_THROUGH, deadline)
        finally:
            self._lock(_WAITING, fcntl.F_UNLCK)
        try:
            yield
        finally:
            self._lock(_THROUGH, fcntl.F_UNLCK)

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)

    def _take(self, byte: int, deadline: float) -> None:
        while True:
            try:
                return self._lock(byte, fcntl.F_WRLCK)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TimeoutError from None
                time.sleep(_POLL_SECONDS)

    def _lock(self, byte: int, kind: int) -> None:
        # Locks of the open file, not of the process: those are lost when any part of the process closes the file.
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", kind, os.SEEK_SET, byte, 1, 0))
