"""`train`: the call a training program ends in."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from sqlflow_elastic import events
from sqlflow_elastic.elastic.asynchronous.trainer import AsynchronousTrainer
from sqlflow_elastic.elastic.batch import Batch
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.encoded import encode_snapshot
from sqlflow_elastic.elastic.first_tables import write_first_tables
from sqlflow_elastic.elastic.folder import write_json
from sqlflow_elastic.elastic.membership.messages import Needs
from sqlflow_elastic.elastic.optimizers import Optimizers
from sqlflow_elastic.elastic.planning import Planned
from sqlflow_elastic.elastic.replica import Replica
from sqlflow_elastic.elastic.running import RowSource, Run, running, values_of
from sqlflow_elastic.elastic.served import served_layers
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.snapshot import Snapshot
from sqlflow_elastic.elastic.table_saving import is_small, save_tables, whole_model
from sqlflow_elastic.elastic.trainer import Trainer, TrainResult
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.models.artifact import Artifact, save_artifact
from sqlflow_elastic.models.features.columns import ClassLabel, Column, Field, Label, NumberLabel
from sqlflow_elastic.models.features.encoder import Encoder
from sqlflow_elastic.models.features.inputs import FeatureInputs
from sqlflow_elastic.models.features.statistics import Statistics, learn
from sqlflow_elastic.models.local_tables import take_weights
from sqlflow_elastic.models.trained_tables import TrainedTables

ClassWeight = str | Mapping[Any, float] | None


def train(
    *,
    name: str,
    rows: RowSource,
    validation: RowSource | None,
    fields: Sequence[Field],
    columns: Mapping[str, Sequence[Column]],
    label: Label | None,
    build_model: Callable[[FeatureInputs], keras.Model],
    gradients: Callable[[keras.Model, Batch], tuple[tf.Tensor, list[Any]]],
    sample_losses: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    optimizers: Callable[[keras.Model], Optimizers],
    metrics: Sequence[str],
    settings: TrainSettings,
    class_weight: ClassWeight = None,
    using: bool = False,
) -> None:
    """Train a model and leave its artifact in the job's folder.

    Args:
        name: the model's name.
        rows: where the rows come from when the program runs alone; a job finds their snapshot in its folder.
        validation: the same for ``validation.select``; None without one.
        fields, columns, label: the features, see `sqlflow_elastic.models.features.columns`.
        build_model: the network over the encoded features.
        gradients: a batch's loss (scalar) and the gradients of ``model.trainable_variables``, both sums over samples.
        sample_losses: losses of single samples, [rows], from labels and outputs; used on validation rows.
        optimizers: who updates which variables.
        metrics: names of what to measure on validation rows.
        settings: epochs, batch size, seed and the like.
        class_weight: "balanced", or the weight of each class by its label; None: all weigh 1.
        using: go on from the trained model in the job's folder: its features, statistics, weights and tables.
    """
    with running(name) as run:
        begun = time.monotonic()
        continued = run.trained_model(build_model) if using else None
        trained = None if continued is None else TrainedTables(continued)

        def prepare() -> _Prepared:
            snapshot = run.rows(rows, run.folder.snapshot)
            statistics = continued.statistics if continued else _statistics(run, snapshot, fields, columns, label)
            encoder = Encoder(columns, fields, statistics, label)
            dataset, held_out = encode_snapshot(run, snapshot, encoder, run.folder.encoded, settings)
            if validation is not None:
                chosen = run.rows(validation, run.folder.validation)
                held_out, _ = encode_snapshot(run, chosen, encoder, run.folder.encoded_validation)
            return _Prepared(statistics, encoder, dataset, held_out)

        prepared = None
        for _ in run.tasks("preparing", 1):
            prepared = prepare()
        # What another worker has prepared is only opened.
        prepared = prepared or prepare()
        planned = Planned(run, prepared.encoder, prepared.dataset, settings, build_model, optimizers, trained)
        _check_outputs(planned.model, label, prepared.statistics)
        training = _Training(
            run,
            planned,
            continued,
            trained,
            gradients=gradients,
            dataset=_weighted(prepared.dataset, prepared.statistics, class_weight),
            settings=settings,
            sample_losses=sample_losses,
            metrics=metrics,
            validation=prepared.held_out,
        )
        if training.begins_with_tables:
            for _ in run.tasks("loading", 1):
                training.write_first_tables()
        result = training.train()
        trainer, model = training.trainer, planned.model
        for _ in run.tasks("saving", 1):
            run.emit(events.Progress("saving", 0))
            summary = _summary(result, model, len(prepared.dataset), time.monotonic() - begun)
            if planned.plan is not None:
                summary["strategy"] = planned.plan.to_json()
            run.folder.trained.parent.mkdir(exist_ok=True)
            specs = trainer.table_specs
            served = [layer.name for layer in served_layers(model)]
            if specs and is_small(specs):
                model = whole_model(model, planned.build_whole, run.folder.tables, trainer.result_step, specs)
                served = []
            elif specs:
                save_tables(run.folder.trained, run.folder.tables, trainer.result_step, specs)
            save_artifact(
                run.folder.trained,
                columns=columns,
                fields=fields,
                label=label,
                statistics=prepared.statistics,
                model=model,
                extra={"name": name, "summary": summary},
                served=served,
            )
            write_json(run.folder.summary, summary)
        run.completed(f"trained {name} in {time.monotonic() - begun:.1f} s", run.folder.trained)


@dataclass(frozen=True)
class _Prepared:
    """What training starts from: the rows encoded, those held out among them, and what the features learned of them."""

    statistics: Statistics
    encoder: Encoder
    dataset: ArrayDataset
    held_out: ArrayDataset | None


class _Training:
    """The trainer of a program, and who makes it anew where a plan has the tables elsewhere (a `replica.Plans`).

    Args:
        run: of this process.
        planned: the model, as its plan has it.
        continued, trained: the model that training goes on from, and its tables; None for none.
        options: of the trainer.

    Attributes:
        trainer: of the planned model.
    """

    trainer: Trainer | AsynchronousTrainer

    def __init__(
        self,
        run: Run,
        planned: Planned,
        continued: Artifact | None,
        trained: TrainedTables | None,
        **options: Any,
    ) -> None:
        self._run = run
        self._planned = planned
        self._continued = continued
        self._tables = trained
        self._options = options
        self._make()

    def _make(self) -> None:
        planned, run, options = self._planned, self._run, dict(self._options)
        if self._continued is not None:
            take_weights(planned.model, self._continued)
        args = (planned.model, options.pop("gradients"), planned.optimizers, options.pop("dataset"))
        settings = options.pop("settings")
        if planned.asynchronous:
            self.trainer = AsynchronousTrainer(run, *args, settings, **options)
            return
        self.trainer = Trainer(
            *args,
            settings,
            **options,
            checkpoints=run.folder.checkpoints,
            tables=run.folder.tables,
            goes_on=self._continued is not None,
            emit=run.emit,
        )

    @property
    def begins_with_tables(self) -> bool:
        """Whether servers begin with tables of the model that training goes on from."""
        return self._tables is not None and bool(self.trainer.table_specs)

    def write_first_tables(self) -> None:
        """Write them, if they are not there. Raises: see `first_tables.write_first_tables`."""
        assert self._tables is not None  # noqa: S101 - there are some
        write_first_tables(self._run.folder.tables, self.trainer.table_specs, self._tables)

    def train(self) -> TrainResult:
        """Train to the end, together with the job's other workers if there are any."""
        if isinstance(self.trainer, AsynchronousTrainer):
            return self.trainer.train()
        if self._run.member is None:
            return self._run.train(self.trainer)
        self._run.member.train(self.trainer, self.trainer.wire, self)
        return self.trainer.result()

    def differs(self, plan: str) -> bool:
        """See `replica.Plans`."""
        return self._planned.differs(plan)

    def take(self, plan: str, *, leads: bool) -> Trainer:
        """See `replica.Plans`."""
        del self.trainer
        self._planned.take(plan, leads=leads)
        self._make()
        if leads and self.begins_with_tables:
            self.write_first_tables()
        assert isinstance(self.trainer, Trainer)  # noqa: S101 - no plan is changed into an asynchronous one
        return self.trainer

    def better(self, workers: int, replica: Replica) -> Needs | None:
        """See `replica.Plans`."""
        plan = self._planned.better(workers, replica)
        return None if plan is None else plan.needs


