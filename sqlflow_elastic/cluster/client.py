"""The way to a local cluster over its socket: for a master, and for the process that holds the cluster itself alike.

Each request has a connection of its own. So nothing is shared between threads, and nothing is out of step after a
request that failed.
"""

from __future__ import annotations

import builtins
import contextlib
import signal
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from sqlflow_elastic.cluster.base import (
    GRACE_SECONDS,
    AlreadyStarted,
    Cluster,
    Process,
    ProcessSpec,
    Status,
    Watch,
)
from sqlflow_elastic.cluster.channel import is_own, receive
from sqlflow_elastic.cluster.messages import WrongMessage, decode, encode, from_spec, to_status
from sqlflow_elastic.errors import JobError

_SECONDS = 10.0
_KILL_SECONDS = 10.0
_LOST = -signal.SIGKILL
_TIME = struct.Struct("@ll")  # seconds, microseconds


def connect(address: str) -> Cluster:
    """The cluster that listens at this address (`Cluster.address`): for a master, that has it in its environment.

    Its `close` lets go of the cluster, which goes on. Blocks for 10 seconds at most.

    Raises: JobError: nobody listens there, or somebody else's process.
    """
    return Client(address)


class LocalProcess(Process):
    """A process seen through its control socket (see `messages`).

    Args:
        control: the socket; closed with this object.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._pid: int | None = None
        self._exit_code: int | None = None
        self._failure: str | None = None

    def __del__(self) -> None:
        self._control.close()

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
        while self._exit_code is None and self._failure is None:
            try:
                message = self._receive(deadline)
            except TimeoutError:
                return None
            self._pid = message.get("pid", self._pid)
            self._exit_code = message.get("exit")
            self._failure = message.get("failure")
        if self._failure is not None:
            raise JobError(self._failure)
        return self._exit_code

    def terminate(self, grace: float = GRACE_SECONDS) -> int:
        """See `Process.terminate`."""
        self._send({"terminate": grace})
        try:
            exit_code = self.wait(grace + _KILL_SECONDS)
        except JobError:  # there was nothing to terminate
            return _LOST
        except BaseException:  # a second Ctrl-C while waiting: no more grace
            self.kill()
            raise
        return _LOST if exit_code is None else exit_code

    def kill(self) -> None:
        """See `Process.kill`."""
        self._send({"kill": True})

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # ended, or the cluster has: `wait` tells
            self._control.send(encode(message))

    def _receive(self, deadline: float | None) -> dict[str, Any]:
        """The next message; an exit when the cluster is gone. Raises: TimeoutError."""
        self._control.settimeout(None if deadline is None else max(1e-6, deadline - time.monotonic()))
        data, _ = receive(self._control)
        return decode(data) if data else {"exit": _LOST}


class LocalWatch(Watch):
    """A connection that statuses come over.

    Args:
        connection: closed with this object.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._statuses: list[Status] = []

    def fileno(self) -> int:
        """See `Watch.fileno`."""
        return self._connection.fileno()

    def next(self, seconds: float) -> list[Status]:
        """See `Watch.next`."""
        with contextlib.suppress(TimeoutError):
            return self.whole(seconds)
        return []

    def whole(self, seconds: float) -> list[Status]:
        """As `next`. Raises: TimeoutError: nothing has changed; the first state has not come whole."""
        deadline = time.monotonic() + seconds
        more = True
        while more:
            self._connection.settimeout(max(1e-6, deadline - time.monotonic()))
            data, _ = receive(self._connection)
            if not data:
                raise JobError("the cluster has ended")
            message = decode(data)
            self._statuses += map(to_status, message["statuses"])
            more = message["more"]
        statuses, self._statuses = self._statuses, []
        return statuses

    def close(self) -> None:
        """See `Watch.close`."""
        self._connection.close()


class Client(Cluster):
    """See `Cluster` for the guarantees, and `connect`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.slots = self._ask({"do": "describe"})["slots"]

    def warm_up(self) -> None:
        """See `Cluster.warm_up`."""
        self._ask({"do": "warm_up"})

    def start(self, spec: ProcessSpec) -> Process:
        """See `Cluster.start`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = LocalProcess(ours)
        with theirs:
            try:
                request = {"do": "start", **from_spec(spec)}
                self._ask(request, [theirs.fileno(), *spec.descriptors.values()])
            except WrongMessage as error:
                raise JobError(f"no process could be started: {error}") from error
        return process

    def list(self, job: str | None = None) -> builtins.list[Status]:
        """See `Cluster.list`."""
        with self._watch(job) as watch:
            try:
                return watch.whole(_SECONDS)
            except TimeoutError as error:
                raise JobError("the cluster does not answer") from error

    def watch(self, job: str | None = None) -> Watch:
        """See `Cluster.watch`."""
        return self._watch(job)

    def terminate(self, job: str, name: str, grace: float = GRACE_SECONDS) -> None:
        """See `Cluster.terminate`."""
        self._ask({"do": "terminate", "job": job, "name": name, "grace": grace})

    def kill(self, job: str, name: str) -> None:
        """See `Cluster.kill`."""
        self._ask({"do": "kill", "job": job, "name": name})

    def forget(self, job: str) -> None:
        """See `Cluster.forget`."""
        if not job:
            raise ValueError("anonymous processes belong to their handles")
        self._ask({"do": "forget", "job": job})

    def free(self) -> int:
        """See `Cluster.free`."""
        free: int = self._ask({"do": "describe"})["free"]
        return free

    def close(self) -> None:
        """Nothing is held."""

    def _watch(self, job: str | None) -> LocalWatch:
        return LocalWatch(self._send({"do": "watch", "job": job}, []))

    def _ask(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Send a request; its reply. Raises: AlreadyStarted, JobError."""
        with self._send(message, descriptors) as connection:
            try:
                data, _ = receive(connection)
            except OSError as error:
                raise JobError("the cluster does not answer") from error
        if not data:
            raise JobError("the cluster has ended")
        reply = decode(data)
        if "error" in reply:
            raise (AlreadyStarted if reply["started"] else JobError)(reply["error"])
        return reply

    def _send(self, message: dict[str, Any], descriptors: Sequence[int]) -> socket.socket:
        """A connection over which the request was sent."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            # In the kernel's way, as only so a full queue of connections is waited for.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(int(_SECONDS), 0))
            connection.connect(self.address.replace("@", "\0", 1))
            if not is_own(connection):
                raise PermissionError("it is another user's")  # noqa: TRY301 told like the kernel's own refusals
            connection.settimeout(_SECONDS)
            socket.send_fds(connection, [encode(message)], descriptors)
        except OSError as error:
            connection.close()
            raise JobError(f"the cluster cannot be reached: {error.strerror or error}") from error
        except BaseException:
            connection.close()
            raise
        return connection
