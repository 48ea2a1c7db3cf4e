"""Arrays, a Keras model, a gradient function and optimizers in; trained weights out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from sqlflow_elastic.elastic.batch import Batch, Gradients, SampleLosses
from sqlflow_elastic.elastic.choosing import Choice, clock
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.metrics import Task
from sqlflow_elastic.elastic.optimizers import Optimizers, Updates
from sqlflow_elastic.elastic.position import Extent, Position
from sqlflow_elastic.elastic.reporting import Reporter
from sqlflow_elastic.elastic.sampling import Rows, SampleOrder
from sqlflow_elastic.elastic.saving import Saver, copies, restore
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.validation import Validation
from sqlflow_elastic.elastic.ways import Losses, Runner, Way
from sqlflow_elastic.errors import DataError, JobCancelled, JobError
from sqlflow_elastic.events import Event, Message, Metrics


@dataclass(frozen=True)
class TrainResult:
    """What training came to.

    Attributes:
        steps, epochs: done, those before a resumption included.
        seconds: wall time of this run.
        samples_per_second: samples trained on in this run, by that time.
        loss: mean training loss per sample of the last epoch.
        metrics: the validation's last values, or those of the best epoch if its weights were taken back; "loss" among
            them.
        stopped_early: whether the validation loss ended it.
        way: how steps were run at the end, see `ways.Way`.
    """

    steps: int
    epochs: int
    seconds: float
    samples_per_second: float
    loss: float
    metrics: Mapping[str, float]
    stopped_early: bool
    way: str


class Trainer:
    """Trains a model on the rows of a dataset, in this process.

    Who computes it does not change it: the order of samples depends on the seed and the number of rows only, and a step
        is the same
    sum over its batch in whichever way it is run, so a resumed run ends with the weights of an undisturbed one (bit by
    bit if both run their steps in the same way, up to the rounding of floats otherwise).

    Args:
        model: built; its weights are where training starts.
        gradients: a batch's loss and gradients, see `batch.Gradients`.
        optimizers: who updates which variables.
        dataset: the rows to train on.
        settings: how.
        sample_losses: losses of single samples, for the validation loss.
        metrics: names of what to measure on validation rows.
        validation: rows to measure after each epoch.
        checkpoints: folder of the checkpoints, from whose newest one `run` goes on; None for no checkpoints.
        emit: takes events, in the thread of `run`.
        task: what the model's outputs are, for the metrics; None to see it from labels and outputs.

    Raises:
        JobError: a variable has no optimizer, or early stopping has nothing to go by.
        ValueError: `settings.way` names no way.
    """

    def __init__(
        self,
        model: keras.Model,
        gradients: Gradients,
        optimizers: Optimizers,
        dataset: ArrayDataset,
        settings: TrainSettings,
        *,
        sample_losses: SampleLosses | None = None,
        metrics: Sequence[str] = (),
        validation: ArrayDataset | None = None,
        checkpoints: Path | None = None,
        emit: Callable[[Event], None],
        task: Task | None = None,
    ) -> None:
        if settings.patience is not None and (validation is None or sample_losses is None):
            raise JobError("early stopping needs validation rows and their losses")
        self._model = model
        self._gradients = gradients
        self._dataset = dataset
        self._settings = settings
        self._emit = emit
        self._extent = Extent.of(settings, len(dataset))
        self._updates = Updates(model, optimizers, emit)
        self._validation = None
        if validation is not None and (sample_losses is not None or metrics):
            rows = (
                len(validation)
                if settings.validation_steps is None
                else settings.validation_steps * settings.batch_size
            )
            self._validation = Validation(model, validation, rows, sample_losses, metrics, task)
        self._saver = None
        if checkpoints is not None:
            self._saver = Saver(checkpoints, settings, self._extent, model, self._updates.variables, emit)
        self._order = SampleOrder(len(dataset), settings.seed)
        self._way = None if settings.way == "auto" else Way.parse(settings.way)
        self._position = Position()
        self._best: list[Any] | None = None
        self._stop = threading.Event()
        self._choice: Choice | None = None

    def stop(self) -> None:
        """Ask `run` to write a checkpoint after the call it is in and raise JobCancelled. For any thread or signal."""
        self._stop.set()

    @property
    def way(self) -> str | None:
        """How steps are run until the end; None before `run` has decided that."""
        return str(self._choice.way) if self._choice is not None and self._choice.decided else None

    def run(self) -> TrainResult:
        """Train to the end.

        Raises:
            JobCancelled: `stop` was called.
            DataError: a batch holds a number that is not finite.
            JobError: the loss is not finite.
        """
        begun = time.monotonic()
        try:
            self._resume()
            first = self._position.step
            self._choice = choice = self._ways()
            stopped_early = self._train(choice)
        finally:
            if self._saver is not None:
                self._saver.close()
        self._check_weights()
        if self._best is not None:
            restore(self._model.variables, self._best)
        position, seconds = self._position, time.monotonic() - begun
        return TrainResult(
            steps=position.step,
            epochs=position.epoch,
            seconds=seconds,
            samples_per_second=(self._extent.samples(position.step) - self._extent.samples(first)) / seconds,
            loss=position.loss,
            metrics=position.metrics if self._best is None else position.best_metrics,
            stopped_early=stopped_early,
            way=str(choice.way),
        )

    def _resume(self) -> None:
        resumed = None if self._saver is None else self._saver.resume()
        if resumed is not None:
            self._position, self._best = resumed.position, resumed.best
            self._way = self._way or resumed.way
            self._emit(Message(f"training goes on after step {self._position.step} of {self._extent.steps}"))

    def _ways(self) -> Choice:
        return Choice(
            lambda way: Runner(way, self._step, self._dataset, self._settings.batch_size),
            lambda: [v.value for v in (*self._model.variables, *self._updates.variables)] + self._updates.scratch,
            self._dataset.row_bytes * self._settings.batch_size,
            self._way,
            self._emit,
        )

    def _step(self, batch: Batch) -> tf.Tensor:
        """One step, as graph code."""
        loss, gradients = self._gradients(self._model, batch)
        self._updates.apply(gradients)
        return loss

    def _train(self, choice: Choice) -> bool:
        """All steps that are left. Returns whether the validation loss ended them early."""
        reporter = Reporter(self._emit, self._settings, self._extent, self._position.step)
        stopped_early = False
        while not stopped_early:
            if self._stop.is_set():
                self._save(choice)
                raise JobCancelled(f"training was stopped after step {self._position.step} of {self._extent.steps}")
            if self._epoch_is_over():
                stopped_early = self._end_epoch()
            elif self._position.step < self._extent.steps:
                reporter.steps_done(self._call(choice))
                if self._saver is not None:
                    self._saver.save_if_due(self._position, self._best, choice.way if choice.decided else None)
            else:
                break
        reporter.end()
        return stopped_early

    def _save(self, choice: Choice) -> None:
        if self._saver is not None:
            self._saver.save(self._position, self._best, choice.way if choice.decided else None)

    def _call(self, choice: Choice) -> Losses:
        """Run the steps of one call. Returns the loss of each."""
        position, batch_size = self._position, self._extent.batch_size
        start = (position.step - position.epoch * self._extent.steps_per_epoch) * batch_size
        left = self._extent.steps - position.step
        whole = min((self._extent.rows - start) // batch_size, left)
        if self._saver is not None:
            whole = min(whole, self._saver.steps_until_due(position.step))
        if whole == 0:
            rows = self._order.take(position.epoch, start, start + batch_size)
            losses = choice.single.run(rows)
        else:
            runner, most = choice.next(left)
            steps = min(whole, most)
            rows = self._order.take(position.epoch, start, start + steps * batch_size)
            began = clock()
            losses = runner.run(rows)
            choice.took((clock() - began) / steps)
        self._check_losses(losses, rows)
        position.step += len(losses)
        position.loss_sum += float(losses.sum()) * (len(rows) / len(losses))
        return losses

    def _check_losses(self, losses: Losses, rows: Rows) -> None:
        bad = np.flatnonzero(~np.isfinite(losses))
        if not len(bad):
            return
        step = self._position.step + int(bad[0]) + 1
        batch = rows[bad[0] * self._extent.batch_size : (bad[0] + 1) * self._extent.batch_size]
        for name, array in self._dataset.arrays().items():
            values = array[batch]
            if np.issubdtype(values.dtype, np.inexact) and not np.isfinite(values).all():
                raise DataError(f"step {step} met a value in {name} that is not a finite number")
        raise JobError(
            f"the loss became {losses[bad[0]]} at step {step} (epoch {self._position.epoch + 1}); its batch's numbers "
            "are finite, so the learning rate is probably too high, or the loss is not defined for these labels"
        )

    def _check_weights(self) -> None:
        """The last step's update has no loss after it that would show it."""
        for variable in self._model.trainable_variables:
            if not bool(tf.reduce_all(tf.math.is_finite(variable.value))):
                raise JobError(
                    f"{variable.path} holds numbers that are not finite after step {self._position.step}; "
                    "the learning rate is probably too high"
                )

    def _epoch_is_over(self) -> bool:
        """Whether an epoch, or the part of it that ``max_steps`` allows, is trained and not yet validated."""
        begun = self._position.epoch * self._extent.steps_per_epoch
        done = self._position.step - begun
        return done == self._extent.steps_per_epoch or (done > 0 and self._position.step == self._extent.steps)

    def _end_epoch(self) -> bool:
        """Report and validate. Returns whether training stops here."""
        position = self._position
        samples = self._extent.samples(position.step) - position.epoch * self._extent.rows
        position.loss, position.loss_sum = position.loss_sum / samples, 0.0
        position.epoch += 1
        self._emit(Metrics("train", position.step, position.epoch, {"loss": position.loss}))
        if self._validation is None:
            return False
        position.metrics = self._validation.run()
        self._emit(Metrics("validation", position.step, position.epoch, position.metrics))
        if self._settings.patience is None:
            return False
        if position.metrics["loss"] < position.best_loss:
            position.best_loss, position.best_metrics, position.waited = position.metrics["loss"], position.metrics, 0
            self._best = copies(self._model.variables)
        else:
            position.waited += 1
        return position.waited >= self._settings.patience
