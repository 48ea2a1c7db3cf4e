"""What a worker does about what its master says and what happens to it.

See `worker_protocol` for the two threads of a worker, and for which of them carries out what.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum

from sqlflow_elastic.elastic.membership import messages
from sqlflow_elastic.elastic.membership.messages import NO_STATE, Commit, Hello, Prepare, Standing
from sqlflow_elastic.elastic.membership.tasks import TasksInHand
from sqlflow_elastic.elastic.membership.worker_protocol import (
    AbortRing,
    AllDone,
    BoundaryReached,
    CancelConnect,
    Chosen,
    Connect,
    Connected,
    ConnectFailed,
    DidTask,
    Exit,
    GiveTask,
    NoMoreTasks,
    Received,
    Reconsidered,
    RingBroke,
    Say,
    StateTaken,
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
    WorkerCommand,
    WorkerEvent,
)

__all__ = [
    "AbortRing",
    "AllDone",
    "BoundaryReached",
    "CancelConnect",
    "Chosen",
    "Connect",
    "ConnectFailed",
    "Connected",
    "DidTask",
    "Exit",
    "GiveTask",
    "NoMoreTasks",
    "Received",
    "Reconsidered",
    "RingBroke",
    "Say",
    "StateTaken",
    "StreamLost",
    "StreamUp",
    "Take",
    "Terminated",
    "Tick",
    "TrainingDone",
    "UseServers",
    "UserFailed",
    "WantBoundary",
    "WantsTask",
    "WarmedUp",
    "WorkerCommand",
    "WorkerEvent",
    "WorkerMachine",
]

#: How long a worker waits for a master while it has nothing to do without one.
ORPHAN_SECONDS = 120.0
#: How long a worker that failed waits for the master to have heard of it.
FAREWELL_SECONDS = 10.0
#: How long a worker alone in its world, asked to leave while there is no master, waits for one.
LEAVE_ALONE_SECONDS = 3.0


class _Doing(Enum):
    """What the main thread does."""

    #: Runs the program, which does not train yet, or no more.
    PROGRAM = 1
    #: Waits for an order.
    WAITING = 2
    CONNECTING = 3
    #: Receives the state, then takes steps.
    TRAINING = 4
    #: Writes the last checkpoint; the end.
    ENDING = 5


class WorkerMachine:
    """A worker, as a function of what happened to it.

    Args:
        name: as the master named it.
        address: of its endpoint, host:port.

    Attributes:
        standing, version, step: as in `messages.Hello`; ``step`` as of the last order's answer, `NO_STATE` where the
            state does not count any more.
        heartbeat: seconds between its `messages.Progress`, which the I/O sends; None before the first `Welcome`.
        next_wake: when the next `Tick` is due, in the time that `handle` is given; infinity for never.
    """

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.standing = Standing.WARMING
        self.version = 0
        self.step = NO_STATE
        self.heartbeat: float | None = None
        self.next_wake = math.inf
        self._doing = _Doing.PROGRAM
        #: The version that the main thread connects to or trains in.
        self._at = 0
        self._size = 0
        self._prepare: Prepare | None = None
        self._needs: messages.Needs | None = None
        #: The world whose state it has, and the first one whose state counts.
        self._state_of = self._rewound = 0
        self._connected = False
        #: Since when there is no stream; None while there is one, and before the first event.
        self._alone: float | None = None
        self._begun = False
        self._leaving = False
        self._release: messages.Release | None = None
        self._end: messages.End | None = None
        self._orphan = False
        self._tasks = TasksInHand()
        self._completed = False
        self._failed: str | None = None
        self._failed_at = 0.0
        self._stood_at: float | None = None
        self._commands: list[WorkerCommand] = []

    @property
    def running(self) -> int:
        """The version it takes steps in; 0 for none. For `messages.Progress`."""
        return self._at if self.standing is Standing.RUNNING else 0

    def hello(self) -> Hello:
        """How it stands, for a master that knows nothing of it."""
        return Hello(
            self.name,
            self.address,
            self.standing,
            self.version,
            self.step,
            self._leaving,
            self._tasks.held(),
            self._tasks.wish,
            self._needs,
        )

    def handle(self, event: WorkerEvent, now: float) -> list[WorkerCommand]:
        """What is to be done about an event, in order.

        Args:
            now: seconds of a clock that never goes back.
        """
        self._commands = []
        if not self._begun:
            self._begun, self._alone = True, now
        match event:
            case Received(message):
                self._hear(message)
            case Tick():
                pass
            case StreamUp():
                self._greet()
            case StreamLost():
                self._connected, self._alone = False, now
            case Terminated():
                self._terminated()
            case WantsTask(queue, total):
                self._tasks.wish = messages.Wish(queue, total)
                self._say(messages.TaskWanted(queue, total))
            case DidTask(queue, index):
                self._tasks.did(queue, index)
                self._say(messages.TaskDone(queue, index))
            case Chosen(needs):
                self._needs = needs
                self._say(needs)
            case Reconsidered(needs):
                if self.running:
                    self._say(replace(needs, world=self.running))
            case AllDone():
                self._completed = True
                self._say(messages.Completed())
            case UserFailed(text):
                self._user_failed(text, now)
            case _:
                self._answered(event, now)
        self._wake(now)
        return self._commands

    def _say(self, message: messages.FromWorker) -> None:
        self._commands.append(Say(message))

    # What the master says.

    def _hear(self, message: messages.FromMaster) -> None:
        match message:
            case messages.Welcome(heartbeat):
                self.heartbeat = heartbeat
            case Prepare():
                self._told_to_change(message)
            case Commit():
                self._told_to_run(message)
            case messages.Release():
                if self._release is None or message.checkpoint:
                    self._release = message
                self._leaving = True
                self._step_down()
            case messages.End():
                self._end = self._end or message
                self._step_down()
            case messages.Task(queue, index):
                if self._tasks.take(queue, index):
                    self._commands.append(GiveTask(queue, index))
            case messages.NoTask(queue):
                if self._tasks.give_up(queue):
                    self._commands.append(NoMoreTasks(queue))
            case messages.TaskAccepted(queue, index):
                self._tasks.accepted(queue, index)
            case messages.Servers():
                self._commands.append(UseServers(message))

    def _told_to_change(self, prepare: Prepare) -> None:
        if self.standing is Standing.FINISHED:
            self._say(messages.Finished(self.step))
            return
        if prepare.version <= self.version or self._goes or self.standing is Standing.WARMING:
            return
        self._prepare = prepare
        self.version = prepare.version
        if prepare.rewind:
            self._rewound = prepare.version
            self._stands_at(self.step)
        self.standing = Standing.CHANGING
        # One that is alone, too, may be in a step that waits for a lost server.
        self._stop(prepare.planned or (self._size == 1 and not prepare.rewind), "the world changes")
        self._next_order()

    def _told_to_run(self, commit: Commit) -> None:
        if commit.version != self.version or self.standing is not Standing.PREPARED or self._goes:
            return
        self.standing = Standing.RUNNING
        self._doing = _Doing.TRAINING
        self._commands.append(Take(commit))

    def _stands_at(self, step: int) -> None:
        self.step = step if self._state_of >= self._rewound else NO_STATE

    @property
    def _goes(self) -> bool:
        """Whether it is to end as soon as it stands between two steps."""
        return self._release is not None or self._end is not None or self._orphan

    def _stop(self, between: bool, reason: str) -> None:
        """Let the main thread come back for its next order: ``between`` two steps with the others, or at once."""
        if self._doing is _Doing.CONNECTING:
            self._commands.append(CancelConnect(self._at))
        elif self._doing is _Doing.TRAINING and between:
            self._commands.append(WantBoundary(self._at))
        elif self._doing is _Doing.TRAINING:
            self._commands.append(AbortRing(self._at, reason))

    def _step_down(self) -> None:
        """End, as told: now, or when the main thread comes back."""
        if self._doing is _Doing.ENDING:
            return
        self._prepare = None
        if self._end is not None and not (self._end.checkpoint and self._stateful):
            self._exit(checkpoint=False)
        elif self._doing is _Doing.PROGRAM:
            if self.standing is not Standing.FINISHED:
                self._exit(checkpoint=False)
        elif self._doing is _Doing.WAITING:
            self._next_order()
        else:
            self._stop(self._end is None or self._size == 1, "the job ends")

    @property
    def _stateful(self) -> bool:
        """Whether the replica has a state that the main thread could still write, as the program trains."""
        return self._doing is not _Doing.PROGRAM and (self.step != NO_STATE or self._doing is _Doing.TRAINING)

    def _exit(self, checkpoint: bool) -> None:
        if self._end is None:
            self._say(messages.Left(self.step))
        self._doing = _Doing.ENDING
        self._commands.append(Exit(checkpoint))

    # What the main thread answers.

    def _answered(self, event: WorkerEvent, now: float) -> None:
        if self._doing is _Doing.ENDING:
            return
        match event:
            case WarmedUp():
                self._doing, self.standing = _Doing.WAITING, Standing.READY
                self._say(messages.Ready(self.step))
            case Connected(version, step):
                self._stands_at(step)
                self._doing = _Doing.WAITING
                if version == self.version and not self._goes:
                    self.standing = Standing.PREPARED
                    self._say(messages.Prepared(version, self.step))
            case ConnectFailed(version, suspect, reason):
                self._doing = _Doing.WAITING
                self._broke(version, suspect, reason)
            case StateTaken(version, step):
                self._state_of = version
                self._stands_at(step)
                if version == self.version:
                    seconds = 0.0 if self._stood_at is None else now - self._stood_at
                    self._say(messages.Running(version, step, seconds))
                return
            case BoundaryReached(version, step):
                self._stands_at(step)
                self._doing, self._stood_at = _Doing.WAITING, now
                # Without an order for the next world it is another member's flag, whose order is on its way.
                self._broke(version, None, "stopped between two steps")
            case RingBroke(version, step, suspect, reason, waited):
                self._stands_at(step)
                self._doing, self._stood_at = _Doing.WAITING, now - waited
                self._broke(version, suspect, reason)
            case TrainingDone(step):
                self.step, self._doing, self.standing = step, _Doing.PROGRAM, Standing.FINISHED
                self._prepare = None
                self._say(messages.Finished(step))
        self._next_order()

    def _broke(self, version: int, suspect: int | None, reason: str) -> None:
        if version == self.version and not self._goes:
            self.standing = Standing.STOPPED
            self._say(messages.Broken(version, self.step, suspect, reason))

    def _next_order(self) -> None:
        """Give the main thread what is to be done next, if it waits."""
        if self._doing is not _Doing.WAITING:
            return
        if self._goes:
            wanted = self._orphan or (self._end or self._release or messages.End()).checkpoint
            self._exit(checkpoint=wanted and self.step != NO_STATE)
        elif self._prepare is not None:
            prepare, self._prepare = self._prepare, None
            self._at, self._size, self._doing = prepare.version, prepare.size, _Doing.CONNECTING
            self._commands.append(Connect(prepare))

    # What happens to it.

    def _greet(self) -> None:
        self._connected, self._alone = True, None
        self._say(self.hello())
        if self._failed is not None:
            self._say(messages.Failed(self._failed))
        if self._completed:
            self._say(messages.Completed())

    def _terminated(self) -> None:
        if self._leaving or self._doing is _Doing.ENDING:
            return
        self._leaving = True
        if self.standing in (Standing.WARMING, Standing.READY):
            self._exit(checkpoint=False)
        else:
            self._say(messages.Leaving())

    def _user_failed(self, text: str, now: float) -> None:
        if self._doing is _Doing.TRAINING and self._size > 1:
            self._commands.append(AbortRing(self._at, "the program failed"))
        self._failed, self._failed_at = text, now
        self._doing, self.standing, self._prepare = _Doing.PROGRAM, Standing.STOPPED, None
        self._say(messages.Failed(text))

    def _wake(self, now: float) -> None:
        """Do what is due, and say when the next thing is."""
        if self._doing is _Doing.ENDING:
            self.next_wake = math.inf
            return
        due: list[float] = []
        if self._failed is not None:
            due.append(self._failed_at + FAREWELL_SECONDS)
        busy = self.standing in (Standing.RUNNING, Standing.FINISHED) and not self._completed
        if self._alone is not None and not busy and not self._orphan:
            due.append(self._alone + ORPHAN_SECONDS)
        alone_in_world = self._size == 1 and self._doing is _Doing.TRAINING
        if self._alone is not None and self._leaving and alone_in_world and not self._orphan:
            due.append(self._alone + LEAVE_ALONE_SECONDS)
        self.next_wake = min(due, default=math.inf)
        if now < self.next_wake:
            return
        self.next_wake = math.inf
        if self._failed is not None or self._doing is _Doing.PROGRAM:
            self._exit(checkpoint=False)
            return
        self._orphan = True
        self._step_down()
