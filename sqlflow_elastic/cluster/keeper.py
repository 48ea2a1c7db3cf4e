"""The thread that keeps the processes of a local cluster: it carries out what `scheduler` decides.

It waits for messages of those who use the cluster (see `messages`), of the fork server (see `forkserver`), and of the
kernel about children whose fork server was lost; all at once, and for nothing else.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlflow_elastic.cluster.base import AlreadyStarted, Phase, ProcessSpec, Status
from sqlflow_elastic.cluster.channel import Channel, close_all, is_own
from sqlflow_elastic.cluster.forking import ForkServer
from sqlflow_elastic.cluster.loop import Loop
from sqlflow_elastic.cluster.messages import WrongMessage, decode, encode, field, from_spec, grace, to_spec
from sqlflow_elastic.cluster.scheduler import (
    KILLED,
    Changed,
    Command,
    Forgotten,
    Key,
    Kill,
    Launch,
    Scheduler,
    Terminate,
)
from sqlflow_elastic.cluster.watcher import Watcher
from sqlflow_elastic.errors import JobError

_MAX_CONNECTIONS = 256
_SILENT_SECONDS = 10.0  # a connection must have said by then what it wants
_END_SECONDS = 10.0
_FORKED = ("program", "module", "arguments", "log", "directory", "environment", "descriptors")


@dataclass(eq=False)
class _Child:
    """A process that has not ended.

    Attributes:
        number: what the fork server calls it.
        key: what everybody else calls it.
        spec: what to run; its descriptors are this one's own, until they go to the fork server.
        control: the connection to its handle; may be closed.
        is_launched: whether it went to the fork server.
        pidfd: the kernel's handle of it; -1 before it runs.
        deadline: when it is to be killed, in monotonic seconds.
    """

    number: int
    key: Key
    spec: ProcessSpec
    control: Channel
    is_launched: bool = False
    pidfd: int = -1
    deadline: float | None = None


class Keeper:
    """Starts its thread at once; `close` ends it.

    Args:
        preload: modules that the fork server imports.
        slots: how many there are.
        grace: seconds that a preempted process has between SIGTERM and SIGKILL.

    Attributes:
        address: where it listens: an abstract name, of which nothing stays behind, however this process ends.
    """

    def __init__(self, preload: tuple[str, ...], slots: int, grace: float) -> None:
        self._preload = preload
        self._scheduler = Scheduler(slots, grace)
        self._server: ForkServer | None = None
        self._numbers = 0
        self._children: dict[Key, _Child] = {}
        self._numbered: dict[int, _Child] = {}
        self._connections: dict[Channel, float | None] = {}  # until when it may be silent, in monotonic seconds
        self._watchers: dict[Channel, Watcher] = {}
        self._forgetting: dict[str, list[Channel]] = {}
        self.address = f"@sqlflow-elastic-{secrets.token_hex(16)}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.address.replace("@", "\0", 1))
        self._listener.listen(_MAX_CONNECTIONS)
        self._listener.setblocking(False)
        self._wake_in, self._wake_out = socket.socketpair()
        self._is_closing = False
        self._loop = Loop()
        self._loop.add(self._listener, self._accept)
        self._loop.add(self._wake_out, lambda: None)
        self._thread = threading.Thread(target=self._run, name="cluster", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all processes and the thread. Blocks for 20 seconds at most, for a moment as a rule."""
        self._is_closing = True
        self._wake_in.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._loop.turn(self._seconds())
                self._look_at_the_clock()
                for channel, watcher in list(self._watchers.items()):
                    self._inform(channel, watcher)
        finally:
            self._end()

    def _seconds(self) -> float | None:
        """How long nothing is to be done by the clock."""
        moments = [*(child.deadline for child in self._numbered.values()), *self._connections.values()]
        return min((max(0, moment - time.monotonic()) for moment in moments if moment is not None), default=None)

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        for channel in [channel for channel, until in self._connections.items() if until is not None and until <= now]:
            self._hang_up(channel)
        for child in list(self._numbered.values()):
            if child.deadline is not None and child.deadline <= now:
                child.deadline = None
                self._carry_out(self._scheduler.kill(child.key, time.time()))

    # Those who use the cluster

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone already; or no descriptor is free, until another connection ends
            return
        if not is_own(connection) or len(self._connections) >= _MAX_CONNECTIONS:
            connection.close()
            return
        channel = Channel(connection)
        self._connections[channel] = time.monotonic() + _SILENT_SECONDS
        self._loop.add(channel, partial(self._request, channel))

    def _hang_up(self, channel: Channel) -> None:
        self._loop.drop(channel)
        self._connections.pop(channel, None)
        self._watchers.pop(channel, None)
        for waiting in self._forgetting.values():
            if channel in waiting:
                waiting.remove(channel)

    def _request(self, channel: Channel) -> None:
        received = channel.receive()
        if received is None:
            return
        data, descriptors = received
        if not data:
            self._hang_up(channel)
            return
        self._connections[channel] = None
        self._loop.add(channel, partial(self._hang_up, channel))  # it has nothing more to say
        try:
            reply = self._answer(channel, decode(data), descriptors)
        except (JobError, WrongMessage) as error:
            reply = {"error": str(error), "started": isinstance(error, AlreadyStarted)}
        close_all(descriptors)
        if reply is not None:
            self._loop.send(channel, encode(reply))
            self._hang_up(channel)

    def _answer(self, channel: Channel, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any] | None:
        """Do what is asked for; the reply, or None if it comes later. Takes descriptors it keeps out of the list."""
        now = time.time()
        match message.get("do"):
            case "start":
                self._start(message, descriptors, now)
            case "terminate":
                key = field(message, "job", str), field(message, "name", str)
                self._carry_out(self._scheduler.terminate(key, grace(message), now))
            case "kill":
                key = field(message, "job", str), field(message, "name", str)
                self._carry_out(self._scheduler.kill(key, now))
            case "forget":
                job = field(message, "job", str)
                if not job:
                    raise WrongMessage("no job is named")
                self._forgetting.setdefault(job, []).append(channel)
                self._carry_out(self._scheduler.forget(job, now))
                return None
            case "warm_up":
                self._need_server()
            case "describe":
                return {"slots": self._scheduler.slots, "free": self._scheduler.free}
            case "watch":
                wanted = None if message.get("job") is None else field(message, "job", str)
                self._watchers[channel] = Watcher(wanted, self._scheduler.statuses(wanted))
                return None
            case _:
                raise WrongMessage("nothing known is asked for")
        return {}

    def _start(self, message: dict[str, Any], descriptors: list[int], now: float) -> None:
        spec = to_spec(message, descriptors[1:])
        try:
            control = socket.socket(fileno=descriptors[0])
        except OSError as error:
            raise WrongMessage("the first descriptor is no socket") from error
        descriptors.pop(0)
        self._numbers += 1
        key = (spec.job, spec.name if spec.job else f"{spec.name}-{self._numbers}")
        child = _Child(self._numbers, key, spec, Channel(control))
        try:
            commands = self._scheduler.submit(key, spec.role, spec.priority, spec.slots, now)
        except JobError:
            child.control.close()
            raise
        descriptors.clear()
        self._children[key] = self._numbered[child.number] = child
        self._loop.add(child.control, partial(self._control, child))
        self._carry_out(commands)
        self._need_server()

    def _control(self, child: _Child) -> None:
        """Hear from the handle of a process."""
        try:
            received = child.control.receive()
            if received is None:
                return
            data, descriptors = received
            close_all(descriptors)
            message = decode(data)
            if message.get("kill") is True:
                self._carry_out(self._scheduler.kill(child.key, time.time()))
            else:
                self._carry_out(self._scheduler.terminate(child.key, grace(message, "terminate"), time.time()))
        except (WrongMessage, OSError):  # its end is no message either
            self._loop.drop(child.control)
            if not child.spec.job:
                self._carry_out(self._scheduler.kill(child.key, time.time()))

    def _inform(self, channel: Channel, watcher: Watcher) -> None:
        if watcher.is_lost:
            self._hang_up(channel)
            return
        while watcher.has_news and channel.is_idle:
            self._loop.send(channel, watcher.packet())

    # What the scheduler decides

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Launch(key):
                    self._launch(self._children[key])
                case Terminate(key, seconds):
                    self._terminate(self._children[key], seconds)
                case Kill(key):
                    self._signal(self._children[key], signal.SIGKILL)
                case Changed(status):
                    self._tell(status)
                case Forgotten(job):
                    for channel in self._forgetting.pop(job, []):
                        self._loop.send(channel, encode({}))
                        self._hang_up(channel)

    def _launch(self, child: _Child) -> None:
        if self._server is None:
            raise AssertionError("nothing is launched without a fork server")
        child.is_launched = True
        fields = from_spec(child.spec)
        request = {"start": child.number, **{name: fields[name] for name in _FORKED}}
        self._loop.send(self._server.channel, encode(request), list(child.spec.descriptors.values()))

    def _terminate(self, child: _Child, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        if child.deadline is None:
            self._signal(child, signal.SIGTERM)
            child.deadline = deadline
        child.deadline = min(child.deadline, deadline)

    def _signal(self, child: _Child, number: int) -> None:
        """Have the fork server signal a child. Without one the children are gone, or going."""
        if self._server is not None:
            self._loop.send(self._server.channel, encode({"signal": number, "id": child.number}))

    def _tell(self, status: Status) -> None:
        for watcher in self._watchers.values():
            watcher.tell(status)
        child = self._children[status.job, status.name]
        if child.control.fileno() >= 0:
            if status.failure is not None:
                self._loop.send(child.control, encode({"failure": status.failure}))
            elif status.exit_code is not None:
                self._loop.send(child.control, encode({"exit": status.exit_code}))
            elif status.phase is Phase.RUNNING and not status.preempted:
                self._loop.send(child.control, encode({"pid": status.pid}))
        if status.phase is Phase.ENDED:
            self._bury(child)

    def _bury(self, child: _Child) -> None:
        self._loop.drop(child.control)
        del self._children[child.key], self._numbered[child.number]
        if not child.is_launched:
            close_all(list(child.spec.descriptors.values()))
        if child.pidfd >= 0:
            os.close(child.pidfd)

    # The fork server

    def _need_server(self) -> None:
        if self._server is not None:
            return
        try:
            self._server = ForkServer(self._preload)
        except OSError as error:
            self._carry_out(self._scheduler.fail(f"no process could be started: {error}", time.time()))
            return
        self._loop.add(self._server.channel, self._hear)

    def _hear(self) -> None:
        """Hear all that the fork server says."""
        while self._server is not None and (received := self._server.channel.receive()) is not None:
            data, descriptors = received
            if not data:
                self._lose_server(self._server)
                return
            message = decode(data)
            now = time.time()
            if "ready" in message:
                self._server.is_ready = True
                self._carry_out(self._scheduler.ready(now))
                continue
            child = self._numbered[message["id"]]
            if "pid" in message:
                child.pidfd = descriptors[0]
                self._carry_out(self._scheduler.launched(child.key, message["pid"], now))
            elif "failure" in message:
                self._carry_out(self._scheduler.failed(child.key, message["failure"], now))
            else:
                self._carry_out(self._scheduler.ended(child.key, message["exit"], now))

    def _lose_server(self, server: ForkServer) -> None:
        """It has died. The kernel kills its children then; each has ended when that has happened."""
        self._loop.remove(server.channel)
        self._server = None
        self._scheduler.unready()
        failure = f"no process could be started: the fork server has ended{server.last_words()}"
        server.end()
        if not server.is_ready:
            self._carry_out(self._scheduler.fail(failure, time.time()))
            return
        for child in [child for child in self._numbered.values() if child.is_launched]:
            if child.pidfd >= 0:
                self._loop.add(child.pidfd, partial(self._lost, child))
            else:
                self._carry_out(self._scheduler.ended(child.key, KILLED, time.time()))
        if self._scheduler.waits and not self._is_closing:
            self._need_server()

    def _lost(self, child: _Child) -> None:
        """The kernel has killed a child of a fork server that was lost."""
        if child.number in self._numbered:
            self._loop.remove(child.pidfd)
            self._carry_out(self._scheduler.ended(child.key, KILLED, time.time()))

    def _end(self) -> None:
        """End everything, in order: what is told to have ended has ended."""
        self._loop.remove(self._listener)
        self._listener.close()
        self._hear()
        if self._server is not None:
            self._loop.remove(self._server.channel)
            self._server.end()
            self._server = None
        alive = [child.pidfd for child in self._numbered.values() if child.pidfd >= 0]
        deadline = time.monotonic() + _END_SECONDS
        for pidfd in alive:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.poll(max(0, deadline - time.monotonic()) * 1000)
        self._carry_out(self._scheduler.close(time.time()))
        for channel, watcher in list(self._watchers.items()):
            self._inform(channel, watcher)
        for channel in list(self._connections):
            self._hang_up(channel)
        self._loop.close()
        self._wake_out.close()
