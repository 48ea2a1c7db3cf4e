"""Whether the strategy that is predicted to be faster is the one that is measured to be.

    python -m benchmarks.choice [NAME …]
    python -m benchmarks.choice --constants

Each model is trained with its tables at every worker and with those on a server that are predicted to be better there,
in turns, by the same processes: workers that have both trainings, each on its share of the cores as in a job, and a
server. Steps, sockets and sums are those of jobs. Other work on the machine only ever makes steps slower: a turn waits
for a while until there is none, and of all turns the fastest stretch counts.

Measured is a whole step, predicted what it takes beside computing; so beside them stands by how much steps with a
server are shorter, measured and predicted. Where both take about the same, within 5 %, either choice is right. Exit
code 1 if fewer than 9 of 10 are.

With `--constants`, models of hardly any network are measured, and what parts of a step take is fitted to them: the
figures of `strategy.COSTS`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import multiprocessing
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from sqlflow_elastic.elastic import bandwidth
from sqlflow_elastic.elastic.comm import Endpoint, Place
from sqlflow_elastic.elastic.cores import keep_to, share
from sqlflow_elastic.elastic.strategy import Costs, MachineFacts, ModelFacts, Plan, choose
from sqlflow_elastic.elastic.tables.client import enter
from sqlflow_elastic.elastic.tables.server import TableServer

ALLREDUCE, HYBRID = "allreduce", "hybrid"
NUMBERS, ZIPF, RATE = 4, 1.2, 0.01
#: Different batches, taken again and again.
BATCHES = 64
#: Until steps are taken as they will be, and servers have made the rows; then turns are measured.
WARM_UP_SECONDS, TURN_SECONDS, TURNS = 1.5, 0.4, 10
WINDOW_SECONDS, WINDOW_STEPS = 0.02, 8
#: What the machine may have to do before a turn, in percent, and how long turns of a case wait for that together.
BUSY_PERCENT, QUIET_SECONDS, LOOK_SECONDS = 20.0, 8.0, 0.05
DEADLINE = 120.0
#: A difference that is none, and the part of predictions that has to be right.
TIE, BOUND = 0.05, 0.9

_TOKEN = secrets.token_bytes(16)
_SERVER = "ps-0"


@dataclass(frozen=True)
class Case:
    """What is trained.

    Attributes:
        fields: each with a table of vectors.
        rows, width: of each.
        batch: samples of a step, all workers' together.
        optimizer: of everything.
        even: whether ids are drawn evenly; else by Zipf's law.
        workers: that train it.
        units: of the dense layers.
        wide: whether each field has a table of single weights, too.
    """

    fields: int
    rows: int
    width: int
    batch: int
    optimizer: str = "SGD"
    even: bool = False
    workers: int = 2
    units: tuple[int, ...] = (64, 32)
    wide: bool = False


CASES = {
    "3 small tables": Case(3, 1_000, 8, 64),
    "1 table, large network": Case(1, 10_000, 8, 128, "Adam", units=(512, 512)),
    "8 tables": Case(8, 10_000, 8, 256),
    "8 tables, Adam": Case(8, 100_000, 16, 2048, "Adam"),
    "8 tables, even ids": Case(8, 100_000, 16, 1024, even=True),
    "wide and deep, 26": Case(26, 100_000, 16, 1024, wide=True),
    "26 large tables": Case(26, 1_000_000, 16, 1024),
    "26 tables, 1 worker": Case(26, 100_000, 16, 512, workers=1, wide=True),
    "Adagrad, 1 worker": Case(4, 100_000, 64, 1024, "Adagrad", even=True, workers=1),
    "2 wide rows, even ids": Case(2, 500_000, 128, 256, "Adagrad", even=True),
    "4 wide rows": Case(4, 100_000, 128, 4096, "Adagrad", units=(256, 64)),
    "4 narrow rows, Ftrl": Case(4, 1_000, 4, 4096, "Ftrl"),
    "16 tables, large network": Case(16, 50_000, 8, 512, "Adam", units=(1024, 512)),
    "even ids, large batch": Case(4, 1_000_000, 32, 4096, even=True),
}

#: Hardly any network, so that steps differ by what is to be found out.
CONSTANTS = [
    Case(1, 1_000, 4, 64, units=()),
    Case(26, 1_000, 4, 64, units=()),
    Case(26, 100_000, 16, 512, units=()),
    Case(8, 100_000, 16, 1024, even=True, units=()),
    Case(8, 100_000, 1, 4096, units=()),
    Case(2, 100_000, 16, 8192, even=True, units=()),
    Case(4, 1_000_000, 32, 4096, even=True, units=()),
    Case(8, 1_000_000, 16, 1024, even=True, units=()),
    Case(4, 100_000, 128, 1024, even=True, units=()),
    Case(4, 100_000, 64, 1024, "Adam", even=True, units=()),
    Case(2, 1_000, 64, 4096, "Adagrad", units=()),
    Case(4, 100_000, 128, 4096, "Adagrad", units=()),
    Case(2, 100_000, 64, 4096, "Adam", units=()),
    Case(8, 100_000, 16, 1024, even=True, units=(), workers=1),
]


@dataclass(frozen=True)
class Outcome:
    """Of a case: what was measured, in seconds of a step by strategy, and what a prediction starts from."""

    case: Case
    measured: dict[str, float]
    model: ModelFacts
    machine: MachineFacts

    @property
    def plan(self) -> Plan:
        return choose(self.model, self.machine, "auto", self.case.workers, self.case.batch, 1)

    @property
    def predicted(self) -> dict[str, float]:
        return {option.strategy: option.seconds for option in self.plan.options}

    def with_costs(self, costs: Costs, speed: float) -> Outcome:
        """As it would be predicted if parts of a step took these seconds."""
        return dataclasses.replace(self, machine=dataclasses.replace(self.machine, costs=costs, bandwidth=speed))

    @property
    def tie(self) -> bool:
        return max(self.measured.values()) <= min(self.measured.values()) * (1 + TIE)

    @property
    def right(self) -> bool:
        return self.tie or self.plan.strategy == min(self.measured, key=lambda each: self.measured[each])


def network(case: Case, served: Any) -> Any:
    """Vectors and numbers through dense layers. ``served`` says by a layer's name whether its table is on servers."""
    import keras

    from sqlflow_elastic.models.features.embedding import EmbeddingBag

    ids = keras.Input((case.fields,), dtype="int32", name="ids")
    numbers = keras.Input((NUMBERS,), name="numbers")

    def bag(name: str, field: int, size: int, stream: int) -> Any:
        # Zeros take as long as other numbers, but for drawing them.
        options = {"columns": (field,), "stream": stream, "served": served(name), "name": name}
        return EmbeddingBag(case.rows, size, initializer="zeros", **options)(ids[:, field : field + 1])

    fields = range(case.fields)
    x = keras.layers.Concatenate()([*(bag(f"vector_{i}", i, case.width, i) for i in fields), numbers])
    for units in case.units:
        x = keras.layers.Dense(units, activation="relu")(x)
    logit = keras.layers.Dense(1)(x)
    if case.wide:
        logit = keras.layers.Add()([logit, *(bag(f"weight_{i}", i, 1, case.fields + i) for i in fields)])
    return keras.Model({"ids": ids, "numbers": numbers}, logit)


