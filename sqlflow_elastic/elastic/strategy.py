"""Where embedding tables are in a training: with every worker, or on servers.

Known are the sizes of the model, what a batch names of each table, what a worker may take, and how fast bytes travel.
From these follow bytes and time of a step, for each table in either place; the cheapest choice that has room is taken.
Times are estimates for choosing, from constants that `benchmarks/choice.py` measures.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sqlflow_elastic.elastic.membership.messages import Needs
from sqlflow_elastic.elastic.replica import Speeds
from sqlflow_elastic.errors import JobError

_MIB = 1 << 20
#: What a worker takes beside its model: TensorFlow, its graphs, batches.
WORKER_BYTES = 900 * _MIB
#: What a server takes beside its rows.
SERVER_BYTES = 150 * _MIB
#: Of what a server's rows are expected to take, what it may take: they are not spread evenly, and an estimate.
_HEADROOM = 1.5
#: Weights, slots, gradients and sums of dense variables, in multiples of the weights beside slots.
_DENSE_COPIES = 3.0
#: Beside a row's numbers a server keeps its id, marks, and what it was before the last step.
_ROW_OVERHEAD = 24
#: A world that has taken steps for so long will stand; tables move if so much is left to train.
_STANDS_SECONDS, _REPAYS_SECONDS = 30.0, 120.0
#: A choice against what costs no servers has to gain this part of a step.
_BETTER = 0.9


@dataclass(frozen=True)
class Costs:
    """Seconds that the parts of a step take beside its bytes, as far as strategies differ in them; see `COSTS`.

    Attributes:
        local_table: a table that every worker holds: its operations in the graph, and its part of what is exchanged.
        local_place: an id of a batch, all workers' together, in such a table: its row found, its gradient added up …
        local_number: … and each number of that row, of its weights or of a slot, as far as tables are beyond the cache.
        local_miss: a different row of a batch that is beyond the cache.
        round: a step's messages to servers and back.
        served_row: a row of a worker's lookup at a server: found, read, its gradient added up …
        served_number: … and each number of it: of its weights, or of a slot.
    """

    local_table: float
    local_place: float
    local_number: float
    local_miss: float
    round: float
    served_row: float
    served_number: float


#: Fitted by `python -m benchmarks.choice --constants` to steps of 14 models with two workers and a server, on two quiet
#: cores; most of them are within 10 % of it.
COSTS = Costs(
    local_table=32e-6,
    local_place=42e-9,
    local_number=2.6e-9,
    local_miss=76e-9,
    round=0.40e-3,
    served_row=121e-9,
    served_number=1.4e-9,
)
#: Bytes of tables and slots that stay in a worker's cache; of 1, 4, 16, 32 and 64 MB what fits those steps best.
_CACHE_BYTES = 4e6


@dataclass(frozen=True)
class TableFacts:
    """A table.

    Attributes:
        name: of its layer.
        rows: ids are below this.
        width: numbers of a row.
        slots: that its optimizer keeps for each.
        places: ids that a sample names.
        unique: of batches of some sizes, how many different ids they name.
        touched: rows that the data names, or that were trained before.
        servable: whether it can be on servers: its rows are drawn one by one, and its optimizer updates single rows.
    """

    name: str
    rows: int
    width: int
    slots: int
    places: int
    unique: Mapping[int, float]
    touched: float
    servable: bool

    @property
    def row_bytes(self) -> int:
        """Of a row with its slots."""
        return 4 * self.width * (1 + self.slots)

    def unique_in(self, samples: float) -> float:
        """How many different ids so many samples name, between what is known."""
        known = sorted(self.unique.items())
        below = [(0, 0.0)] + [each for each in known if each[0] <= samples]
        above = [each for each in known if each[0] >= samples]
        if not above:
            size, count = known[-1]
            return min(self.rows, count * samples / size)
        (low, low_count), (high, high_count) = below[-1], above[0]
        part = 0.0 if high == low else (samples - low) / (high - low)
        return low_count + part * (high_count - low_count)


@dataclass(frozen=True)
class ModelFacts:
    """A model.

    Attributes:
        dense: numbers of all weights but the tables'.
        slots: that optimizers keep for each, on average.
        tables: all of them.
        wire: bytes in which a dense gradient's numbers travel.
    """

    dense: int
    slots: float
    tables: Sequence[TableFacts]
    wire: int = 4


@dataclass(frozen=True)
class MachineFacts:
    """Where it is trained.

    Attributes:
        worker_memory: bytes that a worker may take.
        bandwidth: bytes a second between two processes.
        servers: the most that it has room for, if nobody says how many; at least one.
        costs: what a step's parts take.
    """

    worker_memory: float
    bandwidth: float
    servers: int = 1
    costs: Costs = COSTS


@dataclass(frozen=True)
class Option:
    """A strategy, and what it would cost.

    Attributes:
        strategy: "allreduce", "hybrid" or "ps".
        served: names of the tables that are on servers; with "ps" all other weights are there too.
        bytes: that a worker sends and receives in a step.
        seconds: of a step, beside computing.
        worker_memory: bytes that a worker takes.
        servers: how many it has.
        why_not: why it cannot be taken; "" if it can.
    """

    strategy: str
    served: tuple[str, ...]
    bytes: float
    seconds: float
    worker_memory: float
    servers: int = 0
    why_not: str = ""


@dataclass(frozen=True)
class Plan:
    """The choice.

    Attributes:
        strategy, served: see `Option`.
        servers: how many; 0 for none.
        server_memory: of each, in MiB.
        workers: of the world that it was chosen for.
        reason: in a sentence.
        options: all that were looked at, the chosen one first.
    """

    strategy: str
    served: tuple[str, ...]
    servers: int
    server_memory: int
    workers: int
    reason: str
    options: tuple[Option, ...]

    @property
    def needs(self) -> Needs:
        """What a master has to know of it."""
        return Needs(
            self.servers, self.server_memory, self.text, synchronous=self.strategy != "ps", placement=self.placement
        )

    @property
    def placement(self) -> str:
        """The strategy, and which tables are on servers: what a network is built by."""
        return json.dumps([self.strategy, *self.served])

    @property
    def text(self) -> str:
        """As JSON."""
        return json.dumps(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """As JSON's types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises: KeyError, TypeError: it is none."""
        options = tuple(Option(**{**each, "served": tuple(each["served"])}) for each in data["options"])
        return cls(**{**data, "served": tuple(data["served"]), "options": options})


