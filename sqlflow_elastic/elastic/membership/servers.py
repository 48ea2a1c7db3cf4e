"""The servers of a job: how many there are, who replaces whom, and which ones a world can count on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlflow_elastic.elastic.membership import messages
from sqlflow_elastic.elastic.membership.deadlines import Alarm
from sqlflow_elastic.elastic.membership.desk import Desk, Worker
from sqlflow_elastic.elastic.membership.master_protocol import EndWorker, ProcessChanged, StartServer
from sqlflow_elastic.elastic.membership.messages import NO_STATE, Commit, Needs, Release, Server
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

    Where rows are: at the servers of the last world that was told to run, unless it had to take them over from those of
    the world before (`Commit.sources`). Then they may be at either, until a step was taken: none of them may be lost.

    Attributes:
        restarts: told by others of what was achieved.
        rewind: whether rows are lost, so that no worker's state counts: nobody has the rows that go with it.
        known: whether anybody has said what the strategy needs.
        placement: where the tables are by it.
    """

    def __init__(self, desk: Desk, stored: Mapping[str, Any]) -> None:
        needs = stored.get("servers") or {}
        self._desk = desk
        self._count = int(needs.get("count", 0))
        self._memory = int(needs.get("memory", 0))
        self._named = int(needs.get("named", 0))
        self._synchronous = bool(needs.get("synchronous", True))
        self.known = bool(needs)
        self.placement = str(needs.get("placement", ""))
        listed = stored.get("listed")
        self._listed = messages.Servers(0, ())
        if listed:
            servers = tuple(Server(name, address) for name, address in listed["servers"])
            self._listed = messages.Servers(int(listed["version"]), servers)
        self.restarts = Restarts(desk.spec.backoff, desk.spec.longest_backoff)
        self.rewind = False
        #: Of the last world, and those that had the rows before it; at which step it began.
        self._world: tuple[Server, ...] = ()
        self._rows: tuple[Server, ...] = ()
        self._began = NO_STATE
        #: What each server that was started by this master may take, in MiB.
        self._asked: dict[str, int] = {}

    @property
    def enough(self) -> bool:
        """Whether there are all that a world needs."""
        return not self._count or bool(self.ready)

    @property
    def holders(self) -> set[str]:
        """The servers that rows may be at."""
        return {server.name for server in (*self._world, *self._rows)}

    @property
    def whole(self) -> bool:
        """Whether all of them are there."""
        return self.holders <= self._desk.servers.keys()

    @property
    def ready(self) -> tuple[Server, ...]:
        """The servers of the next world, in their order; none while there are not enough."""
        usable = [server for server in self._desk.servers.values() if server.connected and server.usable]
        # One that was asked to leave does its part until its successor is there.
        chosen = sorted(usable, key=lambda server: server.leaving)[: self._count]
        if len(chosen) < self._count:
            return ()
        return tuple(Server(server.name, server.address) for server in sorted(chosen, key=_number))

    def wants_change(self, servers: tuple[Server, ...]) -> bool:
        """Whether the servers of a world are not those that the next one would have."""
        return self.enough and self.ready != servers

    def needs(self, said: Needs) -> None:
        """What the job's strategy needs from now on."""
        memory = self._desk.spec.server_memory or said.memory
        if self.known and said.plan == self._desk.plan:
            return
        if self._count != said.servers:
            self._memory = max(self._memory, memory)
        self._count, self._desk.plan, self._synchronous = said.servers, said.plan, said.synchronous
        self.known, self.placement = True, said.placement
        self._desk.staffing = True
        self._store(plan=said.plan)  # together: a master that knows one of them only would mix two plans

    def add(self, process: ProcessChanged) -> Worker:
        """A process of the master before, or one that was just started."""
        server = Worker(process.name, self.restarts.generation, process.phase)
        self._desk.servers[process.name] = server
        return server

    def settle(self, members: tuple[Server, ...], now: float) -> None:
        """Start those that lack; let go of those that no world needs any more, nor the one with these ``members``."""
        counted = [server for server in self._desk.servers.values() if server.counts]
        lack = self._count - len(counted)
        if lack > 0 and now < self.restarts.until:
            self._desk.deadlines.set(Alarm.RESTART, "", self.restarts.until)
        elif lack > 0:
            self._start(lack)
        self._list()
        in_use = {server.name for server in (*self.ready, *members, *self._listed.servers)} | self.holders
        for server in list(self._desk.servers.values()):
            if server.name not in in_use and (server.leaving or lack < 0):
                lack += server.counts
                self._let_go(server, now)

    def _list(self) -> None:
        """Where workers take steps alone, have them use successors of servers that are gone."""
        if self._synchronous or not self.ready:
            return
        free = [server for server in self.ready if server not in self._listed.servers]
        before = dict(enumerate(self._listed.servers))
        kept = {place: server for place, server in before.items() if server in self.ready}
        servers = tuple(kept[place] if place in kept else free.pop(0) for place in range(self._count))
        if servers != self._listed.servers:
            self._listed = messages.Servers(self._listed.version + 1, servers)
            named = [(server.name, server.address) for server in servers]
            self._desk.persist({"listed": {"version": self._listed.version, "servers": named}})
            for worker in self._desk.workers.values():
                self.greeted(worker)

    def greeted(self, worker: Worker) -> None:
        """A worker that may take steps alone hears of the servers."""
        if self._listed.version:
            self._desk.send(worker, self._listed)

    def sources(self, servers: tuple[Server, ...], step: int) -> tuple[Server, ...]:
        """Who has the rows of the step that a world with these servers begins at; none if they have them themselves."""
        self._stepped(step)
        return () if step == NO_STATE or self._rows == servers else self._rows

    def world_runs(self, servers: tuple[Server, ...], commit: Commit) -> None:
        """A world with these servers was told to run, by this master or the one before."""
        self._world, self._rows, self._began = servers, commit.sources or servers, commit.step
        self.rewind = False

    def settled(self) -> None:
        """All members of that world take steps, which is stored: its servers have the rows."""
        self._rows = self._world
        self._desk.staffing = True

    def _stepped(self, step: int) -> None:
        """Somebody stands at this step: if it was taken in the last world, that one's servers have the rows."""
        if step > self._began:
            self._rows = self._world

    def adopted(self) -> None:
        """All servers of the master before have said that they are there, or are lost."""
        self.rewind = self.rewind or not self.whole

    def heard(self, server: Worker, message: messages.FromWorker, now: float) -> None:
        """A server said something."""
        deadlines = self._desk.deadlines
        match message:
            case messages.Hello():
                server.met = server.connected = True
                server.address, server.standing = message.address, messages.Standing.READY
                deadlines.clear(Alarm.HELLO, server.name)
                deadlines.clear(Alarm.RECONNECT, server.name)
                deadlines.set(Alarm.SILENCE, server.name, now + self._desk.silence(server))
                self._desk.send(server, messages.Welcome(self._desk.spec.heartbeat_of_all))
                if server.release is not None:
                    self._desk.send(server, server.release)
                if message.leaving:
                    self._leaves(server)
            case messages.Leaving():
                self._leaves(server)

    def lost(self, server: Worker) -> None:
        """What a server had is gone."""
        if server.name in self.holders:
            self.rewind = True

    def ended(self, server: Worker, event: ProcessChanged, now: float) -> str | None:
        """A server's process has ended. Returns: why the job makes no sense any more; None if it does."""
        asked = self._asked.pop(server.name, self._memory)
        if event.failure is not None:
            return f"{server.name} could not be started: {event.failure}"
        if asked and (event.out_of_memory or event.exit_code == OUT_OF_MEMORY_EXIT):
            return self._grow(server, asked)
        if server.leaving or event.preempted:
            return None
        self._desk.inform(f"{in_words(event)}; another server takes its place", level="warning")
        self.restarts.died(server.generation, now)
        if self.restarts.row < self._desk.spec.deaths:
            return None
        return f"servers were ended by {cause(event)} {self.restarts.row} times without a step between"

    def _grow(self, server: Worker, asked: int) -> str | None:
        """The next ones may take twice as much as this one, unless they may already."""
        text = f"{server.name} ran out of memory ({asked:,} MiB)"
        if 2 * asked > _MOST_MEMORY:
            return f"{text}, and no server has more than {_MOST_MEMORY:,} MiB"
        if 2 * asked > self._memory:
            self._memory = 2 * asked
            self._store()
        self._desk.inform(f"{text}: the next server has {self._memory:,} MiB", level="warning")
        return None

    def _leaves(self, server: Worker) -> None:
        """It stays until a world without it runs."""
        if not server.leaving:
            server.leaving = True
            self._desk.inform(f"{server.name} was asked to leave; another server takes its place")

    def _let_go(self, server: Worker, now: float) -> None:
        reason = "asked to leave" if server.leaving else "one server too many"
        self._desk.release(server, Release(reason), now)
        if not server.connected:
            self._desk.commands.append(EndWorker(server.name, kill=False))

    def _start(self, number: int) -> None:
        names = [f"ps-{index}" for index in range(self._named, self._named + number)]
        self._named += number
        self._store()
        for name in names:
            self._desk.servers[name] = Worker(name, self.restarts.generation)
            self._asked[name] = self._memory
            self._desk.commands.append(StartServer(name, self._memory))

    def _store(self, **more: str) -> None:
        needs = {
            "count": self._count,
            "memory": self._memory,
            "named": self._named,
            "synchronous": self._synchronous,
            "placement": self.placement,
        }
        self._desk.persist({"servers": needs, **more})


def _number(server: Worker) -> int:
    return int(server.name.rpartition("-")[2])