class Worker:
    """One of a case's processes that train: told what to do through a pipe.

    Args:
        case: what.
        rank: its own.
        token: the job's.
    """

    def __init__(self, case: Case, rank: int, token: bytes) -> None:
        if case.workers > 1:
            keep_to(share(sorted(os.sched_getaffinity(0)), rank, case.workers))
        self._case, self._rank, self._token = case, rank, token
        self._trainers: dict[str, Any] = {}
        rng = np.random.default_rng(0)
        shape = BATCHES * case.batch, case.fields
        ids = rng.integers(0, case.rows, shape) if case.even else rng.zipf(ZIPF, shape) % case.rows
        numbers = rng.normal(size=(shape[0], NUMBERS)).astype(np.float32)
        self._features = {"ids": ids.astype(np.int32), "numbers": numbers}
        self._labels = rng.integers(0, 2, (shape[0], 1)).astype(np.float32)
        self._endpoint = Endpoint(token)
        self._ring: Any = None

    @property
    def address(self) -> str:
        """Where its neighbour in the ring connects to."""
        return self._endpoint.address

    def facts(self) -> tuple[ModelFacts, MachineFacts]:
        """What a job's worker finds out before it chooses."""
        from sqlflow_elastic.elastic.planning import model_facts

        model = network(self._case, lambda name: True)
        facts = model_facts(model, self._optimizers(model), self._dataset(), self._settings())
        return facts, MachineFacts(math.inf, bandwidth.measured())

    def build(self, served: Sequence[str], next: str) -> None:
        """Make both trainings, and the ring."""
        import keras

        from benchmarks.click_model import gradients
        from sqlflow_elastic.elastic.trainer import Trainer

        place = Place(1, self._rank, self._case.workers, next)
        self._ring = self._endpoint.connect(place, DEADLINE) if self._case.workers > 1 else None
        for strategy, chosen in ((ALLREDUCE, ()), (HYBRID, served)):
            keras.utils.set_random_seed(0)
            model = network(self._case, lambda name, chosen=chosen: name in chosen)
            trainer = Trainer(
                model,
                gradients,
                self._optimizers(model),
                self._dataset(),
                self._settings(),
                emit=lambda event: None,
            )
            trainer.begin()
            if self._ring is not None or chosen:
                trainer.warm_up()
            self._trainers[strategy] = trainer

    def turn(self, strategy: str, version: int, seconds: float, server: str, decided: bool) -> float:
        """Train for some time, and until a worker alone has found its way if that is wanted; seconds of a step."""
        trainer = self._trainers[strategy]
        marks: list[tuple[float, int]] = []
        end = time.perf_counter() + seconds
        alone = self._ring is None and not trainer.table_specs

        def stop() -> bool:
            marks.append((time.perf_counter(), trainer.step))
            enough = marks[-1][0] > end and marks[-1][1] > marks[0][1]
            return enough and not (decided and alone and trainer.way is None)

        tables = None
        if trainer.table_specs:
            place = Place(version, self._rank, self._case.workers, "")
            root, new = self._rank == 0, trainer.step == 0
            servers = [(_SERVER, server)]
            tables = enter(
                self._token, servers, trainer.table_specs, place, trainer.step, root=root, new=new, seconds=DEADLINE
            )
        with tables or contextlib.nullcontext():
            trainer.run(self._ring, (), stop, tables)
            if self._ring is not None:
                self._ring.allgather(b"")  # who leaves a server ends the world there
        return fastest(marks)

    def _optimizers(self, model: Any) -> Any:
        import keras

        return [(getattr(keras.optimizers, self._case.optimizer)(RATE), model.trainable_variables)]

    def _dataset(self) -> Any:
        from sqlflow_elastic.elastic.dataset import ArrayDataset

        return ArrayDataset(self._features, self._labels)

    def _settings(self) -> Any:
        from sqlflow_elastic.elastic import TrainSettings

        return TrainSettings(epochs=100_000, batch_size=self._case.batch, checkpoint_secs=None)


