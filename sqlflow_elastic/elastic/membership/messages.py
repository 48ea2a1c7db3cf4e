"""What a master and its workers say to each other.

One stream per worker, in order, both ways. When it is lost, both sides go on; the worker connects again, to whatever
master there is then, and begins with a `Hello` that says all that the master has to know of it. So no message is needed
twice, and one that was on the way may be lost.

Names: a worker's name is used once in the life of a job. A step is the number of steps applied to the state; `NO_STATE`
where a process has built its model and nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

NO_STATE = -1


class Standing(StrEnum):
    """How a worker stands to the world whose version it names."""

    #: Imports, builds, traces; or works on tasks.
    WARMING = "warming"
    #: Warm, in no world.
    READY = "ready"
    #: Told to change to this version; not connected yet.
    CHANGING = "changing"
    #: Connected to its neighbours of this version, not told to run yet.
    PREPARED = "prepared"
    #: Takes steps in this version (or receives the state for it).
    RUNNING = "running"
    #: Was in this version; it broke, or all of its members stopped between two steps.
    STOPPED = "stopped"
    #: Has trained to the end.
    FINISHED = "finished"


@dataclass(frozen=True)
class Held:
    """A task that a worker has and has not been acknowledged for. ``done``: only the acknowledgement lacks."""

    queue: str
    index: int
    done: bool = False


@dataclass(frozen=True)
class Wish:
    """A worker that waits for a task of a queue of ``total`` tasks."""

    queue: str
    total: int


@dataclass(frozen=True)
class Needs:
    """What the strategy of a training needs; each worker says it before it is ready, and the first one counts.

    Attributes:
        servers: how many.
        memory: of each, in MiB.
        plan: the strategy, as JSON for people who look on, and for workers.
        synchronous: whether workers take steps together, in worlds; else each takes its own, with `Servers`.
        placement: where the tables are, in any words; states of two placements are different.
        world: the version that takes steps, for which this is the better plan from now on; 0 in a worker's first words.
    """

    servers: int
    memory: int
    plan: str
    synchronous: bool = True
    placement: str = ""
    world: int = 0


# From a worker.


@dataclass(frozen=True)
class Hello:
    """The first message of every stream.

    Attributes:
        name: as the master named it.
        address: of its endpoint, host:port.
        standing, version: see `Standing`; version 0 before the first world.
        step: applied, or `NO_STATE`.
        leaving: it was asked to end, or has been released.
        held: tasks it has.
        wish: the queue it waits at.
        needs: what it has said that the strategy needs, if it has.
    """

    name: str
    address: str
    standing: Standing
    version: int
    step: int
    leaving: bool = False
    held: tuple[Held, ...] = ()
    wish: Wish | None = None
    needs: Needs | None = None


@dataclass(frozen=True)
class Ready:
    """Warm: it can be taken into a world."""

    step: int


@dataclass(frozen=True)
class Prepared:
    """Connected to its neighbours of a version, and between two steps."""

    version: int
    step: int


@dataclass(frozen=True)
class Running:
    """Has the state of the furthest member and takes steps; ``seconds`` since its last step of the world before."""

    version: int
    step: int
    seconds: float


@dataclass(frozen=True)
class Broken:
    """A version cannot go on at this member, or never came to run.

    Attributes:
        suspect: the rank that failed in its eyes; None where it cannot tell.
        reason: for people.
    """

    version: int
    step: int
    suspect: int | None
    reason: str


@dataclass(frozen=True)
class Leaving:
    """Asked to end from outside (SIGTERM): it goes on until all members stop between two steps, then ends."""


@dataclass(frozen=True)
class Left:
    """Out of its world between two steps, nothing lost; the process ends now."""

    step: int


@dataclass(frozen=True)
class Finished:
    """Has trained to the end; its ring is closed."""

    step: int


@dataclass(frozen=True)
class Progress:
    """Sent every ``Welcome.heartbeat`` seconds, also by a worker that does nothing: its absence is a hang.

    Attributes:
        version: of the world it runs in; 0 for none.
        step: applied.
        samples_per_second: of the whole world, since it runs; 0.0 while there is nothing to measure.
        sample_seconds: what one sample costs this member, waiting for others left out; 0.0 while unknown.
        measured: seconds that ``samples_per_second`` was measured over, without a world's first steps.
        settled: whether the speed will stay as it is (a world of one tries ways to run steps first).
        eta: seconds that remain at this speed; 0.0 while unknown.
    """

    version: int
    step: int
    samples_per_second: float = 0.0
    sample_seconds: float = 0.0
    measured: float = 0.0
    settled: bool = False
    eta: float = 0.0


@dataclass(frozen=True)
class TaskWanted:
    """Give me a task of a queue; ``total`` is the same in every worker.

    Answered by `Task`, or by `NoTask` when all are done.
    """

    queue: str
    total: int


@dataclass(frozen=True)
class TaskDone:
    """Its result is where it belongs. Answered by `TaskAccepted`."""

    queue: str
    index: int


@dataclass(frozen=True)
class Completed:
    """The job has its result; every worker may end."""


@dataclass(frozen=True)
class Failed:
    """The user's error, which would meet every worker; ``event`` is `events.Failed` as JSON. The job ends."""

    event: str


