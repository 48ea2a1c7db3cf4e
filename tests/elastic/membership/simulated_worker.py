"""A simulated worker: the real machine, with a process, a stream and a program around it that can fail at any time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlflow_elastic.elastic.membership.messages import NO_STATE, Finished, FromMaster, FromWorker, Prepare, Servers
from sqlflow_elastic.elastic.membership.worker import (
    AbortRing,
    AllDone,
    BoundaryReached,
    CancelConnect,
    Chosen,
    Connect,
    DidTask,
    Exit,
    GiveTask,
    NoMoreTasks,
    Received,
    Reconsidered,
    RingBroke,
    Say,
    StreamLost,
    StreamUp,
    Take,
    Terminated,
    Tick,
    TrainingDone,
    UserFailed,
    UseServers,
    WantBoundary,
    WantsTask,
    WarmedUp,
    WorkerEvent,
    WorkerMachine,
)
from tests.elastic.membership.clockwork import BrokenRuleError
from tests.elastic.membership.rings import Ring, Stage
from tests.elastic.membership.simulated_process import SimulatedProcess
from tests.elastic.membership.simulated_server import State

if TYPE_CHECKING:
    from tests.elastic.membership.simulation import Simulation

#: The queue whose tasks are steps that wait for nobody, with servers.
ALONE = "alone"


class SimulatedWorker(SimulatedProcess):
    """A worker's process.

    Attributes:
        stuck: its main thread does nothing any more; the other one lives.
        trains: its program has come to its training.
        state: its replica's.
        servers: that it has connected to last, with this state.
        connecting: the version it connects to.
        listed: the servers for steps that it takes alone.
    """

    def __init__(self, simulation: Simulation, name: str) -> None:
        super().__init__(simulation, name)
        self.machine = WorkerMachine(name, f"{name}:1")
        self.stuck = self.trains = False
        self.state = State()
        self.servers: tuple[str, ...] = ()
        self.connecting: int | None = None
        self.listed = Servers(0, ())
        self._plan = ""
        self._ring: Ring | None = None
        self._wake = float("inf")
        self._stages = list(simulation.program)
        self._training = False

    def _begin(self) -> None:
        self._clock.soon(self._next_stage, most=0.5)

    def _gone(self) -> None:
        if self._ring is not None:
            self._ring.breaks(self)

    def cut_off(self, other: SimulatedWorker) -> None:
        """Its connection with another one breaks, if they have one."""
        if self._ring is not None and self._ring is other._ring:
            self._ring.breaks(self)

    def _connected(self) -> None:
        self.handle(StreamUp())

    def _disconnected(self) -> None:
        self.handle(StreamLost())

    def _terminated(self) -> None:
        self.handle(Terminated())

    def _heartbeat(self) -> list[FromWorker]:
        if self._ring is not None and self._ring.members.get(0) is self:
            self.handle(Reconsidered(self._simulation.needs))
        return [self._simulation.progress(self)]

    def hears(self, message: FromMaster) -> None:
        self.handle(Received(message))

    # The member thread.

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
                if prepare.plan != self._plan:
                    self._take_plan(prepare)
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
            case UseServers(servers):
                if servers.version > self.listed.version:
                    self.listed = servers
            case NoMoreTasks():
                self._stages.pop(0)
                self._clock.soon(self._next_stage)
            case Exit(checkpoint):
                self._exit(checkpoint)
            case _:
                raise BrokenRuleError(f"{command} is no command")

    def _take_plan(self, prepare: Prepare) -> None:
        """If tables are elsewhere by it, the state is gone; the first one has written it down before."""
        before, self._plan = self._plan, prepare.plan
        if placement_of(before) == placement_of(self._plan):
            return
        self._clock.seen["tables moved"] += 1
        if prepare.rank == 0 and self.state.step != NO_STATE:
            self._simulation.rings.save(self.servers, self.state)
        self.state = State()

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
            if self._simulation.rings.save(self.servers, self.state):
                self._clock.seen["last checkpoint"] += 1
        self._clock.soon(self.end, 0, most=0.3)

    # The program.

    def _next_stage(self) -> None:
        if self._later(self._next_stage) or self._exiting or self.stuck:
            return
        stage = self._stages[0]
        if stage is None:
            self._stages.pop(0)
            self.trains = True
            self.chooses()
            self.handle(WarmedUp())
        elif stage == ("", 0):
            self.handle(AllDone())
        else:
            if not self.trains and not self._simulation.needs.synchronous and stage[0] != "prepare":
                self.trains = True
                self.chooses()
            self.handle(WantsTask(*stage))

    def chooses(self) -> None:
        """The strategy is known to it, from where its program begins to train."""
        if self.trains and self.alive and not self._exiting:
            self._plan = self._simulation.needs.plan
            self.handle(Chosen(self._simulation.needs))

    def _task_done(self, queue: str, index: int) -> None:
        if self._later(self._task_done, queue, index) or self._exiting or self.stuck:
            return
        if queue == ALONE and not self._simulation.serve(self.listed):
            self._clock.seen["waits for a server"] += 1
            self._clock.soon(self._task_done, queue, index, most=0.6)
            return
        self._clock.seen["steps"] += queue == ALONE
        self._simulation.done.add((queue, index))
        self.handle(DidTask(queue, index))
        self._clock.soon(self._next_stage)

    def fail(self) -> None:
        """The user's error, if the program runs."""
        if self.alive and not self._exiting:
            self.handle(UserFailed('{"event": "Failed"}'))


def placement_of(plan: str) -> str:
    """Where the tables are by a plan."""
    return str(json.loads(plan)["placement"]) if plan else ""
