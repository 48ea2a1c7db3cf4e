"""What a worker's machine is told, and what it has done.

A worker has two threads. Its *member thread* owns the machine, the stream to the master and the clock. Its *main
thread* owns TensorFlow: it runs the program, and where the program trains, it carries out orders, one at a time: the
machine gives it the next one only when the one before is answered.

Orders, for the main thread: `Connect`, `Take`, `GiveTask`, `NoMoreTasks`, and `Exit` with a checkpoint.
All other commands are carried out at once by the member thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sqlflow_elastic.elastic.membership.messages import Commit, FromMaster, FromWorker, Needs, Prepare, Servers

# Events of the stream and of the process.


@dataclass(frozen=True)
class StreamUp:
    """There is a stream to a master; nothing was said on it yet."""


@dataclass(frozen=True)
class StreamLost:
    """The stream is lost; nothing of it comes any more."""


@dataclass(frozen=True)
class Received:
    """The master's message."""

    message: FromMaster


@dataclass(frozen=True)
class Terminated:
    """SIGTERM."""


@dataclass(frozen=True)
class Tick:
    """Time has passed: due at the machine's ``next_wake``; harmless at any other time."""


# Events of the main thread.


@dataclass(frozen=True)
class WarmedUp:
    """The program trains now and has built, traced and warmed up all that it needs; it waits for orders."""


@dataclass(frozen=True)
class Connected:
    """Answers `Connect`: both neighbours of this version are connected. ``step``: applied, or `NO_STATE`."""

    version: int
    step: int


@dataclass(frozen=True)
class ConnectFailed:
    """Answers `Connect`: not within the time, or cancelled. ``suspect``: the rank at fault; None if unknown."""

    version: int
    suspect: int | None
    reason: str


@dataclass(frozen=True)
class StateTaken:
    """The first answer to `Take`: it has the root's state and takes steps from here on."""

    version: int
    step: int


@dataclass(frozen=True)
class BoundaryReached:
    """Ends `Take`: all members saw a flag and stopped after this step."""

    version: int
    step: int


@dataclass(frozen=True)
class RingBroke:
    """Ends `Take`, before or after `StateTaken`: the ring broke or was aborted.

    ``step`` is what is applied; `NO_STATE` for one that had no state and did not get it. ``waited``: seconds since that
    step was applied, or since the state was taken; a member that hangs lets the others wait for long.
    """

    version: int
    step: int
    suspect: int | None
    reason: str
    waited: float = 0.0


@dataclass(frozen=True)
class TrainingDone:
    """Ends `Take`: trained to the end. The main thread goes on with the program and takes no more such orders."""

    step: int


@dataclass(frozen=True)
class WantsTask:
    """The program waits for a task of a queue of ``total`` tasks, for `GiveTask` or `NoMoreTasks`."""

    queue: str
    total: int


@dataclass(frozen=True)
class DidTask:
    """The program has done a task; its result is where it belongs. Nobody waits for an answer."""

    queue: str
    index: int


@dataclass(frozen=True)
class Chosen:
    """The strategy of the training is chosen: what it needs."""

    needs: Needs


@dataclass(frozen=True)
class Reconsidered:
    """Another strategy is better for the world that takes steps; it may be said again."""

    needs: Needs


@dataclass(frozen=True)
class AllDone:
    """The job has its result: the program has come to its end."""


@dataclass(frozen=True)
class UserFailed:
    """The program failed by an error that every worker would meet; ``event`` is `events.Failed` as JSON."""

    event: str


WorkerEvent: TypeAlias = (
    StreamUp
    | StreamLost
    | Received
    | Terminated
    | Tick
    | WarmedUp
    | Connected
    | ConnectFailed
    | StateTaken
    | BoundaryReached
    | RingBroke
    | TrainingDone
    | WantsTask
    | DidTask
    | Chosen
    | Reconsidered
    | AllDone
    | UserFailed
)


# Commands.


@dataclass(frozen=True)
class Say:
    """A message to the master; dropped while there is no stream. At once."""

    message: FromWorker


@dataclass(frozen=True)
class Connect:
    """An order: close the ring there is, build anew if the plan wants that, connect to the neighbours of this version.

    Answered by `Connected` or `ConnectFailed`. To connect takes ``prepare.seconds`` at most.
    """

    prepare: Prepare


@dataclass(frozen=True)
class CancelConnect:
    """Let a `Connect` of this version, under way or not begun yet, end now. At once."""

    version: int


@dataclass(frozen=True)
class Take:
    """An order: pass the root's state on to those who lack it, then take steps, in the ring that `Connect` made.

    Answered by `StateTaken`, and ended by `BoundaryReached`, `RingBroke` or `TrainingDone`.
    """

    commit: Commit


@dataclass(frozen=True)
class WantBoundary:
    """Raise the flag that lets all members of this version stop together between two steps; or the only one.

    At once; it stays raised for that version, also where its steps have not begun.
    """

    version: int


@dataclass(frozen=True)
class AbortRing:
    """Break the ring of this version off, for all its members, also where its steps have not begun. At once."""

    version: int
    reason: str


@dataclass(frozen=True)
class UseServers:
    """Steps that wait for nobody use these servers from here on; what waits for others of before ends. At once."""

    servers: Servers


@dataclass(frozen=True)
class GiveTask:
    """The answer to `WantsTask`: one to do."""

    queue: str
    index: int


@dataclass(frozen=True)
class NoMoreTasks:
    """The answer to `WantsTask`: all are done."""

    queue: str


@dataclass(frozen=True)
class Exit:
    """End the process with exit code 0, after what was said before is sent; the machine is handed no more events.

    With ``checkpoint``: an order, given while the main thread waits for orders: it writes a checkpoint of its state,
    then the process ends. Without: at once, whatever the main thread does.
    """

    checkpoint: bool


WorkerCommand: TypeAlias = (
    Say | Connect | CancelConnect | Take | WantBoundary | AbortRing | UseServers | GiveTask | NoMoreTasks | Exit
)
