"""From a program's functions to the model that is trained: built, measured, and its tables where they are best."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np

from sqlflow_elastic import events
from sqlflow_elastic.elastic import bandwidth
from sqlflow_elastic.elastic.dataset import Array, ArrayDataset
from sqlflow_elastic.elastic.folder import write_json
from sqlflow_elastic.elastic.optimizers import Optimizers
from sqlflow_elastic.elastic.replica import Replica
from sqlflow_elastic.elastic.row_optimizers import row_optimizer
from sqlflow_elastic.elastic.running import Run
from sqlflow_elastic.elastic.served import IDS
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.strategy import (
    MachineFacts,
    ModelFacts,
    Plan,
    Question,
    TableFacts,
    worker_memory,
)
from sqlflow_elastic.models.features.embedding import EmbeddingBag
from sqlflow_elastic.models.features.encoder import Encoder
from sqlflow_elastic.models.features.inputs import FeatureInputs
from sqlflow_elastic.models.trained_tables import TrainedTables

#: ``(name, rows, size) -> whether that layer's table is on servers``.
Served: TypeAlias = Callable[[str, int, int], bool]

#: A smaller table is built to be counted; a larger one may have no room, or be built twice.
_LARGE_BYTES = 4 << 20
_SAMPLES = 8
_SAMPLED_ROWS = 200_000


class Planned:
    """A model with its optimizers, and where its tables are.

    Attributes:
        model, optimizers: built.
        plan: the strategy; None for a program that runs alone, which holds all tables.
    """

    def __init__(
        self,
        run: Run,
        encoder: Encoder,
        dataset: ArrayDataset,
        settings: TrainSettings,
        build_model: Callable[[FeatureInputs], keras.Model],
        optimizers: Callable[[keras.Model], Optimizers],
        trained: TrainedTables | None = None,
    ) -> None:
        """Build, choose, and build again if tables are elsewhere than was thought.

        Args:
            run: of this process.
            encoder, dataset: the rows.
            settings: how the model is trained.
            build_model, optimizers: the program's.
            trained: the tables that training goes on from, if it does: untrained rows are drawn as theirs were.

        Raises:
            JobError: there is no room for the model.
        """

        seed = settings.seed if trained is None or trained.seed is None else trained.seed

        def build(served: Served) -> keras.Model:
            keras.utils.set_random_seed(settings.seed)
            return build_model(FeatureInputs(encoder, seed, served))

        self._run = run
        self._build = build
        self._make_optimizers = optimizers
        self.plan: Plan | None = None
        if run.member is None:
            self.model = build(lambda name, rows, size: False)
            self.optimizers = optimizers(self.model)
            return
        model = build(_is_large)
        for _ in run.tasks("choosing", 1):
            if not run.folder.strategy.exists():
                facts = model_facts(model, optimizers(model), dataset, settings, trained)
                workers = run.member.most
                memory = worker_memory(settings.worker_memory, workers)
                machine = MachineFacts(memory, bandwidth.measured(), run.member.most_servers)
                question = Question(facts, machine, settings.strategy, settings.batch_size, settings.servers)
                self._write(question, question.answer(workers))
        said = json.loads(run.folder.strategy.read_text(encoding="utf-8"))
        self._question, self.plan = Question.from_json(said["question"]), Plan.from_json(said["plan"])
        chosen = set(self.plan.served)
        if {layer.name for layer in _bags(model) if layer.served} != chosen:
            del model
            model = build(lambda name, rows, size: name in chosen)
        self.model, self.optimizers = model, optimizers(model)
        run.member.chosen(self.plan)

    def _write(self, question: Question, plan: Plan) -> None:
        """Write down what is chosen, for workers that come later, and tell it."""
        write_json(self._run.folder.strategy, {"question": question.to_json(), "plan": plan.to_json()})
        if plan.servers:
            what = "all weights are" if plan.strategy == "ps" else "tables are"
            self._run.emit(events.Message(f"{what} on {_servers(plan.servers)}: {plan.reason}"))
        elif self.plan is not None and self.plan.servers:
            self._run.emit(events.Message(f"tables are with the workers now: {plan.reason}"))

    @property
    def asynchronous(self) -> bool:
        """Whether each worker takes steps of its own."""
        return self.plan is not None and self.plan.strategy == "ps"

    def build_whole(self) -> keras.Model:
        """The model anew, with all tables in it."""
        return self._build(lambda name, rows, size: False)

    def differs(self, plan: str) -> bool:
        """Whether the model is built otherwise by a plan, as `Plan.text`."""
        return self.plan is not None and Plan.from_json(json.loads(plan)).placement != self.plan.placement

    def take(self, plan: str, *, leads: bool) -> None:
        """Build the model by a plan. The one before should be used nowhere any more: it is gone meanwhile.

        Args:
            plan: see `differs`.
            leads: whether this process speaks for all that do the same.
        """
        taken = Plan.from_json(json.loads(plan))
        if leads:
            self._write(self._question, taken)
        self.plan, served = taken, set(taken.served)
        del self.model, self.optimizers
        gc.collect()  # traced functions and what they are of refer to one another
        self.model = self._build(lambda name, rows, size: name in served)
        self.optimizers = self._make_optimizers(self.model)
        assert self._run.member is not None  # noqa: S101 - there is a plan
        self._run.member.chosen(taken)

    def better(self, workers: int, replica: Replica) -> Plan | None:
        """Another plan, if one of another strategy is better for a world of this size, and it is worth moving tables.

        Args:
            workers: of the world, which takes steps.
            replica: its state and speed.
        """
        plan = None if self.plan is None else self._question.again(self.plan, workers, replica.speeds)
        # A checkpoint is what the next world begins from: if none could be written lately, much would be lost.
        return plan if plan is not None and replica.saved_lately else None


def _is_large(name: str, rows: int, size: int) -> bool:
    return 4 * rows * size >= _LARGE_BYTES


def _servers(count: int) -> str:
    return "1 server" if count == 1 else f"{count} servers"


def _bags(model: keras.Model) -> list[EmbeddingBag]:
    return [layer for layer in model._flatten_layers() if isinstance(layer, EmbeddingBag)]


def model_facts(
    model: keras.Model,
    optimizers: Optimizers,
    dataset: ArrayDataset,
    settings: TrainSettings,
    trained: TrainedTables | None = None,
) -> ModelFacts:
    """What is known of a model whose large tables are not there."""
    owners = {id(variable): optimizer for optimizer, variables in optimizers for variable in variables}
    bags = _bags(model)
    numbers = sum(int(np.prod(variable.shape)) for variable in model.variables)
    dense = numbers - sum(int(np.prod(layer.table.shape)) for layer in bags)
    slots = [_slots(optimizer) for optimizer, _ in optimizers]
    rng = np.random.default_rng(settings.seed)
    tables = [_table_facts(layer, owners.get(id(layer.table)), dataset, settings, rng, trained) for layer in bags]
    wire = 2 if settings.wire_dtype in ("bfloat16", "float16") else 4
    return ModelFacts(dense, sum(slots) / max(1, len(slots)), tables, wire)


def _table_facts(
    layer: EmbeddingBag,
    optimizer: Any,
    dataset: ArrayDataset,
    settings: TrainSettings,
    rng: np.random.Generator,
    trained: TrainedTables | None,
) -> TableFacts:
    rule = None if optimizer is None else row_optimizer(optimizer)
    ids = dataset.features[IDS]
    unique = {}
    size = settings.batch_size
    while size >= 1:
        unique[size] = expected_unique(ids, layer.columns, size, rng)
        size //= 2
    return TableFacts(
        name=layer.name,
        rows=layer.rows,
        width=layer.size,
        slots=_slots(optimizer) if rule is None else len(rule.initial_slots),
        places=len(layer.columns),
        unique=unique,
        touched=max(_touched(ids, layer, rng), 0 if trained is None else trained.count(layer.stream, layer.rows)),
        servable=rule is not None and layer.part is not None and bool(layer.columns),
    )


def expected_unique(ids: Array, columns: Sequence[int], samples: int, rng: np.random.Generator) -> float:
    """How many different ids so many random samples name, on average.

    Args:
        ids: int [rows, columns] of a dataset; below 0 is none.
        columns: those that count.
        samples: fewer than there are rows count as all.
        rng: draws them.
    """
    rows = len(ids)
    counts = []
    for _ in range(_SAMPLES):
        chosen = np.sort(rng.choice(rows, min(samples, rows), replace=False, shuffle=False))
        counts.append(len(np.unique(ids[chosen][:, list(columns)])))
    return float(np.mean(counts))


def _touched(ids: Array, layer: EmbeddingBag, rng: np.random.Generator) -> float:
    """How many rows of a table the data names, about: of few rows counted, of many as far as they tell."""
    rows = len(ids)
    sampled = min(rows, _SAMPLED_ROWS)
    chosen = np.arange(rows) if sampled == rows else np.sort(rng.integers(0, rows, sampled))
    named = ids[chosen][:, list(layer.columns)]
    whole = len(np.unique(named))
    if sampled == rows:
        return float(whole)
    half = len(np.unique(named[::2]))
    # Different ids grow as a power of the rows, which is about the same for the next doublings.
    power = np.log2(max(1.0, whole / half))
    return float(min(layer.rows, whole * (rows / sampled) ** power))


def _slots(optimizer: Any) -> int:
    """Numbers that an optimizer keeps for each weight; as many as Adam where that is not known."""
    rule = None if optimizer is None else row_optimizer(optimizer)
    return 2 if rule is None else len(rule.initial_slots)
