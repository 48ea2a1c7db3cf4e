"""What the parts of a master work on: its workers, its alarms, and the commands of the present event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlflow_elastic.elastic.membership.deadlines import Alarm, Deadlines
from sqlflow_elastic.elastic.membership.master_protocol import (
    EndWorker,
    MasterCommand,
    Persist,
    Phase,
    Send,
    Tell,
)
from sqlflow_elastic.elastic.membership.messages import NO_STATE, FromMaster, Release, Standing
from sqlflow_elastic.elastic.membership.spec import JobSpec
from sqlflow_elastic.events import Event, Message, to_json

#: A kill that shows no effect is repeated after so many seconds.
_KILL_AGAIN = 5.0
#: The cluster says within so many seconds, as a rule, that a process has ended and how.
_CLUSTERS_WORD = 0.1


@dataclass(eq=False)
class Worker:
    """A worker as its master knows it, from when it asks for it until its process has ended.

    Attributes:
        generation: see `Restarts`.
        phase: of its process.
        met: it has said Hello to this master.
        connected: it has a stream.
        heard: when it last said something.
        address, standing, version, step: by its own words.
        repeats: it has done a task of many, so what it does now it has done before.
        leaving: it was asked to leave, from outside or by a release.
        release: what it was told when it was released; it is in no next world.
        left: it is out of its world and ends by itself.
        given_up: it is dead or will be; whatever it says does not count any more.
        killed: the cluster was asked to kill it, so that how it ended says nothing.
    """

    name: str
    generation: int
    phase: Phase = Phase.PENDING
    met: bool = False
    connected: bool = False
    heard: float = 0.0
    address: str = ""
    standing: Standing = Standing.WARMING
    version: int = 0
    step: int = NO_STATE
    repeats: bool = False
    leaving: bool = False
    release: Release | None = None
    left: bool = False
    given_up: bool = False
    killed: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is one of those that the job takes."""
        return not (self.leaving or self.left or self.killed)

    @property
    def warming(self) -> bool:
        """Whether it may be held up by what it does for the first time."""
        return self.standing is Standing.WARMING and not self.repeats

    @property
    def usable(self) -> bool:
        """Whether it may be in the next world, at least to pass its state on."""
        return not (self.left or self.given_up or self.release)


class Desk:
    """Shared by the parts of one master.

    Attributes:
        workers: those whose processes have not ended, in the order of their start.
        servers: the same of servers.
        plan: the job's strategy, as JSON; "" before it is known.
        lost: workers that can be counted on no more, and why, which the master has not dealt with.
        staffing: whether the number of workers is to be looked at.
        commands: of the present event.
    """

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.workers: dict[str, Worker] = {}
        self.servers: dict[str, Worker] = {}
        self.plan = ""
        self.deadlines = Deadlines()
        self.lost: list[tuple[Worker, str]] = []
        self.staffing = True
        self.commands: list[MasterCommand] = []

    def silence(self, worker: Worker) -> float:
        """How long a worker in touch may be silent, in seconds."""
        return max(self.spec.silence, self.spec.warming) if worker.warming else self.spec.silence

    def reconnect(self, worker: Worker) -> float:
        """How long a worker may be out of touch, in seconds."""
        return max(self.spec.reconnect, self.spec.warming) if worker.warming else self.spec.reconnect

    def send(self, worker: Worker, message: FromMaster) -> None:
        """To a worker; nothing if it has no stream: what counts is said again after its Hello."""
        if worker.connected:
            self.commands.append(Send(worker.name, message))

    def persist(self, changes: Mapping[str, Any]) -> None:
        """Durable before the next command."""
        self.commands.append(Persist(changes))

    def tell(self, event: Event) -> None:
        """To the session."""
        self.commands.append(Tell(to_json(event)))

    def inform(self, text: str, level: str = "info") -> None:
        """A sentence for the user."""
        self.tell(Message(text, level))

    def give_up(self, worker: Worker, why: str, now: float) -> None:
        """What cannot be told apart from death is made death."""
        if worker.given_up:
            return
        self.kill(worker, now)
        self._lose(worker, why)

    def take_for_dead(self, worker: Worker, now: float) -> None:
        """Give up a worker whom neither its master nor its neighbours reach.

        It is killed a moment later: most likely it has ended, and how it did is what people want to know.
        """
        if worker.given_up:
            return
        self.deadlines.clear_all(worker.name)
        self.deadlines.set(Alarm.KILL, worker.name, now + _CLUSTERS_WORD)
        self._lose(worker, f"{worker.name} is out of touch")

    def _lose(self, worker: Worker, why: str) -> None:
        worker.given_up = True
        self.lost.append((worker, why))

    def kill(self, worker: Worker, now: float) -> None:
        """Kill a process, again and again until it has ended."""
        worker.killed = self.staffing = True
        self.commands.append(EndWorker(worker.name, kill=True))
        self.deadlines.clear_all(worker.name)
        self.deadlines.set(Alarm.KILL, worker.name, now + _KILL_AGAIN)

    def leaves(self, worker: Worker, now: float) -> None:
        """A worker was asked to leave: it has so long and no longer."""
        worker.leaving = True
        self.staffing = True
        if not self.deadlines.has(Alarm.LEAVE, worker.name) and not worker.given_up:
            self.deadlines.set(Alarm.LEAVE, worker.name, now + self.spec.leave)

    def release(self, worker: Worker, release: Release, now: float) -> None:
        """Let a worker go: it is in no next world."""
        if worker.release is None:
            worker.release = release
            self.leaves(worker, now)
            self.send(worker, release)
