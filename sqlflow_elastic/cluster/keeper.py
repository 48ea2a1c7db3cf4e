"""The thread of a local cluster: hears those who use it (see `messages`), and has done what they ask for."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from functools import partial
from typing import Any

from sqlflow_elastic.cluster.base import AlreadyStarted
from sqlflow_elastic.cluster.channel import Channel, close_all, is_own
from sqlflow_elastic.cluster.children import Children
from sqlflow_elastic.cluster.loop import Loop
from sqlflow_elastic.cluster.messages import WrongMessage, decode, encode, field, grace, to_spec
from sqlflow_elastic.cluster.scheduler import Changed, Forgotten, Scheduler
from sqlflow_elastic.cluster.watcher import Watcher
from sqlflow_elastic.errors import JobError

_MAX_CONNECTIONS = 256
_SILENT_SECONDS = 10.0  # a connection must have said by then what it wants


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
        self._loop = Loop()
        self._scheduler = Scheduler(slots, grace)
        self._children = Children(self._loop, self._scheduler, preload, self._tell)
        self._silent: dict[Channel, float] = {}  # connections, and until when they may be, in monotonic seconds
        self._watchers: dict[Channel, Watcher] = {}
        self._forgetting: dict[Channel, str] = {}
        self.address = f"@sqlflow-elastic-{secrets.token_hex(16)}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.address.replace("@", "\0", 1))
        self._listener.listen(_MAX_CONNECTIONS)
        self._listener.setblocking(False)
        self._wake_in, self._wake_out = socket.socketpair()
        self._is_closing = False
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
                self._children.look_at_the_clock()
                self._hang_up_on_the_silent()
                self._inform()
        finally:
            self._end()

    def _end(self) -> None:
        try:
            self._children.end()
            self._inform()
        finally:
            for channel in [*self._silent, *self._watchers, *self._forgetting]:
                self._hang_up(channel)
            for end in (self._listener, self._wake_out):
                self._loop.remove(end)
                end.close()
            self._loop.close()

    def _seconds(self) -> float | None:
        """How long nothing is to be done by the clock."""
        moments = [*self._silent.values()]
        if self._children.deadline is not None:
            moments.append(self._children.deadline)
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone already; or no descriptor is free, until another connection ends
            return
        connected = len(self._silent) + len(self._watchers) + len(self._forgetting)
        if not is_own(connection) or connected >= _MAX_CONNECTIONS:
            connection.close()
            return
        channel = Channel(connection)
        self._silent[channel] = time.monotonic() + _SILENT_SECONDS
        self._loop.add(channel, partial(self._request, channel))

    def _hang_up(self, channel: Channel) -> None:
        self._loop.drop(channel)
        for connections in (self._silent, self._watchers, self._forgetting):
            connections.pop(channel, None)

    def _hang_up_on_the_silent(self) -> None:
        now = time.monotonic()
        for channel in [channel for channel, until in self._silent.items() if until <= now]:
            self._hang_up(channel)

    def _request(self, channel: Channel) -> None:
        received = channel.receive()
        if received is None:
            return
        data, descriptors = received
        if not data:
            self._hang_up(channel)
            return
        del self._silent[channel]
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
        """Do what is asked for; the reply, or None if it comes later. Takes the descriptors it keeps off the list."""
        now = time.time()
        match message.get("do"):
            case "start":
                self._start(message, descriptors)
            case "terminate":
                key = field(message, "job", str), field(message, "name", str)
                self._children.carry_out(self._scheduler.terminate(key, grace(message), now))
            case "kill":
                key = field(message, "job", str), field(message, "name", str)
                self._children.carry_out(self._scheduler.kill(key, now))
            case "forget":
                self._forgetting[channel] = field(message, "job", str)
                self._children.carry_out(self._scheduler.forget(self._forgetting[channel], now))
                return None
            case "warm_up":
                self._children.warm_up()
            case "describe":
                return {"slots": self._scheduler.slots, "free": self._scheduler.free}
            case "watch":
                job = None if message.get("job") is None else field(message, "job", str)
                self._watchers[channel] = Watcher(job, self._scheduler.statuses(job))
                return None
            case _:
                raise WrongMessage("nothing known is asked for")
        return {}

    def _start(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if not descriptors:
            raise WrongMessage("no descriptor came (too many open files?)")
        spec = to_spec(message, descriptors[1:])
        try:
            control = socket.socket(fileno=descriptors[0])
        except OSError as error:
            raise WrongMessage("the first descriptor is no socket") from error
        del descriptors[0]
        self._children.add(spec, Channel(control))
        descriptors.clear()

    def _tell(self, news: Changed | Forgotten) -> None:
        if isinstance(news, Changed):
            for watcher in self._watchers.values():
                watcher.tell(news.status)
            return
        for channel in [channel for channel, job in self._forgetting.items() if job == news.job]:
            self._loop.send(channel, encode({}))
            self._hang_up(channel)

    def _inform(self) -> None:
        for channel, watcher in list(self._watchers.items()):
            if watcher.is_lost:
                self._hang_up(channel)
            while watcher.has_news and channel.is_idle and channel in self._watchers:
                self._loop.send(channel, watcher.packet())
