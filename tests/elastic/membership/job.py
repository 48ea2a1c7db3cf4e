"""A master's machine in a test's hands: what happens is said in short, and what it answers can be looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from sqlflow_elastic.elastic.membership.master import (
    Disconnected,
    EndJob,
    EndWorker,
    MasterCommand,
    MasterEvent,
    MasterMachine,
    Persist,
    Phase,
    ProcessChanged,
    Received,
    Send,
    StartServer,
    StartWorker,
    Tell,
    Tick,
)
from sqlflow_elastic.elastic.membership.messages import (
    NO_STATE,
    Commit,
    FromMaster,
    FromWorker,
    Hello,
    Needs,
    Prepare,
    Prepared,
    Progress,
    Ready,
    Running,
    Standing,
)
from sqlflow_elastic.elastic.membership.spec import JobSpec, Scaling
from sqlflow_elastic.events import Event, WorldChanged, from_json

M = TypeVar("M", bound=FromMaster)


class Job:
    """A job of as many workers as are ready.

    Attributes:
        commands: all that the last event led to.
        stored: what a new master would find.
    """

    def __init__(self, workers: int = 3, **spec: Any) -> None:
        self.spec = JobSpec("job", workers, **{"batch_size": 64, "scaling": Scaling.ALL, **spec})
        self.now = 0.0
        self.stored: dict[str, Any] = {}
        self.commands: list[MasterCommand] = []
        self.told: list[Event] = []
        self.machine = MasterMachine(self.spec, 0.0)
        self.does(Tick())

    def does(self, event: MasterEvent) -> list[MasterCommand]:
        self.commands = self.machine.handle(event, self.now)
        for command in self.commands:
            if isinstance(command, Persist):
                self.stored.update(command.changes)
            elif isinstance(command, Tell):
                self.told.append(from_json(command.event))
        return self.commands

    def adopt(self, processes: Mapping[str, Phase]) -> None:
        """The master dies, and the next one takes over; processes named "ps-…" are servers."""
        known = [ProcessChanged(name, phase, server=name.startswith("ps-")) for name, phase in processes.items()]
        self.machine = MasterMachine.adopt(self.spec, dict(self.stored), known, self.now)
        self.does(Tick())

    def hears(self, name: str, message: FromWorker) -> list[MasterCommand]:
        return self.does(Received(name, message))

    def hello(self, name: str, standing: Standing, version: int = 0, step: int = NO_STATE, **more: Any) -> None:
        self.hears(name, Hello(name, f"{name}:1", standing, version, step, **more))

    def loses(self, name: str) -> list[MasterCommand]:
        return self.does(Disconnected(name))

    def ends(self, name: str, code: int | None = -9, **more: Any) -> list[MasterCommand]:
        return self.does(ProcessChanged(name, Phase.ENDED, code, **more))

    def waits(self, seconds: float) -> list[MasterCommand]:
        """Time passes, with all the ticks that are due; returns what they led to."""
        until, commands = self.now + seconds, []
        while self.machine.next_wake <= until:
            self.now = max(self.now, self.machine.next_wake)
            commands += self.does(Tick())
        self.now = until
        return commands

    def warms(self, *names: str) -> None:
        for name in names:
            self.does(ProcessChanged(name, Phase.RUNNING))
            self.hello(name, Standing.WARMING)
            self.hears(name, Ready(NO_STATE))

    def needs(
        self, name: str, servers: int, memory: int = 100, *, synchronous: bool = True, placement: str = ""
    ) -> None:
        """A worker says what the strategy needs; of the world that runs, if there is one."""
        plan, world = f'{{"servers": {servers}}}', self.stored.get("world", {"version": 0})["version"]
        self.hears(name, Needs(servers, memory, plan, synchronous, placement, world))

    def serves(self, *names: str, **more: Any) -> list[MasterCommand]:
        """Servers come; returns what the last one led to."""
        for name in names:
            self.does(ProcessChanged(name, Phase.RUNNING, server=True))
            self.hello(name, Standing.READY, **more)
        return self.commands

    def runs(self, *names: str, step: int = 0) -> None:
        """Members of the prepared world follow, all from the same step, until it runs; again for what follows."""
        version = self.stored["version"]
        for name in names:
            self.hears(name, Prepared(version, step))
        for name in names:
            self.hears(name, Running(version, max(step, 0), 0.1))

    def world(self, *names: str, step: int = 5) -> None:
        """A world of these workers takes steps."""
        self.warms(names[0])
        self.runs(names[0], step=NO_STATE)
        if len(names) > 1:
            self.warms(*names[1:])
            self.runs(names[0], *names[1:2])
            if len(names) > 2:
                self.runs(*names)
        for name in names:
            self.hears(name, Progress(self.stored["world"]["version"], step))

    def sent(self, name: str, kind: type[M]) -> M | None:
        """The message of a kind that the last event sent to a worker."""
        found = [c.message for c in self.commands if isinstance(c, Send) and c.name == name]
        return next((message for message in found if isinstance(message, kind)), None)

    @property
    def prepares(self) -> dict[str, Prepare]:
        return {c.name: c.message for c in self.commands if isinstance(c, Send) and isinstance(c.message, Prepare)}

    @property
    def commits(self) -> dict[str, Commit]:
        return {c.name: c.message for c in self.commands if isinstance(c, Send) and isinstance(c.message, Commit)}

    @property
    def started(self) -> list[str]:
        return [command.name for command in self.commands if isinstance(command, StartWorker)]

    @property
    def started_servers(self) -> dict[str, int]:
        """Their memory by their names."""
        return {command.name: command.memory for command in self.commands if isinstance(command, StartServer)}

    @property
    def killed(self) -> list[str]:
        return [command.name for command in self.commands if isinstance(command, EndWorker) and command.kill]

    @property
    def end(self) -> EndJob | None:
        return next((command for command in self.commands if isinstance(command, EndJob)), None)

    @property
    def changes(self) -> list[WorldChanged]:
        return [event for event in self.told if isinstance(event, WorldChanged)]
