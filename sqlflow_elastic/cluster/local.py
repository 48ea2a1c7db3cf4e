"""Processes on this machine, forked from one idle process that has TensorFlow imported (see `forkserver`)."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO

from sqlflow_elastic.cluster.base import GRACE_SECONDS, Cluster, Process, ProcessSpec
from sqlflow_elastic.cluster.forkserver import MESSAGE_BYTES
from sqlflow_elastic.errors import JobError

#: What a job's program needs and what is slow to import.
PRELOAD = (
    "tensorflow",
    "keras",
    *(f"sqlflow_elastic.elastic.{part}" for part in ("training", "evaluating", "predicting")),
    "sqlflow_elastic.datasource",
)

_KILL_SECONDS = 10.0
_LOST = -signal.SIGKILL


class LocalProcess(Process):
    """A child of the fork server, seen through its control socket.

    Args:
        control: the socket; closed with this object.
        last_words: what the fork server said at last, for an error message.
    """

    def __init__(self, control: socket.socket, last_words: Callable[[], str]) -> None:
        self._control = control
        self._last_words = last_words
        self._pid: int | None = None
        self._pidfd = -1
        self._exit_code: int | None = None

    def __del__(self) -> None:
        self._control.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)

    @property
    def pid(self) -> int | None:
        """See `Process.pid`."""
        return self._pid

    def fileno(self) -> int:
        """See `Process.fileno`."""
        return self._control.fileno()

    def wait(self, seconds: float | None) -> int | None:
        """See `Process.wait`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while self._exit_code is None:
            try:
                message = self._receive(deadline)
            except TimeoutError:
                return None
            if message is None:
                self._exit_code = self._lost()
            elif "pid" in message:
                self._pid = message["pid"]
                with contextlib.suppress(ProcessLookupError):  # has come and gone
                    self._pidfd = os.pidfd_open(self._pid)
            else:
                self._exit_code = message["exit"]
        return self._exit_code

    def terminate(self, grace: float = GRACE_SECONDS) -> int:
        """See `Process.terminate`."""
        if self.wait(0) is None and self._pid is None:
            self._control.close()
            self._exit_code = _LOST
            return _LOST
        try:
            self._signal(signal.SIGTERM)
            exit_code = self.wait(grace)
        except BaseException:  # a second Ctrl-C while waiting: no more grace
            self.kill()
            raise
        if exit_code is None:
            self.kill()
            exit_code = self.wait(_KILL_SECONDS)
        return _LOST if exit_code is None else exit_code

    def kill(self) -> None:
        """See `Process.kill`."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):  # ended, or the fork server has: `wait` tells
            self._control.send(json.dumps({"signal": number}).encode())

    def _receive(self, deadline: float | None) -> dict[str, int] | None:
        """The next message; None when the fork server is gone. Raises: TimeoutError."""
        self._control.settimeout(None if deadline is None else max(1e-6, deadline - time.monotonic()))
        try:
            message = self._control.recv(MESSAGE_BYTES)
        except ConnectionError:
            return None
        return json.loads(message) if message else None

    def _lost(self) -> int:
        """The fork server has died; the kernel kills its children then. See that it has happened."""
        if self._pid is None:
            raise JobError(f"no process could be started: the fork server has ended{self._last_words()}")
        if self._pidfd >= 0:
            select.select([self._pidfd], [], [], _KILL_SECONDS)
        return _LOST


class LocalCluster(Cluster):
    """See `Cluster` for the guarantees.

    Args:
        preload: modules imported before the first process is forked.
    """

    def __init__(self, preload: tuple[str, ...] = PRELOAD) -> None:
        self._preload = preload
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._log: IO[bytes] | None = None

    def warm_up(self) -> None:
        """Start the fork server, which imports TensorFlow meanwhile."""
        with self._lock:
            self._connect()

    def start(self, spec: ProcessSpec) -> Process:
        """Fork a process. The first one is pending until TensorFlow is imported."""
        request = {
            "program": str(spec.program),
            "log": str(spec.log),
            "directory": str(spec.directory),
            "environment": dict(spec.environment),
            "descriptors": list(spec.descriptors),
        }
        try:
            control = self._request(json.dumps(request).encode(), list(spec.descriptors.values()))
        except OSError as error:
            raise JobError(f"no process could be started: {error}{self._last_words()}") from error
        return LocalProcess(control, self._last_words)

    def close(self) -> None:
        """End the fork server; its end ends its children."""
        with self._lock:
            self._disconnect()

    def _request(self, message: bytes, descriptors: list[int]) -> socket.socket:
        """Send a request; our end of the new process's control socket."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._lock:
            try:
                socket.send_fds(self._connect(), [message], [theirs.fileno(), *descriptors])
            except ConnectionError:  # it has died since it was last looked at
                self._disconnect()
                socket.send_fds(self._connect(), [message], [theirs.fileno(), *descriptors])
        return ours

    def _connect(self) -> socket.socket:
        """The socket to a fork server that was alive just now. The lock is held."""
        if self._socket is not None and self._server is not None and self._server.poll() is None:
            return self._socket
        self._disconnect()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 lives as long as the server
        with theirs:
            self._server = subprocess.Popen(
                # -P: a file of the user's directory must not stand in for a module
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "sqlflow_elastic.cluster.forkserver",
                    str(theirs.fileno()),
                    *self._preload,
                ],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # the terminal's Ctrl-C is the session's to handle
                env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, "KERAS_BACKEND": "tensorflow"},
            )
        self._socket = ours
        return ours

    def _disconnect(self) -> None:
        """End the fork server, if there is one. The lock is held."""
        if self._socket is not None and self._server is not None:
            ready = _is_readable(self._socket)
            self._socket.close()  # when it is ready, it kills its children now and goes
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(_KILL_SECONDS if ready else 0)
            self._server.kill()  # still importing, or hangs: the kernel kills its children with it
            self._server.wait()
            self._socket = self._server = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _last_words(self) -> str:
        """What the fork server wrote at last, for an error message."""
        with self._lock:
            if self._log is None:
                return ""
            self._log.seek(0)
            lines = self._log.read().decode(errors="replace").strip().splitlines()
        return "".join(f"\n  {line}" for line in lines[-10:])


def _is_readable(one: socket.socket) -> bool:
    return bool(select.select([one], [], [], 0)[0])
