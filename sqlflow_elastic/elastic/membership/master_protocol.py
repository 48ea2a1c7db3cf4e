"""What a master's machine is told, and what it has done.

Events are what happened; commands are carried out one after the other, in order, before the next event is handled or in
a queue that keeps the order. A `Persist` is durable before the command after it begins. A master that dies anywhere
between two commands, or within one, is taken up by the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from sqlflow_elastic.elastic.membership.messages import FromMaster, FromWorker


class Phase(StrEnum):
    """Of a worker's process."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


class Outcome(StrEnum):
    """How a job ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


# Events.


@dataclass(frozen=True)
class Received:
    """A worker's message. The first one of a stream is `Hello`; nothing of it comes after a newer one's."""

    name: str
    message: FromWorker


@dataclass(frozen=True)
class Disconnected:
    """A worker's stream is lost, and there is no newer one."""

    name: str


@dataclass(frozen=True)
class ProcessChanged:
    """What the cluster says of a worker's process.

    Attributes:
        exit_code: of one that ended, negative for a signal.
        preempted: it was ended by the cluster in favour of another one.
        failure: why it could not be started.
        server: whether it is a server.
        out_of_memory: it was ended because it took more memory than it may.
    """

    name: str
    phase: Phase
    exit_code: int | None = None
    preempted: bool = False
    failure: str | None = None
    server: bool = False
    out_of_memory: bool = False


@dataclass(frozen=True)
class Tick:
    """Time has passed: due at the machine's ``next_wake``; harmless at any other time."""


@dataclass(frozen=True)
class Cancelled:
    """Somebody wants the job to end."""

    reason: str


MasterEvent: TypeAlias = Received | Disconnected | ProcessChanged | Tick | Cancelled


# Commands.


@dataclass(frozen=True)
class Send:
    """A message for a worker; dropped if it has no stream."""

    name: str
    message: FromMaster


@dataclass(frozen=True)
class StartWorker:
    """Ask the cluster for a process of this name, which was never used before."""

    name: str


@dataclass(frozen=True)
class StartServer:
    """The same for a server, which may take so much memory, in MiB; 0 for any."""

    name: str
    memory: int


@dataclass(frozen=True)
class EndWorker:
    """End a worker's or server's process: ``kill`` at once, else SIGTERM and the cluster's grace.

    An ended one stays ended.
    """

    name: str
    kill: bool


@dataclass(frozen=True)
class Persist:
    """Write all of these to the state store, or nothing: JSON's types by key; None deletes."""

    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Tell:
    """An event for the session, as a line of JSON (`sqlflow_elastic.events`)."""

    event: str


@dataclass(frozen=True)
class CountTasks:
    """So many of a queue's tasks are done now, for people: at its beginning, after each one, and of a new master."""

    queue: str
    done: int
    total: int


@dataclass(frozen=True)
class EndJob:
    """The job is over, and so is the machine: it is handed no more events.

    Attributes:
        event: of a failed job: the user's error as JSON (`events.Failed`); "" where there is none.
        text: of a failed or cancelled job: why, where ``event`` is "".
        worker: of a failed job: whose log says more; None for nobody's.
    """

    outcome: Outcome
    event: str = ""
    text: str = ""
    worker: str | None = None


MasterCommand: TypeAlias = Send | StartWorker | StartServer | EndWorker | Persist | Tell | CountTasks | EndJob
