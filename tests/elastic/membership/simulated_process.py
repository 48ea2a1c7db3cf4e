"""A simulated process of a job, with a stream to the master: it can fail, hang and be cut off at any time."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlflow_elastic.elastic.membership.messages import FromMaster, FromWorker

if TYPE_CHECKING:
    from tests.elastic.membership.simulation import Simulation

_HEARTBEAT = 2.0
_GRACE = 30.0


class Stream:
    """One stream between a process and a master: in order both ways, until it is cut."""

    def __init__(self, simulation: Simulation, process: SimulatedProcess, term: int) -> None:
        self._simulation = simulation
        self._process = process
        self.term = term
        self.whole = True
        self._up = self._down = 0.0

    def say(self, message: FromWorker) -> None:
        clock = self._simulation.clock
        self._up = max(self._up, clock.now + clock.random.random() * 0.03)
        clock.at(self._up, self._arrive, message)

    def _arrive(self, message: FromWorker) -> None:
        if self.whole:
            self._simulation.hear(self, self._process.name, message)

    def send(self, message: FromMaster) -> None:
        clock = self._simulation.clock
        self._down = max(self._down, clock.now + clock.random.random() * 0.03)
        clock.at(self._down, self._deliver, message)

    def _deliver(self, message: FromMaster) -> None:
        if self.whole:
            self._process.hears(message)

    def cut(self) -> None:
        if self.whole:
            self.whole = False
            self._simulation.clock.soon(self._process.stream_lost, self)
            self._simulation.clock.soon(self._simulation.stream_lost, self, self._process.name)


class SimulatedProcess(abc.ABC):
    """What workers and servers have in common.

    Attributes:
        alive: it runs.
        stopped: by SIGSTOP: it does nothing, and nobody is told.
        asked: it was told or made to end, one way or the other.
        launched: the cluster has begun to start it.
    """

    def __init__(self, simulation: Simulation, name: str) -> None:
        self._simulation = simulation
        self._clock = simulation.clock
        self.name = name
        self.alive = self.ended = self.stopped = self.asked = self.preempted = self.launched = False
        self.stream: Stream | None = None
        self._exiting = False
        self._backlog: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self._beating = False

    def run(self) -> None:
        if not self.ended:
            self.alive = True
            self._simulation.process_changed(self)
            self._begin()
            self._clock.soon(self._connect)

    def end(self, code: int) -> None:
        """Whatever it was doing."""
        if self.ended:
            return
        self.alive, self.ended = False, True
        self._simulation.exit_code[self.name] = code
        self._gone()
        if self.stream is not None:
            self.stream.cut()
        self._simulation.process_changed(self)

    def terminate(self) -> None:
        if not self.alive:
            self.end(-15)
            return
        self.asked = True
        self._terminated()
        self._clock.at(self._clock.now + _GRACE, self._out_of_grace)

    def _out_of_grace(self) -> None:
        if self.alive:
            self._simulation.only_if_hard(f"{self.name} did not leave")
            self.end(-9)

    def proceed(self) -> None:
        """SIGCONT."""
        if self.stopped and self.alive:
            self.stopped = False
            backlog, self._backlog = self._backlog, []
            for call, arguments in backlog:
                call(*arguments)

    def _later(self, call: Callable[..., None], *arguments: object) -> bool:
        """Whether it cannot happen now: never, in a dead process; when it goes on, in a stopped one."""
        if self.alive and self.stopped:
            self._backlog.append((call, arguments))
        return not self.alive or self.stopped

    def _connect(self) -> None:
        if self._later(self._connect) or self._exiting or (self.stream is not None and self.stream.whole):
            return
        if self._simulation.master is None:
            self._clock.soon(self._connect, most=1.0)
            return
        self.stream = Stream(self._simulation, self, self._simulation.term)
        self._connected()
        if not self._beating:
            self._beating = True
            self._clock.soon(self._beat, most=_HEARTBEAT)

    def stream_lost(self, stream: Stream) -> None:
        if self._later(self.stream_lost, stream) or stream is not self.stream:
            return
        self.stream = None
        self._disconnected()
        self._clock.soon(self._connect, most=0.5)

    def _beat(self) -> None:
        if self._later(self._beat) or self._exiting:
            return
        if self.stream is not None:
            for message in self._heartbeat():
                self.stream.say(message)
        self._clock.at(self._clock.now + _HEARTBEAT, self._beat)

    @abc.abstractmethod
    def _begin(self) -> None:
        """It runs."""

    @abc.abstractmethod
    def _gone(self) -> None:
        """It has ended."""

    @abc.abstractmethod
    def _disconnected(self) -> None:
        """Its stream is lost."""

    @abc.abstractmethod
    def _connected(self) -> None:
        """There is a stream."""

    @abc.abstractmethod
    def _terminated(self) -> None:
        """SIGTERM."""

    @abc.abstractmethod
    def _heartbeat(self) -> list[FromWorker]:
        """What it says every few seconds."""

    @abc.abstractmethod
    def hears(self, message: FromMaster) -> None:
        """The master's message."""
