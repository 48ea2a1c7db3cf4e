"""The servers of a job: how many there are, who replaces whom, and which ones a world can count on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlflow_elastic.elastic.membership import messages
from sqlflow_elastic.elastic.membership.deadlines import Alarm
from sqlflow_elastic.elastic.membership.desk import Desk, Worker
from sqlflow_elastic.elastic.membership.master_protocol import ProcessChanged, StartServer
from sqlflow_elastic.elastic.membership.messages import Needs, Release, Server
from sqlflow_elastic.elastic.membership.restarts import Restarts
from sqlflow_elastic.elastic.membership.staff import cause, in_words

#: The exit code of a server that found no memory for its rows.
OUT_OF_MEMORY_EXIT = 75
#: No server asks for more, in MiB.
_MOST_MEMORY = 1 << 20


class Servers:
    """Sees to it that there are as many servers as the job's strategy needs.

    Args:
        desk: shared by the parts of the master.
        stored: what masters of the job have persisted.

    Attributes:
        restarts: told by others of what was achieved.
        rewind: whether a server of the stored world is lost, so that what workers have is ahead of its successor.
    """

    def __init__(self, desk: Desk, stored: Mapping[str, Any]) -> None:
        needs = stored.get("servers") or {}
        self._desk = desk
        self._count = int(needs.get("count", 0))
        self._memory = int(needs.get("memory", 0))
        self._named = int(needs.get("named", 0))
        self.restarts = Restarts(desk.spec.backoff, desk.spec.longest_backoff)
        self.rewind = False
        world = stored.get("world") or {}
        self.stored: tuple[str, ...] = tuple(world.get("servers", ()))

    @property
    def needed(self) -> bool:
        """Whether worlds need servers."""
        return self._count > 0

    @property
    def ready(self) -> tuple[Server, ...]:
        """The servers of the next world, in their order; none while there are not enough."""
        usable = [server for server in self._desk.servers.values() if server.connected and not server.given_up]
        staying = [server for server in usable if server.counts]
        # One that was asked to leave does its part until its successor is there.
        chosen = (staying + [server for server in usable if not server.counts and not server.killed])[: self._count]
        if len(chosen) < self._count:
            return ()
        return tuple(Server(server.name, server.address) for server in sorted(chosen, key=_number))

    def wants_change(self, names: tuple[str, ...]) -> bool:
        """Whether the servers of a world are not those that the next one would have."""
        ready = self.ready
        return bool(ready) and tuple(server.name for server in ready) != names

    def needs(self, said: Needs) -> None:
        """What the job's strategy needs. Said by every worker; a change counts."""
        memory = self._desk.spec.server_memory or said.memory
        if (said.servers, said.plan) == (self._count, self._desk.plan):
            return
        if self._count != said.servers:
            self._memory = max(self._memory, memory)
        self._count, self._desk.plan = said.servers, said.plan
        self._desk.staffing = True
        self._store()
        self._desk.persist({"plan": said.plan})

    def add(self, process: ProcessChanged) -> Worker:
        """A process of the master before, or one that was just started."""
        server = Worker(process.name, self.restarts.generation, process.phase)
        self._desk.servers[process.name] = server
        return server

    def settle(self, now: float) -> None:
        """Start those that lack; let go of those that no world needs any more."""
        counted = [server for server in self._desk.servers.values() if server.counts]
        lack = self._count - len(counted)
        if lack > 0 and now < self.restarts.until:
            self._desk.deadlines.set(Alarm.RESTART, "", self.restarts.until)
        elif lack > 0:
            self._start(lack)
        in_use = {server.name for server in self.ready} | set(self.stored)
        for server in list(self._desk.servers.values()):
            if server.name not in in_use and server.connected and (server.leaving or lack < 0):
                self._desk.release(server, Release("one server too many"), now)

    def world_runs(self, names: tuple[str, ...]) -> None:
        """A world with these servers was told to run."""
        self.stored, self.rewind = names, False

    def adopted(self) -> None:
        """All servers of the master before have said that they are there, or are lost."""
        self.rewind = self.rewind or any(name not in self._desk.servers for name in self.stored)

    def heard(self, server: Worker, message: messages.FromWorker, now: float) -> None:
        """A server said something."""
        deadlines = self._desk.deadlines
        match message:
            case messages.Hello():
                server.met = server.connected = True
                server.address = message.address
                deadlines.clear(Alarm.HELLO, server.name)
                deadlines.clear(Alarm.RECONNECT, server.name)
                deadlines.set(Alarm.SILENCE, server.name, now + self._desk.silence(server))
                server.standing = messages.Standing.READY
                self._desk.send(server, messages.Welcome(self._desk.spec.heartbeat_of_all))
                if server.release is not None:
                    self._desk.send(server, server.release)
                if message.leaving:
                    self._leaves(server, now)
            case messages.Leaving():
                self._leaves(server, now)

    def lost(self, server: Worker) -> None:
        """A server's rows are gone."""
        if server.name in self.stored:
            self.rewind = True

    def ended(self, server: Worker, event: ProcessChanged, now: float) -> str | None:
        """A server's process has ended. Returns: why the job makes no sense any more; None if it does."""
        if event.failure is not None:
            return f"{server.name} could not be started: {event.failure}"
        if event.out_of_memory or event.exit_code == OUT_OF_MEMORY_EXIT:
            return self._grow(server)
        if server.leaving or event.preempted:
            return None
        self._desk.inform(f"{in_words(event)}; another server takes its place", level="warning")
        self.restarts.died(server.generation, now)
        if self.restarts.row < self._desk.spec.deaths:
            return None
        return f"servers were ended by {cause(event)} {self.restarts.row} times without a step between"

    def _grow(self, server: Worker) -> str | None:
        memory = max(1, self._memory)
        if 2 * memory > _MOST_MEMORY:
            return f"{server.name} ran out of memory ({memory:,} MiB), and no server has more than {_MOST_MEMORY:,} MiB"
        self._memory = 2 * memory
        self._store()
        text = f"{server.name} ran out of memory ({memory:,} MiB): the next server has {self._memory:,} MiB"
        self._desk.inform(text, level="warning")
        return None

    def _leaves(self, server: Worker, now: float) -> None:
        """It stays until a world without it runs."""
        server.leaving = True

    def _start(self, number: int) -> None:
        names = [f"ps-{index}" for index in range(self._named, self._named + number)]
        self._named += number
        self._store()
        for name in names:
            self._desk.servers[name] = Worker(name, self.restarts.generation)
            self._desk.commands.append(StartServer(name, self._memory))

    def _store(self) -> None:
        self._desk.persist({"servers": {"count": self._count, "memory": self._memory, "named": self._named}})


def _number(server: Worker) -> int:
    return int(server.name.rpartition("-")[2])