def fastest(marks: Sequence[tuple[float, int]]) -> float:
    """Seconds of a step in the fastest stretch of so much time and so many steps, of times and steps done until then.

    If there is none so long, all of it counts.
    """
    found = []
    for index, (began, first) in enumerate(marks):
        for ended, last in marks[index:]:
            if ended - began >= WINDOW_SECONDS and last - first >= WINDOW_STEPS:
                found.append((ended - began) / (last - first))
                break
    (began, first), (ended, last) = marks[0], marks[-1]
    return min(found, default=(ended - began) / (last - first))


def work(case: Case, rank: int, token: bytes, pipe: Connection) -> None:
    """A worker's process: says its address, then what each call that it is told gives."""
    worker = Worker(case, rank, token)
    pipe.send(worker.address)
    while True:
        name, arguments = pipe.recv()
        pipe.send(getattr(worker, name)(*arguments))


def serve(token: bytes, folder: str, pipe: Connection) -> None:
    """A server's process."""
    server = TableServer(token, "127.0.0.1", _SERVER, Path(folder))
    pipe.send(server.address)
    server.serve()


class Crew:
    """The processes of a case."""

    def __init__(self, case: Case, cleanup: ExitStack) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tensorflow", "keras", "sqlflow_elastic.elastic.training"])
        self._cleanup = cleanup
        folder = cleanup.enter_context(tempfile.TemporaryDirectory())
        self._server = self._start(serve, _TOKEN, folder)
        self._workers = [self._start(work, case, rank, _TOKEN) for rank in range(case.workers)]
        self.server = self._heard(self._server)
        self.addresses = [self._heard(each) for each in self._workers]

    def tell(self, name: str, *arguments: Sequence[Any]) -> list[Any]:
        """Each worker's answer to a call, given the arguments of each; those of the first for fewer."""
        for pipe, own in zip(self._workers, arguments, strict=False):
            pipe.send((name, own))
        return [self._heard(pipe) for pipe, _ in zip(self._workers, arguments, strict=False)]

    def _start(self, target: Any, *arguments: Any) -> Connection:
        here, there = self._context.Pipe()
        process = self._context.Process(target=target, args=(*arguments, there), daemon=True)
        process.start()
        there.close()
        self._cleanup.callback(process.join)
        self._cleanup.callback(process.kill)
        return here

    @staticmethod
    def _heard(pipe: Connection) -> Any:
        if not pipe.poll(DEADLINE):
            raise RuntimeError("a process of the benchmark is silent")
        return pipe.recv()


