"""What EXPLAIN says of how a training is run: workers, what each does, where tables are, and what a step costs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlflow_elastic.compiler.request import asked_workers, few_rows, takes_own_steps
from sqlflow_elastic.elastic import bandwidth
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.elastic.sizes import bytes_text
from sqlflow_elastic.elastic.strategy import (
    MachineFacts,
    ModelFacts,
    TableFacts,
    choose,
    most_servers,
    worker_memory,
)
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.jobs.request import JobRequest

_SCALING = {
    Scaling.FASTEST: "fastest: begins with one, and keeps as many workers as make training fastest",
    Scaling.ALL: "all: as many as there is room for",
}


@dataclass(frozen=True)
class Table:
    """An embedding table: its name, its rows, the numbers of each, and those that the optimizer keeps beside each."""

    name: str
    ids: int
    size: int
    slots: int
    servable: bool


def strategy(
    request: JobRequest,
    values: Mapping[str, Any],
    settings: Mapping[str, Any],
    dense: int | None,
    slots: float,
    tables: Sequence[Table],
    rows: int | None,
    about: str,
) -> list[tuple[str, str, str]]:
    """The rows of the part ``strategy``.

    Args:
        request: what is asked of the job.
        values: the attributes given.
        settings: the arguments of `elastic.TrainSettings`.
        dense: numbers that every step sums up over the workers: gradients of all weights but the tables', and batch
            statistics; None where they are known only when the network is built.
        slots: numbers that optimizers keep beside each of them.
        tables: the embedding tables.
        rows: of the data; None if that is not known.
        about: stands before figures that are no more than a guess.
    """
    workers, batch_size = request.workers, settings["batch_size"]
    said = []
    if workers < asked_workers(values):
        said.append(("workers", f"at most {workers}: {few_rows(values, settings)[0]}"))
    elif workers > 1:
        said.append(("workers", f"at most {workers}, as train.num_workers says"))
    if workers > 1:
        said.append(("scaling", _SCALING[request.scaling]))
        own = f"{_share(batch_size, workers)} of each batch of {batch_size}"
        each = f"batches of {batch_size} of its own" if takes_own_steps(settings) else own
        said.append(("rows", f"{each} for each of {workers} workers"))
    if dense is None:
        said.append(("choice", "made when the network is built and its weights are known"))
    else:
        wire = 2 if values.get("train.wire_dtype") in ("bfloat16", "float16") else 4
        said += _choice(request, settings, ModelFacts(dense, slots, _facts(tables, batch_size, rows), wire), about)
    if request.slots > 1:
        said.append(("slots", f"{request.slots} for each worker"))
    return [("strategy", item, detail) for item, detail in said]


def _choice(
    request: JobRequest, settings: Mapping[str, Any], model: ModelFacts, about: str
) -> Iterator[tuple[str, str]]:
    """What would be chosen now; the job measures and counts before it chooses."""
    batch_size = settings["batch_size"]
    memory = worker_memory(request.worker_memory or None, request.workers)
    machine = MachineFacts(memory, bandwidth.USUAL, most_servers(len(os.sched_getaffinity(0)), request.workers))
    asked = settings.get("strategy", "auto")
    try:
        plan = choose(model, machine, asked, request.workers, batch_size, settings.get("servers"))
    except JobError as error:
        yield "choice", f"none: {error}"
        return
    servers = "1 server" if plan.servers == 1 else f"{plan.servers} servers"
    what = "all weights" if plan.strategy == "ps" else "tables"
    where = f", {what} on {servers} of {plan.server_memory:,} MiB" if plan.servers else ""
    yield "choice", f"{about}{plan.strategy}{where}: {plan.reason}"
    for option in plan.options:
        step = f"{bytes_text(option.bytes)} and {option.seconds * 1e3:.2f} ms of a step beside computing"
        room = f"{bytes_text(option.worker_memory)} for a worker"
        yield option.strategy, f"{about}{step}; {room}" + (f"; {option.why_not}" if option.why_not else "")
    if model.tables:
        yield (
            "assumed",
            "1 GB/s between processes, and different ids in a batch; the job measures both before it chooses",
        )
    if plan.served:
        for table in model.tables:
            yield table.name, "on servers" if table.name in plan.served else "with every worker"


def _facts(tables: Sequence[Table], batch_size: int, rows: int | None) -> list[TableFacts]:
    """Tables as a job would find them, if all ids of a batch were different."""
    return [
        TableFacts(
            name=table.name,
            rows=table.ids,
            width=table.size,
            slots=table.slots,
            places=1,
            unique={batch_size: float(min(batch_size, table.ids))},
            touched=float(table.ids if rows is None else min(rows, table.ids)),
            servable=table.servable,
        )
        for table in tables
    ]


def _share(batch_size: int, workers: int) -> str:
    least, rest = divmod(batch_size, workers)
    return f"{least} or {least + 1}" if rest else f"{least}"
