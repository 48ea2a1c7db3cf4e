"""What a master has to know of its job."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Scaling(StrEnum):
    """How many workers a job takes."""

    #: As many as make it fastest: begins with one and tries more.
    FASTEST = "fastest"
    #: As many as it may have.
    ALL = "all"


@dataclass(frozen=True)
class JobSpec:
    """A job, as its master sees it. All times are in seconds.

    Attributes:
        job: its id.
        workers: the most it may have.
        batch_size: samples of a global step; None for a job that takes no steps. Each worker needs at least one.
        scaling: how many of the workers it takes.
        priority, slots: of each worker, for the cluster.
        server_memory: of each server in MiB, whatever the strategy says; 0 for what it says.
        heartbeat: how often a worker shows that it lives; less often where there are many (see `heartbeat_of_all`).
        hang: a worker in touch that is silent for so long is killed.
        warming: the same for one that imports and builds, which may hold it up.
        hello: how long a process may run before it says its first word.
        reconnect: how long a lost stream may stay lost.
        change: how long a world change may take from when its members stand still.
        step: how long the slowest step may take: joiners wait so long for the others to stop between two steps.
        leave: how long a worker that was asked to leave may take.
        end: how long workers may take to end with the job before they are killed.
        adopt: how long a new master waits for the workers of the one before.
        deaths: generations of workers killed without a step or a task between, after which the job fails.
        backoff, longest_backoff: first and longest pause before a worker is replaced, where nothing is achieved.
    """

    job: str
    workers: int
    batch_size: int | None = None
    scaling: Scaling = Scaling.FASTEST
    priority: int = 0
    slots: int = 1
    server_memory: int = 0
    heartbeat: float = 0.5
    hang: float = 5.0
    warming: float = 30.0
    hello: float = 60.0
    reconnect: float = 2.0
    change: float = 10.0
    step: float = 600.0
    leave: float = 30.0
    end: float = 10.0
    adopt: float = 5.0
    deaths: int = 6
    backoff: float = 0.1
    longest_backoff: float = 10.0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"a job needs at least one worker, not {self.workers}")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"a batch has at least one sample, not {self.batch_size}")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not 0 < value < float("inf"):
                raise ValueError(f"{field.name} must be a number of seconds above 0, not {value}")

    @property
    def most(self) -> int:
        """The most workers that have something to do."""
        return self.workers if self.batch_size is None else min(self.workers, self.batch_size)

    @property
    def heartbeat_of_all(self) -> float:
        """Seconds between a worker's heartbeats, so that those of all of them stay below 500 a second."""
        return max(self.heartbeat, self.workers / 500)

    @property
    def silence(self) -> float:
        """Seconds of silence that are a hang."""
        return max(self.hang, 5 * self.heartbeat_of_all)

    def to_json(self) -> dict[str, Any]:
        """As JSON's types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> JobSpec:
        """The inverse of `to_json`. Raises: ValueError, TypeError: it is none."""
        return cls(**{**data, "scaling": Scaling(data["scaling"])})