@dataclass(frozen=True)
class Told:
    """An event for the session, as JSON."""

    event: str


@dataclass(frozen=True)
class ServerState:
    """How a server is, every ``Welcome.heartbeat`` seconds.

    Attributes:
        memory: bytes that it takes.
        rows: that it has.
        step: that they stand at; -1 for none.
    """

    memory: int
    rows: int
    step: int


FromWorker: TypeAlias = (
    Hello
    | Ready
    | Prepared
    | Running
    | Broken
    | Leaving
    | Left
    | Finished
    | Progress
    | TaskWanted
    | TaskDone
    | Completed
    | Failed
    | Told
    | Needs
    | ServerState
)


# From the master.


@dataclass(frozen=True)
class Welcome:
    """The answer to `Hello`; ``heartbeat`` is how often to send `Progress`, in seconds."""

    heartbeat: float


@dataclass(frozen=True)
class Server:
    """A server of tables: its name, and where it listens, host:port."""

    name: str
    address: str


@dataclass(frozen=True)
class Servers:
    """The servers for workers that take steps alone.

    Attributes:
        version: higher than any before.
        servers: in an order that stays: a successor is in the place of the one before it.
    """

    version: int
    servers: tuple[Server, ...]


@dataclass(frozen=True)
class Prepare:
    """The next world. Connect to your neighbours, then say `Prepared`.

    Attributes:
        version: higher than any before.
        rank, size: this worker's.
        next: address of the endpoint of rank + 1.
        planned: True: stop together with the other members of the present world between two steps; False: break off.
        shares: of each rank, what part of a batch it takes; they add up to 1. Empty: equal parts.
        seconds: how long connecting may take from when this worker stands still.
        servers: of the world; none for a training without.
        rewind: a server's rows are lost, or the tables are to be elsewhere: until it takes the state of this world or a
            later one, a worker has none.
        plan: the training's, as in `Needs`.
    """

    version: int
    rank: int
    size: int
    next: str
    planned: bool
    shares: tuple[float, ...] = ()
    seconds: float = 10.0
    servers: tuple[Server, ...] = ()
    rewind: bool = False
    plan: str = ""


@dataclass(frozen=True)
class Commit:
    """All members are prepared: run.

    Attributes:
        version: of the prepared world.
        root: the rank whose state all others take on.
        receivers: ranks that are behind it and take its state; all members take part in passing it on.
        step: the root's; `NO_STATE`: nobody has a state that counts; the root begins from the last checkpoint, or anew.
        sources: who has the rows of that step, where that is not the servers of the world; all of them live.
    """

    version: int
    root: int
    receivers: tuple[int, ...]
    step: int
    sources: tuple[Server, ...] = ()


@dataclass(frozen=True)
class Release:
    """This worker leaves, makes the job no faster, or is one too many: leave between two steps and end.

    ``checkpoint``: write one before, because nobody goes on with the state.
    """

    reason: str
    checkpoint: bool = False


@dataclass(frozen=True)
class Task:
    """A task for the worker that wanted one."""

    queue: str
    index: int


@dataclass(frozen=True)
class NoTask:
    """All tasks of the queue are done."""

    queue: str


@dataclass(frozen=True)
class TaskAccepted:
    """A done task is known to be done, for good."""

    queue: str
    index: int


@dataclass(frozen=True)
class End:
    """The job is over, one way or the other: end at once. ``checkpoint``: write one first."""

    checkpoint: bool = False


FromMaster: TypeAlias = Welcome | Prepare | Commit | Release | Task | NoTask | TaskAccepted | End | Servers