@dataclass(frozen=True)
class Question:
    """What a choice depends on, beside the size of the world.

    Attributes:
        model, machine, strategy, batch_size, servers: see `choose`.
    """

    model: ModelFacts
    machine: MachineFacts
    strategy: str
    batch_size: int
    servers: int | None

    def answer(self, workers: int) -> Plan:
        """The choice for a world of so many workers. Raises: see `choose`."""
        return choose(self.model, self.machine, self.strategy, workers, self.batch_size, self.servers)

    def again(self, plan: Plan, workers: int, speeds: Speeds) -> Plan | None:
        """Another plan, if one of another strategy is better for a world that takes steps, and will be for a while.

        Args:
            plan: in force.
            workers: of the world.
            speeds: of its training.
        """
        stands = speeds.settled and speeds.measured >= _STANDS_SECONDS
        if self.strategy != "auto" or not stands or speeds.eta < _REPAYS_SECONDS:
            return None
        better = self.answer(workers)
        return None if better.strategy == plan.strategy else better

    def to_json(self) -> dict[str, Any]:
        """As JSON's types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises: KeyError, TypeError, ValueError: it is none."""
        tables = [
            TableFacts(**{**each, "unique": {int(size): count for size, count in each["unique"].items()}})
            for each in data["model"]["tables"]
        ]
        model = ModelFacts(**{**data["model"], "tables": tables})
        machine = MachineFacts(**{**data["machine"], "costs": Costs(**data["machine"]["costs"])})
        return cls(**{**data, "model": model, "machine": machine})


def worker_memory(asked: int | None, workers: int) -> float:
    """Bytes that each of so many workers may take: what is asked for in MiB, or its part of this machine's memory."""
    if asked is not None:
        return float(asked * _MIB)
    found = re.search(r"^MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"), re.MULTILINE)
    return (int(found[1]) << 10) * 0.8 / workers if found else 4096.0 * _MIB


def most_servers(cores: int, workers: int) -> int:
    """How many servers may have a core of their own beside the workers; at least one."""
    return max(1, cores - workers)


