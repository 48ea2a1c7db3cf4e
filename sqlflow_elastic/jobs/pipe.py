"""The pipe from a job's master to its session, which may read slowly, late, or never: the master waits for it nowhere.

What the pipe has not taken when the master ends is left in the job's folder, and the session reads on there.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from sqlflow_elastic.elastic.folder import JobFolder, write_text
from sqlflow_elastic.events import Event
from sqlflow_elastic.jobs.master.backlog import Backlog, Waiting

#: What a master writes when it has nothing to say, so that its session sees that it lives: an empty line.
_BEAT = Waiting(Event(), "", 0.0)


class SessionPipe:
    """A master's end. Takes events in any thread, and writes their lines in one of its own.

    Args:
        descriptor: to write to; it is made one that does not block.
        folder: the job's.
        gone: called once, in this object's thread, when nobody reads any more.
    """

    def __init__(self, descriptor: int, folder: JobFolder, gone: Callable[[], None]) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._unread = _unread(folder)
        self._gone = gone
        self._backlog = Backlog()
        self._closed = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="session", daemon=True)
        self._thread.start()

    def put(self, waiting: Waiting) -> None:
        """Take an event."""
        self._backlog.put(waiting)

    def beat(self) -> None:
        """The master lives: its session hears it, see `jobs.job`."""
        if self._backlog.empty:
            self._backlog.put(_BEAT)

    def close(self) -> None:
        """Hand on what waits, to the pipe as far as it takes it at once, then to the folder."""
        self._backlog.close()
        self._closed = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)

    def _run(self) -> None:
        left = b""
        try:
            while not left and (waiting := self._backlog.take()) is not None:
                left = self._write(f"{waiting.line}\n".encode())
        except OSError:
            self._backlog.close()
            self._gone()
            return
        if left:
            self._leave(left)

    def _write(self, data: bytes) -> bytes:
        """Write as soon as the session reads; returns what it has not when this is closed. Raises: OSError: gone."""
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                if self._closed:
                    return data
                select.select([self._wake], [self._descriptor], [])
        return data

    def _leave(self, left: bytes) -> None:
        pieces = [left.decode()]
        while (waiting := self._backlog.take()) is not None:
            pieces.append(f"{waiting.line}\n")
        try:
            write_text(self._unread, "".join(pieces))
        except OSError as error:
            sys.stderr.write(f"{self._unread} cannot be written: {error}\n")


def take_unread(folder: JobFolder) -> bytes:
    """What the pipe of a master that has ended did not take: its bytes go on with these. Empty when called again."""
    path = _unread(folder)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return b""
    path.unlink()
    return data


def _unread(folder: JobFolder) -> Path:
    return folder.path / "unread.jsonl"
