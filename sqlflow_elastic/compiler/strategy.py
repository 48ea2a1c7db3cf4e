"""What EXPLAIN says of a training's workers: how many, what each does, and what they exchange in a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlflow_elastic.compiler.request import asked_workers, few_rows
from sqlflow_elastic.compiler.sizes import bytes_text, count
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.jobs.request import JobRequest

_ID_BYTES = 8
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

_SCALING = {
    Scaling.FASTEST: "fastest: begins with one, and keeps as many workers as make training fastest",
    Scaling.ALL: "all: as many as there is room for",
}


@dataclass(frozen=True)
class Table:
    """An embedding table: its name, its rows, and the numbers of each."""

    name: str
    ids: int
    size: int


def strategy(
    request: JobRequest, values: Mapping[str, Any], dense: int | None, tables: Sequence[Table], about: str
) -> list[tuple[str, str, str]]:
    """The rows of the part ``strategy``.

    Args:
        request: what is asked of the job.
        values: the attributes given.
        dense: numbers that every step sums up over the workers: gradients of all weights but the tables', and batch
            statistics; None where they are known only when the network is built.
        tables: the embedding tables, whose gradients travel as rows.
        about: stands before figures that are no more than a guess.
    """
    workers, batch_size = request.workers, request.batch_size or 1
    rows = []
    if workers < asked_workers(values):
        rows.append(("workers", f"at most {workers}: {few_rows(values, batch_size)[0]}"))
    elif workers > 1:
        rows.append(("workers", f"at most {workers}, as train.num_workers says"))
    if workers == 1:
        rows.append(("one process", "one worker: nothing has to be exchanged"))
    else:
        dtype = values.get("train.wire_dtype") or "float32"
        share = f"{_share(batch_size, workers)} of each batch of {batch_size}"
        rows.append(("scaling", _SCALING[request.scaling]))
        rows.append(("rows", f"{share} for each of {workers} workers"))
        rows.append(("allreduce", _allreduce(dense, workers, dtype, about)))
        rows += [(table.name, _exchanged(table, batch_size, dtype)) for table in tables]
    if request.slots > 1:
        rows.append(("slots", f"{request.slots} for each worker"))
    return [("strategy", item, detail) for item, detail in rows]


def _share(batch_size: int, workers: int) -> str:
    least, rest = divmod(batch_size, workers)
    return f"{least} or {least + 1}" if rest else f"{least}"


def _allreduce(dense: int | None, workers: int, dtype: str, about: str) -> str:
    if dense is None:
        return "the gradients of all weights, whose number is known when the network is built"
    size = dense * _BYTES[dtype]
    passed = bytes_text(2 * (workers - 1) * size / workers)
    kind = "" if dtype == "float32" else f" as {dtype}"
    return f"{about}{bytes_text(size)} of gradients{kind} a step; each of {workers} workers sends and receives {passed}"


def _exchanged(table: Table, batch_size: int, dtype: str) -> str:
    """Each row of the batch touches one row of the table for each of its values."""
    row = bytes_text(_ID_BYTES + table.size * _BYTES[dtype])
    return f"{row} for each value in a batch: {count(min(batch_size, table.ids), 'row')} where each row has one"
