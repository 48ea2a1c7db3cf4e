"""From a WITH clause to what is asked of the job: workers, scaling, priority, slots."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sqlflow_elastic.compiler.attributes import Attributes
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.jobs.request import JobKind, JobRequest


def train_request(attributes: Attributes, title: str, statement: str, settings: Mapping[str, Any]) -> JobRequest:
    """What a TO TRAIN asks of its job.

    No more workers than a batch has rows; but all of them where each has batches of its own.
    """
    values = attributes.values
    alone = takes_own_steps(settings)
    workers, batch_size = asked_workers(values), settings["batch_size"]
    return JobRequest(
        kind=JobKind.TRAIN,
        title=title,
        statement=statement,
        workers=workers if alone else min(workers, batch_size),
        batch_size=None if alone else batch_size,
        scaling=Scaling.ALL if alone else Scaling(values.get("train.scaling", Scaling.FASTEST)),
        priority=values.get("train.priority", 0),
        slots=math.ceil(values.get("train.worker_cpu", 1)),
        worker_memory=values.get("train.worker_memory", 0),
        ps_slots=math.ceil(values.get("train.ps_cpu", 0)),
        ps_memory=values.get("train.ps_memory", 0),
    )


def use_request(attributes: Attributes, kind: JobKind, title: str, statement: str) -> JobRequest:
    """What a TO PREDICT or TO EVALUATE asks of its job: all the workers that there is room for."""
    workers = attributes.values.get("predict.num_workers", 1)
    return JobRequest(kind=kind, title=title, statement=statement, workers=workers, scaling=Scaling.ALL)


def asked_workers(values: Mapping[str, Any]) -> int:
    """The workers that a TO TRAIN asks for."""
    return int(values.get("train.num_workers", 1))


def takes_own_steps(settings: Mapping[str, Any]) -> bool:
    """Whether the arguments of `elastic.TrainSettings` say that each worker takes steps of its own."""
    return settings.get("strategy") == "ps"


def few_rows(values: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """The sentence about a batch that is too small for the workers that were asked for, if it is."""
    asked, batch_size = asked_workers(values), settings["batch_size"]
    if asked <= batch_size or takes_own_steps(settings):
        return []
    rows, workers = (f"{batch_size} {what}" + ("" if batch_size == 1 else "s") for what in ("row", "worker"))
    return [f"a batch of {rows} keeps at most {workers} busy; {asked} were asked for"]
