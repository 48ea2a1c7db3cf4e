"""A simulated worker: the real machine, with a process, a stream and a program around it that can fail at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlflow_elastic.elastic.membership.messages import Finished, FromMaster, FromWorker
from sqlflow_elastic.elastic.membership.worker import (
    AbortRing,
    AllDone,
    BoundaryReached,
    CancelConnect,
    Connect,
    DidTask,
    Exit,
    GiveTask,
    NoMoreTasks,
    Received,
    RingBroke,
    Say,
    StreamLost,
    StreamUp,
    Take,
    Terminated,
    Tick,
    TrainingDone,
    UserFailed,
    WantBoundary,
    WantsTask,
    WarmedUp,
    WorkerEvent,
    WorkerMachine,
)
from tests.elastic.membership.clockwork import BrokenRuleError
from tests.elastic.membership.rings import Ring, Stage, State

if TYPE_CHECKING:
    from tests.elastic.membership.simulation import Simulation


class Stream:
    """One stream between a worker and a master: in order both ways, until it is cut."""

    def __init__(self, simulation: Simulation, worker: SimulatedWorker, term: int) -> None:
        self._simulation = simulation
        self._worker = worker
        self.term = term
        self.whole = True
        self._up = self._down = 0.0

    def say(self, message: FromWorker) -> None:
        clock = self._simulation.clock
        self._up = max(self._up, clock.now + clock.random.random() * 0.03)
        clock.at(self._up, self._arrive, message)

    def _arrive(self, message: FromWorker) -> None:
        if self.whole:
            self._simulation.hear(self, self._worker.name, message)

    def send(self, message: FromMaster) -> None:
        clock = self._simulation.clock
        self._down = max(self._down, clock.now + clock.random.random() * 0.03)
        clock.at(self._down, self._deliver, message)

    def _deliver(self, message: FromMaster) -> None:
        if self.whole:
            self._worker.handle(Received(message))

    def cut(self) -> None:
        if self.whole:
            self.whole = False
            self._simulation.clock.soon(self._worker.stream_lost, self)
            self._simulation.clock.soon(self._simulation.stream_lost, self, self._worker.name)


class SimulatedWorker:
    """A worker's process.

    Attributes:
        alive: it runs.
        stopped: by SIGSTOP: it does nothing, and nobody is told.
        stuck: its main thread does nothing any more; the other one lives.
        state: its replica's.
        connecting: the version it connects to.
        asked: it was told or made to end, one way or the other.
        launched: the cluster has begun to start it.
    """

    def __init__(self, simulation: Simulation, name: str) -> None:
        self._simulation = simulation
        self._clock = simulation.clock
        self.name = name
        self.machine = WorkerMachine(name, f"{name}:1")
        self.alive = self.ended = self.stopped = self.asked = self.preempted = self.launched = False
        self.stuck = False
        self.state = State()
        self.connecting: int | None = None
        self.stream: Stream | None = None
        self._ring: Ring | None = None
        self._backlog: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self._wake = float("inf")
        self._stages = list(simulation.program)
        self._training = False
        self._beating = False
        self._exiting = False

    # The process.

    def run(self) -> None:
        if not self.ended:
            self.alive = True
            self._simulation.process_changed(self)
            self._clock.soon(self._next_stage, most=0.5)
            self._clock.soon(self._connect)

    def end(self, code: int) -> None:
        """Whatever it was doing."""
        if self.ended:
            return
        self.alive, self.ended = False, True
        self._simulation.exit_code[self.name] = code
        if self._ring is not None:
            self._ring.breaks(self)
        if self.stream is not None:
            self.stream.cut()
        self._simulation.process_changed(self)

    def terminate(self) -> None:
        if not self.alive:
            self.end(-15)
            return
        self.asked = True
        self.handle(Terminated())
        self._clock.at(self._clock.now + 30.0, self._out_of_grace)

    def _out_of_grace(self) -> None:
        if self.alive:
            self._simulation.only_if_hard(f"{self.name} did not leave")
            self.end(-9)

    def cut_off(self, other: SimulatedWorker) -> None:
        """Its connection with another one breaks, if they have one."""
        if self._ring is not None and self._ring is other._ring:
            self._ring.breaks(self)

    def proceed(self) -> None:
        """SIGCONT."""
        if self.stopped and self.alive:
            self.stopped = False
            backlog, self._backlog = self._backlog, []
            for call, arguments in backlog:
                call(*arguments)

    # The stream.

    def _connect(self) -> None:
        if self._later(self._connect) or self._exiting or (self.stream is not None and self.stream.whole):
            return
        if self._simulation.master is None:
            self._clock.soon(self._connect, most=1.0)
            return
        self.stream = Stream(self._simulation, self, self._simulation.term)
        self.handle(StreamUp())
        if not self._beating:
            self._beating = True
            self._clock.soon(self._beat, most=2.0)

    def stream_lost(self, stream: Stream) -> None:
        if self._later(self.stream_lost, stream) or stream is not self.stream:
            return
        self.stream = None
        self.handle(StreamLost())
        self._clock.soon(self._connect, most=0.5)

    def _beat(self) -> None:
        if self._later(self._beat) or self._exiting:
            return
        if self.stream is not None:
            self.stream.say(self._simulation.progress(self))
        self._clock.at(self._clock.now + 2.0, self._beat)

    # The member thread.

    def _later(self, call: Callable[..., None], *arguments: object) -> bool:
        """Whether it cannot happen now: never, in a dead process; when it goes on, in a stopped one."""
        if self.alive and self.stopped:
            self._backlog.append((call, arguments))
        return not self.alive or self.stopped

    def handle(self, event: WorkerEvent) -> None:
        if self._later(self.handle, event) or self._exiting:
            return
        machine = self.machine
        version = machine.version
        for command in machine.handle(event, self._clock.now):
            self._execute(command)
        if machine.version < version:
            raise BrokenRuleError(f"{self.name} went back to world {machine.version}")
        if machine.next_wake < self._wake and not self._exiting:
            self._wake = machine.next_wake
            self._clock.at(self._wake, self._tick)

    def _tick(self) -> None:
        self._wake = float("inf")
        self.handle(Tick())

    def answer(self, event: WorkerEvent) -> None:
        """The main thread says how an order ended."""
        if self._later(self.answer, event) or self.stuck:
            return
        if isinstance(event, BoundaryReached | RingBroke | TrainingDone):
            if not self._training or (not isinstance(event, TrainingDone) and event.version != self._ring_version):
                return
            self._training = False
        self.handle(event)
        if isinstance(event, TrainingDone):
            self._clock.soon(self._next_stage)

    @property
    def at_work(self) -> bool:
        """Whether it takes steps with others."""
        return self._ring is not None and self._ring.stage is Stage.STEPS and len(self._ring.members) > 1

    @property
    def _ring_version(self) -> int:
        return 0 if self._ring is None else self._ring.version

    def _execute(self, command: object) -> None:
        match command:
            case Say(message):
                if isinstance(message, Finished) and self.state.step != self._simulation.rings.last:
                    raise BrokenRuleError(f"{self.name} says it has finished at {self.state.step}")
                if self.stream is not None:
                    self.stream.say(message)
            case Connect(prepare):
                if self._training or self.connecting is not None:
                    raise BrokenRuleError(f"{self.name} is given an order in the middle of one")
                if self._ring is not None:
                    self._ring.breaks(self)
                self._ring = self._simulation.rings.of(prepare)
                self.connecting = prepare.version
                self._ring.join(self, prepare)
            case CancelConnect():
                if self._ring is not None:
                    self._ring.cancel(self)
            case Take(commit):
                if self._ring is None or self._training or self.connecting is not None:
                    raise BrokenRuleError(f"{self.name} is told to run without a ring")
                self._training = True
                self._ring.take(self, commit)
            case WantBoundary(version):
                if self._ring is not None and self._ring_version == version:
                    self._ring.flag()
            case AbortRing(version, _):
                if self._ring_version == version:
                    self._abort()
            case GiveTask(queue, index):
                self._clock.soon(self._task_done, queue, index, most=0.6)
            case NoMoreTasks():
                self._stages.pop(0)
                self._clock.soon(self._next_stage)
            case Exit(checkpoint):
                self._exit(checkpoint)
            case _:
                raise BrokenRuleError(f"{command} is no command")

    def _abort(self) -> None:
        ring = self._ring
        if ring is not None:
            self._clock.seen["ring aborted"] += 1
            alone = not ring.can_step()
            ring.breaks(self)
            if alone and self._training:
                self._clock.soon(self.answer, RingBroke(ring.version, self.state.step, None, "aborted"))

    def _exit(self, checkpoint: bool) -> None:
        if checkpoint and self.stuck:
            return
        self.asked = self._exiting = True
        if checkpoint:
            if self._training or self.connecting is not None or self.state.step < 0:
                raise BrokenRuleError(f"{self.name} cannot write a checkpoint now")
            self._clock.seen["last checkpoint"] += 1
            self._simulation.rings.checkpoint = self.state
        self._clock.soon(self.end, 0, most=0.3)

    # The program.

    def _next_stage(self) -> None:
        if self._later(self._next_stage) or self._exiting or self.stuck:
            return
        stage = self._stages[0]
        if stage is None:
            self._stages.pop(0)
            self.handle(WarmedUp())
        elif stage == ("", 0):
            self.handle(AllDone())
        else:
            self.handle(WantsTask(*stage))

    def _task_done(self, queue: str, index: int) -> None:
        if self._later(self._task_done, queue, index) or self._exiting or self.stuck:
            return
        self._simulation.done.add((queue, index))
        self.handle(DidTask(queue, index))
        self._clock.soon(self._next_stage)

    def fail(self) -> None:
        """The user's error, if the program runs."""
        if self.alive and not self._exiting:
            self.handle(UserFailed('{"event": "Failed"}'))