def choose(
    model: ModelFacts, machine: MachineFacts, strategy: str, workers: int, batch_size: int, servers: int | None
) -> Plan:
    """Choose.

    Args:
        model: what is trained.
        machine: on what.
        strategy: "auto", or the one to take.
        workers: of the largest world.
        batch_size: samples of a step, all workers' together.
        servers: how many there are to be; None for as many as keep a step's time at a server below the workers', if the
            machine has room for them.

    Raises:
        JobError: nothing has room.
    """
    local = _local(model, machine, workers, batch_size)
    hybrid = _hybrid(model, machine, workers, batch_size, servers)
    options = [local] if hybrid is None else [local, hybrid]
    if strategy == "ps":
        options.append(_asynchronous(model, machine, workers, batch_size, servers))
    possible = [option for option in options if not option.why_not and strategy in ("auto", option.strategy)]
    if not possible:
        raise JobError(_nothing(strategy, options))
    best = _preferred(possible, workers)
    others = [option for option in options if option is not best]
    reason = _reason(best, others, strategy, workers)
    memory = _server_memory(model, best)
    return Plan(best.strategy, best.served, best.servers, memory, workers, reason, (best, *others))


def _preferred(options: Sequence[Option], workers: int) -> Option:
    """The one to take of those that there is room for.

    Servers have to be worth it. One worker that has room for all tables exchanges nothing, and runs many steps in a
    call that asks nobody.
    """
    best = min(options, key=lambda option: option.seconds)
    local = next((option for option in options if not option.served), None)
    if local is not None and (workers == 1 or best.seconds >= local.seconds * _BETTER):
        return local
    return best


def _dense_bytes(model: ModelFacts) -> float:
    return 4 * model.dense * (_DENSE_COPIES + model.slots)


def _dense_step(model: ModelFacts, machine: MachineFacts, workers: int) -> tuple[float, float]:
    """Bytes of a worker and seconds of a step for the sums of dense gradients."""
    if workers == 1:
        return 0.0, 0.0
    size = 2 * (workers - 1) / workers * model.wire * model.dense
    return 2 * size, size / machine.bandwidth


def _local(model: ModelFacts, machine: MachineFacts, workers: int, batch_size: int) -> Option:
    size, seconds = _dense_step(model, machine, workers)
    memory = WORKER_BYTES + _dense_bytes(model)
    for table in model.tables:
        memory += table.rows * table.row_bytes
        table_bytes, table_seconds = _local_step(model, table, machine, workers, batch_size)
        size, seconds = size + table_bytes, seconds + table_seconds
    return Option("allreduce", (), size, seconds, memory, why_not=_too_much(memory, machine))


def _local_step(
    model: ModelFacts, table: TableFacts, machine: MachineFacts, workers: int, batch_size: int
) -> tuple[float, float]:
    """Bytes of a worker and seconds of a step for a table that every worker holds.

    All get all rows of the batch, or sums of the whole table where that is less.
    """
    costs, places = machine.costs, batch_size * table.places
    missing = max(0.0, 1 - _CACHE_BYTES / sum(each.rows * each.row_bytes for each in model.tables))
    size = (workers - 1) / workers * min(places * (8 + 4 * table.width), 2 * table.rows * 4 * (table.width + 1))
    row = costs.local_place + table.width * (1 + table.slots) * missing * costs.local_number
    misses = table.unique_in(batch_size) * missing * costs.local_miss
    return 2 * size, size / machine.bandwidth + costs.local_table + places * row + misses


def _served_step(table: TableFacts, machine: MachineFacts, workers: int, batch_size: int) -> tuple[float, float]:
    """Bytes of a worker, and seconds of a step at one server, for a table that is there."""
    costs, unique = machine.costs, table.unique_in(batch_size / workers)
    size = unique * (4 + 2 * 4 * table.width)
    row = costs.served_row + table.width * (1 + table.slots) * costs.served_number
    return size, workers * (size / machine.bandwidth + unique * row)


