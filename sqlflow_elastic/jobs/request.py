"""What is asked of a job: written by its session, kept in the job's state, read by its master and by listings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from sqlflow_elastic.elastic.membership.spec import Scaling


class JobKind(StrEnum):
    """What a job does."""

    TRAIN = "train"
    PREDICT = "predict"
    EVALUATE = "evaluate"
    #: One process without a master: an export.
    PROGRAM = "program"


@dataclass(frozen=True)
class JobRequest:
    """What is asked of a job.

    Attributes:
        kind: what it does.
        title: for people: the model's name, the table predicted into.
        statement: its SQL text; empty for an export.
        workers: how many it may have at most.
        batch_size: rows of a step of training, of which a worker needs one at least; None for other jobs.
        scaling: how many of them it keeps.
        priority: which job gets slots first; higher is more urgent.
        slots: what each worker takes of the cluster.
        worker_memory: MiB that each worker may take; 0 for as much as there is.
        ps_slots, ps_memory: the same of servers of tables; a memory of 0 is what the strategy thinks they need.
    """

    kind: JobKind
    title: str
    statement: str
    workers: int = 1
    batch_size: int | None = None
    scaling: Scaling = Scaling.FASTEST
    priority: int = 0
    slots: int = 1
    worker_memory: int = 0
    ps_slots: int = 0
    ps_memory: int = 0

    def __post_init__(self) -> None:
        for name in ("workers", "batch_size", "slots"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        for name in ("worker_memory", "ps_slots", "ps_memory"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")

    def to_json(self) -> dict[str, Any]:
        """For the job's state."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises: KeyError, TypeError, ValueError: this is none."""
        known = {field.name: data.get(field.name, field.default) for field in dataclasses.fields(cls)}
        return cls(**known | {"kind": JobKind(data["kind"]), "scaling": Scaling(data["scaling"])})