def _summary(result: TrainResult, model: keras.Model, rows: int, seconds: float) -> dict[str, Any]:
    """The figures of a finished training."""
    return {
        "metrics": dict(result.metrics),
        "loss": result.loss,
        "steps": result.steps,
        "epochs": result.epochs,
        "stopped_early": result.stopped_early,
        "samples_per_second": result.samples_per_second,
        "way": result.way,
        "rows": rows,
        "parameters": model.count_params(),
        "seconds": seconds,
        "versions": {
            "python": platform.python_version(),
            "sqlflow-elastic": version("sqlflow-elastic"),
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
        },
    }


def _check_outputs(model: keras.Model, label: Label | None, statistics: Statistics) -> None:
    """Raises: JobError: the network's outputs are not what the loss takes; it would broadcast them to something."""
    if isinstance(label, ClassLabel):
        classes = len(statistics.classes)
        width, what = (1, "one logit") if classes == 2 else (classes, f"{classes} logits")
        what = f"the label '{label.field}' of {classes} classes takes {what}"
    elif isinstance(label, NumberLabel):
        width, what = label.shape, f"the label '{label.field}' takes {label.shape} number{'s' * (label.shape > 1)}"
    else:
        return
    shapes = [tuple(output.shape) for output in model.outputs]
    if shapes != [(None, width)]:
        said = " and ".join("[" + ", ".join("rows" if n is None else str(n) for n in shape) + "]" for shape in shapes)
        raise JobError(f"the network's outputs are {said}, and {what} a row: [rows, {width}]")


def _statistics(
    run: Run,
    snapshot: Snapshot,
    fields: Sequence[Field],
    columns: Mapping[str, Sequence[Column]],
    label: Label | None,
) -> Statistics:
    """What the columns learn from the rows; a resumed job has it on disk."""
    if run.folder.statistics.exists():
        return Statistics.from_json(json.loads(run.folder.statistics.read_text(encoding="utf-8")))
    every = [column for group in columns.values() for column in group]
    with values_of(snapshot):
        statistics = learn(every, fields, label, run.counted(snapshot, "preparing"))
    write_json(run.folder.statistics, statistics.to_json())
    return statistics


def _weighted(dataset: ArrayDataset, statistics: Statistics, class_weight: ClassWeight) -> ArrayDataset:
    """The rows with the weights of their classes; "balanced": all classes weigh the same, and a row 1 on average."""
    if class_weight is None or dataset.labels is None:
        return dataset
    if class_weight == "balanced":
        counts = np.bincount(dataset.labels, minlength=len(statistics.classes))
        weights = len(dataset) / (len(counts) * np.maximum(counts, 1))
    else:
        assert not isinstance(class_weight, str)  # noqa: S101 - the compiler lets no other word through
        weights = np.array([class_weight.get(label, 1.0) for label in statistics.classes])
    return ArrayDataset(dataset.features, dataset.labels, weights.astype(np.float32)[dataset.labels])