def _hybrid(
    model: ModelFacts, machine: MachineFacts, workers: int, batch_size: int, servers: int | None
) -> Option | None:
    """The best choice of tables for servers; None without any that can be there."""
    servable = [table for table in model.tables if table.servable]
    if not servable:
        return None

    def gain(table: TableFacts) -> float:
        served = _served_step(table, machine, workers, batch_size)[1]
        return _local_step(model, table, machine, workers, batch_size)[1] - served

    chosen = {table.name for table in servable if gain(table) > 0}
    room = machine.worker_memory - WORKER_BYTES - _dense_bytes(model)
    room -= sum(table.rows * table.row_bytes for table in model.tables if table.name not in chosen)
    # What has no room goes to servers too, the largest first.
    for table in sorted(servable, key=lambda each: -each.rows * each.row_bytes):
        if room < 0 and table.name not in chosen:
            chosen.add(table.name)
            room += table.rows * table.row_bytes
    if not chosen:
        chosen = {table.name for table in servable}
    size, seconds = _dense_step(model, machine, workers)
    memory = WORKER_BYTES + _dense_bytes(model)
    seconds, at_server = seconds + machine.costs.round, 0.0
    for table in model.tables:
        if table.name in chosen:
            table_bytes, table_seconds = _served_step(table, machine, workers, batch_size)
            at_server += table_seconds
        else:
            table_bytes, table_seconds = _local_step(model, table, machine, workers, batch_size)
            seconds += table_seconds
            memory += table.rows * table.row_bytes
        size += table_bytes
    # A server is not to take longer than the workers, if there is room for more of them.
    count = servers or max(1, min(machine.servers, math.ceil(at_server / seconds)))
    served_names = tuple(table.name for table in model.tables if table.name in chosen)
    why_not = _too_much(memory, machine)
    return Option("hybrid", served_names, size, seconds + at_server / count, memory, count, why_not)


def _asynchronous(
    model: ModelFacts, machine: MachineFacts, workers: int, batch_size: int, servers: int | None
) -> Option:
    """All weights on servers; a batch is each worker's own."""
    costs, served = machine.costs, [table for table in model.tables if table.servable]
    # A table whose rows are not drawn one by one is dense there: all of it travels.
    dense = model.dense + sum(table.rows * table.width for table in model.tables if not table.servable)
    size = 2 * 4.0 * dense
    at_server = workers * dense * ((1 + model.slots) * costs.served_number + 8 / machine.bandwidth)
    for table in served:
        table_bytes, table_seconds = _served_step(table, machine, workers, workers * batch_size)
        size, at_server = size + table_bytes, at_server + table_seconds
    memory = WORKER_BYTES + 4 * dense * _DENSE_COPIES
    count, names = servers or 1, tuple(table.name for table in served)
    return Option("ps", names, size, costs.round + at_server / count, memory, count, _too_much(memory, machine))


def _server_memory(model: ModelFacts, option: Option) -> int:
    """Of each server, in MiB; 0 without any."""
    if not option.servers:
        return 0
    rows = sum(
        table.touched * (table.row_bytes + _ROW_OVERHEAD) + 4 * table.rows
        for table in model.tables
        if table.name in option.served
    )
    if option.strategy == "ps":
        rows += 4 * model.dense * (1 + model.slots)
    return math.ceil((rows / option.servers * _HEADROOM + SERVER_BYTES) / _MIB)


def _too_much(memory: float, machine: MachineFacts) -> str:
    if memory <= machine.worker_memory:
        return ""
    return f"a worker would take {memory / _MIB:,.0f} MiB, and has {machine.worker_memory / _MIB:,.0f}"


def _reason(best: Option, others: Sequence[Option], strategy: str, workers: int) -> str:
    if strategy != "auto":
        return f"train.strategy = {strategy}"
    if not others:
        return "no table could be on servers"
    (other,) = others
    if other.why_not:
        return f"with {other.strategy} {other.why_not}"
    if workers == 1 and not best.served:
        return "one worker has room for all of it, and nothing has to be exchanged"
    what = "1 worker" if workers == 1 else f"{workers} workers"
    return (
        f"{best.seconds * 1e3:.2f} ms of a step of {what} beside computing, {other.strategy} {other.seconds * 1e3:.2f}"
    )


def _nothing(strategy: str, options: Sequence[Option]) -> str:
    why = "; ".join(f"{option.strategy}: {option.why_not}" for option in options if option.why_not)
    if strategy == "hybrid" and not any(option.strategy == "hybrid" for option in options):
        return "train.strategy = hybrid: the model has no table that could be on servers"
    return f"there is no room for the model ({why}): give workers more memory (train.worker_memory), or smaller tables"