def measure(case: Case) -> Outcome:
    """Train it both ways, in turns."""
    with ExitStack() as cleanup:
        crew = Crew(case, cleanup)
        ((model, machine),) = crew.tell("facts", ())
        outcome = Outcome(case, dict.fromkeys((ALLREDUCE, HYBRID), math.inf), model, machine)
        (hybrid,) = (option for option in outcome.plan.options if option.strategy == HYBRID)
        addresses = [*crew.addresses[1:], crew.addresses[0]]
        crew.tell("build", *((hybrid.served, next) for next in addresses))
        patience = QUIET_SECONDS
        for turn in range(TURNS + 1):
            seconds = TURN_SECONDS if turn else WARM_UP_SECONDS
            for strategy in outcome.measured:
                while turn and patience > 0 and psutil.cpu_percent(LOOK_SECONDS) > BUSY_PERCENT:
                    patience -= LOOK_SECONDS
                arguments = [strategy, turn + 2, seconds, crew.server, not turn]
                took = max(crew.tell("turn", *[arguments] * case.workers))
                if turn:
                    outcome.measured[strategy] = min(outcome.measured[strategy], took)
        return outcome


def compare(name: str, case: Case) -> bool:
    """Print a case; whether what is predicted to be faster is."""
    outcome = measure(case)
    measured, predicted = outcome.measured, outcome.predicted
    gains = [1e3 * (seconds[ALLREDUCE] - seconds[HYBRID]) for seconds in (predicted, measured)]
    figures = "   ".join(f"{each} {1e3 * measured[each]:7.2f} ({1e3 * predicted[each]:6.2f})" for each in measured)
    verdict = "right" if outcome.right else "WRONG"
    tie = ", a tie" if outcome.tie else ""
    chosen = outcome.plan.strategy
    print(f"{name:26} {figures}   gain {gains[1]:7.2f} ({gains[0]:6.2f})   chosen {chosen}: {verdict}{tie}", flush=True)
    return outcome.right


def constants(cases: Sequence[Case]) -> None:
    """Measure models that differ in one thing or another, and fit the parts of their steps."""
    from scipy.optimize import nnls  # type: ignore[import-untyped]

    names = [field.name for field in dataclasses.fields(Costs)]
    nothing = dict.fromkeys(names, 0.0)
    rows, times, sends, said = [], [], [], []
    for case in cases:
        outcome = measure(case)
        sent = outcome.with_costs(Costs(**nothing), outcome.machine.bandwidth).predicted
        parts = [outcome.with_costs(Costs(**{**nothing, name: 1.0}), math.inf).predicted for name in names]
        for strategy, seconds in outcome.measured.items():
            if case.workers > 1 or strategy == HYBRID:  # one worker with all tables takes steps of another kind
                # Beside those, of what is computed: a step, and a number that a worker's part of a batch looks up.
                own = case.batch * case.fields * case.width / case.workers
                rows.append([*(part[strategy] for part in parts), 1.0, own])
                times.append(seconds)
                sends.append(sent[strategy])
                said.append(f"{strategy:10} {case}")
                print(f"{1e3 * seconds:8.2f} ms   {said[-1]}", flush=True)
    matrix, vector = np.array(rows), np.array(times)
    fitted, _ = nnls(matrix / vector[:, None], 1 - np.array(sends) / vector)
    for what, seconds, found in zip(said, times, matrix @ fitted + sends, strict=True):
        print(f"{1e3 * seconds:8.2f} ms, fitted {1e3 * found:8.2f}   {what}")
    for name, value in zip([*names, "a step", "a number"], fitted, strict=True):
        print(f"{name:16} {value:.3g}")


def main() -> int:
    """Measure, print, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--constants", action="store_true", help="measure what parts of a step take")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if arguments.constants:
        constants(CONSTANTS)
        return 0
    print("milliseconds of a step, measured (and predicted, beside computing)")
    names = arguments.names or list(CASES)
    right = [compare(name, CASES[name]) for name in names]
    print(f"right in {sum(right)} of {len(right)} (bound {BOUND:g})")
    return int(sum(right) < BOUND * len(right))


if __name__ == "__main__":
    sys.exit(main())
