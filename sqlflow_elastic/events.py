"""What happens while a program runs, as typed events.

`Session.execute` yields them to every front; a job's process sends the same ones to its session as lines of JSON
(`to_json`, `from_json`), so the set of events is also the wire format between them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sqlflow_elastic import errors


@dataclass(frozen=True)
class Event:
    """Something that happened."""


@dataclass(frozen=True)
class StatementStarted(Event):
    """Statement ``index`` (from 0) of ``count`` begins."""

    index: int
    count: int
    sql: str


@dataclass(frozen=True)
class Rows(Event):
    """A piece of a statement's result rows; the first one comes even if it holds no row, for its schema."""

    batch: pa.RecordBatch


@dataclass(frozen=True)
class Message(Event):
    """A sentence for the user; ``level`` is "info" or "warning"."""

    text: str
    level: str = "info"


@dataclass(frozen=True)
class Progress(Event):
    """How far a job has come. Sent at most a few times a second, and once at the end.

    Attributes:
        phase: "reading", "preparing", "training", "evaluating", "predicting", "saving".
        done, total: in ``unit`` ("rows" or "steps"); total is None while it is not known.
        epoch, epochs: counted from 1; None outside training.
        loss: mean training loss per sample since the last event.
        samples_per_second, eta_seconds: measured over the last events; None before the first measurement.
    """

    phase: str
    done: int
    total: int | None = None
    unit: str = "steps"
    epoch: int | None = None
    epochs: int | None = None
    loss: float | None = None
    samples_per_second: float | None = None
    eta_seconds: float | None = None


@dataclass(frozen=True)
class Metrics(Event):
    """Metrics measured at a step; ``split`` is "train", "validation" or "evaluation"."""

    split: str
    step: int
    epoch: int | None
    values: Mapping[str, float]


@dataclass(frozen=True)
class WorldChanged(Event):
    """Other workers train a job from now on.

    Attributes:
        version: of the world; higher than any before.
        members: who trains now, in the order of their ranks.
        joined, left: against the world before.
        why: for people ("worker-1 was ended by SIGKILL").
        step: applied before the first one of this world.
        seconds: how long no step was taken; 0.0 for a job's first world.
    """

    version: int
    members: tuple[str, ...]
    joined: tuple[str, ...]
    left: tuple[str, ...]
    why: str
    step: int
    seconds: float

    def __post_init__(self) -> None:
        for name in ("members", "joined", "left"):
            object.__setattr__(self, name, tuple(getattr(self, name)))


@dataclass(frozen=True)
class Result(Event):
    """A statement is done.

    Attributes:
        text: one line for people ("Trained DNNClassifier in 3.1 s; saved as my_model").
        values: figures for programs (rows, seconds, metrics …), JSON-like.
        seconds: wall time of the statement.
    """

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Failed(Event):
    """A statement failed; the ones after it do not run."""

    error: errors.SQLFlowError


_KINDS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (StatementStarted, Message, Progress, Metrics, WorldChanged, Result, Failed)
}


def to_json(event: Event) -> str:
    """One line of JSON. `Rows` never leaves a process this way."""
    if isinstance(event, Failed):
        return json.dumps({"event": "Failed", "error": type(event.error).__name__, "message": str(event.error)})
    return json.dumps({"event": type(event).__name__, **dataclasses.asdict(event)})


def from_json(line: str) -> Event:
    """The event of a line. Raises: ValueError: the line is none."""
    data = json.loads(line)
    name = data.pop("event", None) if isinstance(data, dict) else None
    if name == "Failed":
        kind = getattr(errors, data["error"], errors.JobError)
        if not issubclass(kind, errors.SQLFlowError) or issubclass(kind, errors.ProgramError):
            kind = errors.JobError
        return Failed(kind(data["message"]))
    if name not in _KINDS:
        raise ValueError(f"not an event: {line!r}")
    return _KINDS[name](**data)
