"""Arrays, a Keras model, a gradient function and optimizers in; trained weights out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import keras
import tensorflow as tf

from sqlflow_elastic.elastic.agreement import agree
from sqlflow_elastic.elastic.batch import Batch, Gradients, SampleLosses
from sqlflow_elastic.elastic.choosing import Choice, clock
from sqlflow_elastic.elastic.comm.alone import Alone
from sqlflow_elastic.elastic.comm.base import Place, WireDtype
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.finite import check_losses, check_weights
from sqlflow_elastic.elastic.joint import JointSteps
from sqlflow_elastic.elastic.membership.messages import NO_STATE
from sqlflow_elastic.elastic.meter import Meter
from sqlflow_elastic.elastic.metrics import Task
from sqlflow_elastic.elastic.moving_tables import PlacedTables
from sqlflow_elastic.elastic.optimizers import Optimizers, Updates, check_gradients
from sqlflow_elastic.elastic.position import Extent
from sqlflow_elastic.elastic.replica import Exchange, Speeds
from sqlflow_elastic.elastic.reporting import Reporter
from sqlflow_elastic.elastic.sampling import Rows, SampleOrder
from sqlflow_elastic.elastic.saving import Saver
from sqlflow_elastic.elastic.served import ServedTables
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.sharing import bounds
from sqlflow_elastic.elastic.tables.access import Tables
from sqlflow_elastic.elastic.training_state import TrainingState
from sqlflow_elastic.elastic.transfer import Bytes, packed, unpacked
from sqlflow_elastic.elastic.validation import Validation
from sqlflow_elastic.elastic.voice import Voice
from sqlflow_elastic.elastic.ways import Kind, Losses, Runner, Way
from sqlflow_elastic.errors import JobCancelled, JobError
from sqlflow_elastic.events import Event, Message, Metrics
from sqlflow_elastic.models.tables.spec import TableSpec


@dataclass(frozen=True)
class TrainResult:
    """What training came to.

    Attributes:
        steps, epochs: done, those before a resumption included.
        seconds: wall time since this process had a state.
        samples_per_second: samples trained on in that time, by whichever members.
        loss: mean training loss per sample of the last epoch.
        metrics: the validation's last values, or those of the best epoch if its weights were taken back; "loss" among
            them.
        stopped_early: whether the validation loss ended it.
        way: how this process ran steps alone, see `ways.Way`; "single" if it never did.
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
    """Trains a model on the rows of a dataset: alone, or as a member of worlds that change (a `replica.Replica`).

    Who computes it does not change it: the order of samples depends on the seed and the number of rows only, and a step
    is the same sum over its batch in whichever way and by how many members it is run. So a resumed run ends with the
    weights of an undisturbed one (bit by bit if both run their steps in the same way, up to the rounding of floats
    otherwise); `joint` says which layers see that a batch is split.

    Args:
        model: built; its weights are where training starts.
        gradients: a batch's loss and gradients, see `batch.Gradients`.
        optimizers: who updates which variables.
        dataset: the rows to train on.
        settings: how.
        sample_losses: losses of single samples, for the validation loss.
        metrics: names of what to measure on validation rows.
        validation: rows to measure after each epoch.
        checkpoints: folder of the checkpoints, from whose newest one `begin` goes on; None for no checkpoints.
        tables: where servers write snapshots of the model's tables, if it has served ones, or had or may have some.
        goes_on: whether a snapshot after no step is there, which these tables begin with.
        emit: takes events, in the thread of `run`; of a world's members, rank 0 alone emits.
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
        tables: Path | None = None,
        goes_on: bool = False,
        emit: Callable[[Event], None],
        task: Task | None = None,
    ) -> None:
        if settings.patience is not None and (validation is None or sample_losses is None):
            raise JobError("early stopping needs validation rows and their losses")
        self._model = model
        self._gradients = gradients
        self._dataset = dataset
        self._settings = settings
        self._voice = Voice(emit)
        self._extent = Extent.of(settings, len(dataset))
        self._updates = Updates(model, optimizers, self._voice.say)
        self._goes_on = goes_on
        self._served = ServedTables.of(model, optimizers)
        self._validation = None
        if validation is not None and (sample_losses is not None or metrics):
            steps = settings.validation_steps
            rows = len(validation) if steps is None else steps * settings.batch_size
            self._validation = Validation(model, validation, rows, sample_losses, metrics, task, self._served)
        placed = PlacedTables(model, optimizers, self._updates.variables, self.table_specs, tables)
        self._state = TrainingState(settings, self._extent, model, self._updates.variables, placed)
        self._saver = None
        if checkpoints is not None:
            self._saver = Saver(checkpoints, tables, placed, settings, self._state, self._voice.say)
        self._order = SampleOrder(len(dataset), settings.seed)
        self._tracing = threading.Lock()
        self._joint = JointSteps(
            model, gradients, self._updates, dataset, settings.batch_size, self._tracing, self._served
        )
        self._tables: Tables | None = None
        self._way = None if settings.way == "auto" else Way.parse(settings.way)
        self._wait = True
        self._choice: Choice | None = None
        self._stop = threading.Event()
        self._meter = Meter()
        self._reporter = Reporter(self._voice.say, settings, self._extent, 0)
        self._has_state = False
        self._applied = self._run_from = 0
        self._first_step = 0
        self._begun = time.monotonic()

    @property
    def table_specs(self) -> Sequence[TableSpec]:
        """The tables that are on servers."""
        return [] if self._served is None else self._served.specs

    @property
    def tables_are_new(self) -> bool:
        """Whether servers begin without rows."""
        return self.step == 0 and not self._goes_on

    @property
    def result_step(self) -> int:
        """Of the state that `result` takes: the last one, or the best one."""
        best = self._state.position.best_step
        return self.step if self._state.best is None or best is None else best

    @property
    def step(self) -> int:
        """Steps applied to the state; `NO_STATE` before `begin` or `take_state`."""
        return self._applied if self._has_state else NO_STATE

    @property
    def saved_lately(self) -> bool:
        """Whether a checkpoint of a step since the last `run` began is on disk."""
        return self._saver is not None and self._saver.newest_step > self._run_from

    @property
    def finished(self) -> bool:
        """Whether training is at its end, the last validation included."""
        over = self._state.position.step == self._extent.steps or self._stopped_early
        return self._has_state and over and not self._epoch_is_over()

    @property
    def speeds(self) -> Speeds:
        """Since the last `run` began."""
        return self._meter.speeds(self._extent.samples(self._extent.steps) - self._extent.samples(max(self.step, 0)))

    @property
    def way(self) -> str | None:
        """How steps are run until the end by a member alone; None before it has decided that."""
        return None if self._decided_way is None else str(self._decided_way)

    @property
    def wire(self) -> WireDtype | None:
        """In what dtype dense gradients are to travel; None for their own."""
        return None if self._settings.wire_dtype is None else WireDtype(self._settings.wire_dtype)

    def stop(self) -> None:
        """Ask `run` to write a checkpoint after the call it is in and raise JobCancelled. For any thread or signal."""
        self._stop.set()

    def warm_up(self) -> None:
        """Trace all that a world of several needs, once. Changes no state; another thread may train alone meanwhile."""
        self._joint.warm_up()
        if self._validation is not None:
            with self._tracing:
                self._validation.warm_up()

    def begin(self) -> None:
        """Take the state of the newest checkpoint, or the initial one."""
        self._voice.take_rank(0)
        resumed, way = (False, None) if self._saver is None else self._saver.resume()
        self._way = self._way or way
        self._start_from_state()
        if resumed:
            self._voice.say(Message(f"training goes on after step {self.step:,} of {self._extent.steps:,}"))

    def state(self) -> list[Bytes]:
        """All of the state as it is between two steps: variables' own memory. Not to be written."""
        return packed(self._state.capture(self._decided_way or self._way))

    def take_state(self, buffers: list[Bytes]) -> None:
        """Take on another member's state, whole or not at all. The buffers are copied.

        Raises:
            JobError: it is of another training.
        """
        way = self._state.restore(unpacked(buffers))
        if self._way is None:
            self._way, self._wait = way, False
        self._start_from_state()

    @overload
    def run(self) -> TrainResult: ...

    @overload
    def run(
        self,
        world: Exchange | None,
        shares: tuple[float, ...],
        stop: Callable[[], bool],
        tables: Tables | None = None,
    ) -> bool: ...

    def run(
        self,
        world: Exchange | None = None,
        shares: tuple[float, ...] = (),
        stop: Callable[[], bool] | None = None,
        tables: Tables | None = None,
    ) -> TrainResult | bool:
        """Train to the end in this process; or, given a world, as `replica.Replica.run` says.

        Raises:
            JobCancelled: `stop` was called.
            DataError: a batch holds a number that is not finite.
            JobError: the loss is not finite.
            comm.WorldBroken: see `replica.Replica.run`.
        """
        if stop is not None:
            self._tables = tables
            return self._run(world, shares, stop)
        try:
            self.begin()
            if not self._run(None, (), self._stop.is_set):
                self.checkpoint()
                raise JobCancelled(f"training was stopped after step {self.step} of {self._extent.steps}")
            return self.result()
        finally:
            self.close()

    def result(self) -> TrainResult:
        """What training came to, once it is finished. Takes back the best weights, if there are any.

        Raises:
            JobError: weights are not finite.
        """
        state, position, seconds = self._state, self._state.position, time.monotonic() - self._begun
        check_weights(self._model, position.step)
        state.take_back_best()
        samples = self._extent.samples(position.step) - self._extent.samples(self._first_step)
        return TrainResult(
            steps=position.step,
            epochs=position.epoch,
            seconds=seconds,
            samples_per_second=samples / seconds,
            loss=position.loss,
            metrics=position.metrics if state.best is None else position.best_metrics,
            stopped_early=self._stopped_early,
            way=str(Way(Kind.SINGLE) if self._choice is None else self._choice.way),
        )

    def checkpoint(self) -> None:
        """Write a checkpoint of the state as it is; returns when it is on disk or given up with a warning."""
        try:
            self._save()
        except JobError as error:
            self._voice.say(Message(f"no checkpoint could be written: {error}", "warning"))

    def _save(self) -> None:
        """Raises: JobError: servers cannot write their tables."""
        if self._saver is not None:
            self._saver.save(self._decided_way, self._tables)

    def close(self) -> None:
        """Wait for a checkpoint that is being written, and for what is traced; write no more."""
        self._joint.close()
        if self._saver is not None:
            self._saver.close()

    @property
    def _decided_way(self) -> Way | None:
        return self._choice.way if self._choice is not None and self._choice.decided else None

    @property
    def _stopped_early(self) -> bool:
        patience = self._settings.patience
        return patience is not None and self._state.position.waited >= patience

    def _start_from_state(self) -> None:
        self._reporter = Reporter(self._voice.say, self._settings, self._extent, self._state.position.step)
        self._applied = self._first_step = self._state.position.step
        self._has_state, self._begun = True, time.monotonic()

    def _run(self, world: Exchange | None, shares: tuple[float, ...], stop: Callable[[], bool]) -> bool:
        self._meter, self._run_from = Meter(), self.step
        self._voice.take_rank(0 if world is None else world.place.rank)
        if self._served is None and (world is None or world.place.size == 1):
            ended = self._train_alone(stop)
        else:
            ended = self._train_together(world or Alone(Place(0, 0, 1, "")), shares, stop)
        if ended:
            self._reporter.end()
        return ended

    def _train_alone(self, stop: Callable[[], bool]) -> bool:
        self._choice = choice = self._choice or self._ways()
        while not self.finished:
            if stop():
                return False
            if self._epoch_is_over():
                self._end_epoch(None, ())
            else:
                self._step_alone(choice)
        return True

    def _train_together(self, world: Exchange, shares: tuple[float, ...], stop: Callable[[], bool]) -> bool:
        if agree(world, self._state):
            self._tell_epoch()
        if self._served is not None and self.step == 0:
            self._save_tables(world)
        while not self.finished:
            if self._epoch_is_over():
                self._end_epoch(world, shares)
            elif self._steps_together(world, shares, stop):
                return False
        if self._served is not None:
            self._save_tables(world)
        return True

    def _save_tables(self, world: Exchange) -> None:
        """Save everything; all members wait for it: a loss of servers leads back here, and the result comes from it."""
        if self._voice.leads:
            self._save()
        world.allgather(b"")

    def _ways(self) -> Choice:
        return Choice(
            lambda way: Runner(way, self._step, self._dataset, self._settings.batch_size),
            lambda: self._updates.state,
            self._dataset.row_bytes * self._settings.batch_size,
            self._way,
            self._voice.say,
            wait=self._wait,
        )

    def _step(self, batch: Batch) -> tf.Tensor:
        """One step, as graph code."""
        with self._tracing:
            loss, gradients = self._gradients(self._model, batch)
            check_gradients(gradients)
            self._updates.apply(gradients)
        return loss

    def _step_alone(self, choice: Choice) -> None:
        """Run the steps of one call."""
        position, began = self._state.position, time.perf_counter()
        start = self._start()
        steps, size = self._extent.batches(start, self._most_steps())
        whole = size == self._extent.batch_size
        runner, most = choice.next(self._extent.steps - position.step) if whole else (choice.single, 1)
        steps = min(steps, most)
        rows = self._order.take(position.epoch, start, start + steps * size)
        began_by_clock = clock()
        losses = runner.run(rows)
        if whole:
            choice.took((clock() - began_by_clock) / steps)
        seconds = time.perf_counter() - began
        self._done(losses, rows)
        self._meter.add(len(rows), seconds, len(rows), seconds, settled=choice.decided)

    def _steps_together(self, world: Exchange, shares: tuple[float, ...], stop: Callable[[], bool]) -> bool:
        """Run the steps of one call. Returns whether a member wants to stop.

        Raises:
            comm.WorldBroken: of the steps done, the state is as it should be.
        """
        position, began = self._state.position, time.perf_counter()
        start, first = self._start(), position.step
        steps, size = self._extent.batches(start, min(self._joint.most(first), self._most_steps()))
        rows = self._order.take(position.epoch, start, start + steps * size)

        def flag(done: int) -> bool:
            self._applied = first + done
            return stop()

        slices, left = bounds(size, world.place.size, shares), self._extent.steps - first
        done = self._joint.run(world, rows.reshape(steps, size), slices, left, flag, self._tables)
        taken = rows[: len(done.losses) * size]
        if len(taken):
            self._done(done.losses, taken)
            self._meter.add(len(taken), time.perf_counter() - began, done.own, done.own_seconds, settled=True)
        if done.broken is not None:
            raise done.broken
        return done.flagged

    def _most_steps(self) -> int:
        """Steps until training ends or is to be saved."""
        step = self._state.position.step
        left = self._extent.steps - step
        return left if self._saver is None or not self._voice.leads else min(left, self._saver.steps_until_due(step))

    def _start(self) -> int:
        """Where the next batch begins in its epoch."""
        position = self._state.position
        return (position.step - position.epoch * self._extent.steps_per_epoch) * self._extent.batch_size

    def _done(self, losses: Losses, rows: Rows) -> None:
        """Steps are applied: count, report and save."""
        position = self._state.position
        check_losses(losses, rows, self._extent.batch_size, self._dataset, position)
        self._applied = position.step = position.step + len(losses)
        position.loss_sum += float(losses.sum()) * (len(rows) / len(losses))
        self._reporter.steps_done(losses)
        if self._saver is not None and self._voice.leads:
            self._saver.save_if_due(self._decided_way, self._tables)

    def _epoch_is_over(self) -> bool:
        """Whether an epoch, or the part of it that ``max_steps`` allows, is trained and not yet validated."""
        position = self._state.position
        done = position.step - position.epoch * self._extent.steps_per_epoch
        return done == self._extent.steps_per_epoch or (done > 0 and position.step == self._extent.steps)

    def _end_epoch(self, world: Exchange | None, shares: tuple[float, ...]) -> None:
        """Validate, which may break: until it is done, the epoch is not over. Then report."""
        position = self._state.position
        metrics = None if self._validation is None else self._validation.run(world, shares, self._tables)
        samples = self._extent.samples(position.step) - position.epoch * self._extent.rows
        position.loss, position.loss_sum = position.loss_sum / samples, 0.0
        position.epoch += 1
        if metrics is not None:
            position.metrics = metrics
            if self._state.keeps_best and metrics["loss"] < position.best_loss:
                position.best_loss, position.best_metrics, position.waited = metrics["loss"], metrics, 0
                position.best_step = position.step
                self._state.keep_best()
                if self._tables is not None and self._voice.leads:
                    self._tables.snapshot(position.step)
            elif self._state.keeps_best:
                position.waited += 1
        self._tell_epoch()

    def _tell_epoch(self) -> None:
        position = self._state.position
        self._voice.say(Metrics("train", position.step, position.epoch, {"loss": position.loss}))
        if self._validation is not None:
            self._voice.say(Metrics("validation", position.step, position.epoch, position.metrics))
