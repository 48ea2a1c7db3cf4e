"""The processes of a local cluster: starts, signals and buries them through the fork server, as `scheduler` decides."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlflow_elastic.cluster.base import Phase, ProcessSpec, Status
from sqlflow_elastic.cluster.channel import Channel, close_all
from sqlflow_elastic.cluster.forking import ForkServer
from sqlflow_elastic.cluster.loop import Loop
from sqlflow_elastic.cluster.messages import WrongMessage, decode, encode, from_spec, grace
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
from sqlflow_elastic.errors import JobError

#: How often processes with a limit are weighed.
_WEIGH_SECONDS = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")
_GONE_SECONDS = 10.0
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
        pid: its number, when it runs.
    """

    number: int
    key: Key
    spec: ProcessSpec
    control: Channel
    is_launched: bool = False
    pid: int | None = None


class Children:
    """All in the loop's thread.

    Args:
        loop: where the fork server and the handles are heard.
        scheduler: decides; every event goes to it, and what follows from it is carried out here.
        preload: modules that the fork server imports.
        tell: called when a process has changed, and when a job is forgotten.
    """

    def __init__(
        self,
        loop: Loop,
        scheduler: Scheduler,
        preload: tuple[str, ...],
        tell: Callable[[Changed | Forgotten], None],
    ) -> None:
        self._loop = loop
        self._scheduler = scheduler
        self._preload = preload
        self._tell = tell
        self._server: ForkServer | None = None
        self._count = 0
        self._children: dict[Key, _Child] = {}
        self._numbered: dict[int, _Child] = {}
        self._deadlines: dict[_Child, float] = {}  # when it is to be killed, in monotonic seconds
        self._limited: dict[_Child, None] = {}
        self._weigh_at = 0.0

    @property
    def deadline(self) -> float | None:
        """When `look_at_the_clock` is to be called, in monotonic seconds."""
        deadline = min(self._deadlines.values(), default=None)
        if not self._limited:
            return deadline
        return self._weigh_at if deadline is None else min(deadline, self._weigh_at)

    def look_at_the_clock(self) -> None:
        """Kill those whose grace is over, and those that take too much memory."""
        now = time.monotonic()
        if self._limited and now >= self._weigh_at:
            self._weigh_at = now + _WEIGH_SECONDS
            for child in [child for child in self._limited if _takes_more(child.pid, child.spec.memory << 20)]:
                self.carry_out(self._scheduler.out_of_memory(child.key, time.time()))
        for child in [child for child, deadline in self._deadlines.items() if deadline <= now]:
            del self._deadlines[child]
            self.carry_out(self._scheduler.kill(child.key, time.time()))

    def add(self, spec: ProcessSpec, control: Channel) -> None:
        """A new process. Its descriptors and the channel to its handle belong to it from now on.

        Raises: AlreadyStarted, JobError: nothing has changed, but the channel is closed.
        """
        self._count += 1
        key = (spec.job, spec.name if spec.job else f"{spec.name}-{self._count}")
        child = _Child(self._count, key, spec, control)
        try:
            commands = self._scheduler.submit(key, spec.role, spec.priority, spec.slots, time.time())
        except JobError:
            control.close()
            raise
        self._children[key] = self._numbered[child.number] = child
        self._loop.add(control, partial(self._hear_handle, child))
        self.carry_out(commands)
        self.warm_up()

    def warm_up(self) -> None:
        """Start the fork server, unless there is one."""
        if self._server is not None:
            return
        try:
            self._server = ForkServer(self._preload)
        except OSError as error:
            self.carry_out(self._scheduler.fail(f"no process could be started: {error}", time.time()))
            return
        self._loop.add(self._server.channel, self._hear_server)

    def carry_out(self, commands: Sequence[Command]) -> None:
        """Do what was decided."""
        for command in commands:
            match command:
                case Launch(key):
                    self._launch(self._children[key])
                case Terminate(key, seconds):
                    self._terminate(self._children[key], seconds)
                case Kill(key):
                    self._signal(self._children[key], signal.SIGKILL)
                case Changed(status):
                    self._change(self._children[status.job, status.name], status)
                    self._tell(command)
                case Forgotten():
                    self._tell(command)

    def end(self) -> None:
        """End all processes and the fork server. Blocks for 20 seconds at most, for a moment as a rule."""
        if self._server is not None:
            try:
                self._hear_server()  # what has ended by itself
            finally:
                self._drop_server()
        self.carry_out(self._scheduler.close(time.time()))

    def _launch(self, child: _Child) -> None:
        if self._server is None:
            raise AssertionError("nothing is launched without a fork server")
        child.is_launched = True
        fields = from_spec(child.spec)
        request = {"start": child.number, **{name: fields[name] for name in _FORKED}}
        self._loop.send(self._server.channel, encode(request), list(child.spec.descriptors.values()))

    def _terminate(self, child: _Child, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        if child not in self._deadlines:
            self._signal(child, signal.SIGTERM)
        self._deadlines[child] = min(self._deadlines.get(child, deadline), deadline)

    def _signal(self, child: _Child, number: int) -> None:
        """Have the fork server signal a child. Without one the child is gone, or going."""
        if self._server is not None:
            self._loop.send(self._server.channel, encode({"signal": number, "id": child.number}))

    def _change(self, child: _Child, status: Status) -> None:
        """Tell the handle of a process; bury what has ended."""
        child.pid = status.pid
        if child.spec.memory and child.pid is not None:
            self._limited[child] = None
        if child.control.fileno() >= 0:
            if status.failure is not None:
                self._loop.send(child.control, encode({"failure": status.failure}))
            elif status.exit_code is not None:
                self._loop.send(child.control, encode({"exit": status.exit_code}))
            elif status.pid is not None:
                self._loop.send(child.control, encode({"pid": status.pid}))
        if status.phase is not Phase.ENDED:
            return
        self._loop.drop(child.control)
        del self._children[child.key], self._numbered[child.number]
        self._deadlines.pop(child, None)
        self._limited.pop(child, None)
        if not child.is_launched:
            close_all(list(child.spec.descriptors.values()))

    def _hear_handle(self, child: _Child) -> None:
        try:
            received = child.control.receive()
            if received is None:
                return
            data, descriptors = received
            close_all(descriptors)
            message = decode(data)
            if message.get("kill") is True:
                self.carry_out(self._scheduler.kill(child.key, time.time()))
            else:
                self.carry_out(self._scheduler.terminate(child.key, grace(message, "terminate"), time.time()))
        except (WrongMessage, OSError):  # its end is no message either
            self._loop.drop(child.control)
            if not child.spec.job:
                self.carry_out(self._scheduler.kill(child.key, time.time()))

    def _hear_server(self) -> None:
        """Hear all that the fork server says."""
        while self._server is not None and (received := self._server.channel.receive()) is not None:
            data, _ = received
            if not data:
                self._lose_server(self._server)
                return
            message = decode(data)
            now = time.time()
            if "ready" in message:
                self._server.is_ready = True
                self.carry_out(self._scheduler.ready(now))
                continue
            key = self._numbered[message["id"]].key
            if "pid" in message:
                self.carry_out(self._scheduler.launched(key, message["pid"], now))
            elif "failure" in message:
                self.carry_out(self._scheduler.failed(key, message["failure"], now))
            else:
                self.carry_out(self._scheduler.ended(key, message["exit"], now))

    def _lose_server(self, server: ForkServer) -> None:
        """It has ended by itself, and its children with it."""
        failure = f"no process could be started: the fork server has ended{server.last_words()}"
        self._drop_server()
        if not server.is_ready:
            self.carry_out(self._scheduler.fail(failure, time.time()))
            return
        for child in [child for child in self._numbered.values() if child.is_launched]:
            self.carry_out(self._scheduler.ended(child.key, KILLED, time.time()))
        if self._scheduler.waits:
            self.warm_up()

    def _drop_server(self) -> None:
        """End the fork server and see that its children are gone."""
        if self._server is not None:
            self._scheduler.unready()
            self._loop.remove(self._server.channel)
            self._server.end()
            self._server = None
            _see_the_end([child.pid for child in self._numbered.values() if child.pid is not None])


def _takes_more(pid: int | None, limit: int) -> bool:
    """Whether a process has more bytes than so many that no other one shares."""
    try:
        # What is shared with the fork server counts here too, but it is cheap: most processes need no closer look.
        resident, files = map(int, Path(f"/proc/{pid}/statm").read_bytes().split()[1:3])
        if (resident - files) * _PAGE <= limit:
            return False
        own = re.search(rb"^Private_Dirty:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_bytes(), re.MULTILINE)
    except (OSError, ValueError):  # it has just ended
        return False
    return own is not None and int(own[1]) << 10 > limit


def _see_the_end(pids: Sequence[int]) -> None:
    """See that the children of a fork server that was just lost are gone; together for 10 seconds at most.

    If it could not do that itself, the kernel killed them with it, but not what they had started, and without waiting.
    """
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # PermissionError: of another user, so no child
            os.killpg(pid, signal.SIGKILL)
    deadline = time.monotonic() + _GONE_SECONDS
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            os.close(handle)
