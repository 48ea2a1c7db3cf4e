"""Training whose workers take steps that wait for nobody.

All weights are on servers. Workers take tasks, each a range of an epoch's batches in the order of samples that every
training has; they ask for the weights that a batch needs, and the servers apply its gradients at once, whatever others
did meanwhile. The servers see to it that no worker is more than `TrainSettings.staleness` steps ahead of another one.

A worker that dies costs its task, which another one does again. A server that dies is replaced; its successor reads the
newest snapshot, and the others go on from where they are. So samples count about once, and never is anything waited for
but the slowest worker. Who takes the last task of an epoch's end saves everything, and measures the validation rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np

from sqlflow_elastic.elastic.asynchronous.dense_tables import DenseTables
from sqlflow_elastic.elastic.asynchronous.epochs import Epochs
from sqlflow_elastic.elastic.asynchronous.steps import LoneSteps, Samples
from sqlflow_elastic.elastic.batch import Gradients, SampleLosses
from sqlflow_elastic.elastic.comm import WorldBroken
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.finite import check_losses, check_weights
from sqlflow_elastic.elastic.optimizers import Optimizers
from sqlflow_elastic.elastic.position import Extent, Position
from sqlflow_elastic.elastic.running import Run
from sqlflow_elastic.elastic.sampling import SampleOrder
from sqlflow_elastic.elastic.served import ServedTables
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.tables.access import Ids, Numbers
from sqlflow_elastic.elastic.tables.lone_client import LoneSession
from sqlflow_elastic.elastic.tables.manifests import forget
from sqlflow_elastic.elastic.tables.merging import merged
from sqlflow_elastic.elastic.tables.wire import YIELDED
from sqlflow_elastic.elastic.trainer import TrainResult
from sqlflow_elastic.elastic.validation import Validation
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.events import Message, Metrics, Progress
from sqlflow_elastic.models.tables.spec import TableSpec

#: An epoch has about so many tasks for each worker, of so many steps at most.
_TASKS_PER_WORKER, _MOST_STEPS = 8, 512
_REPORT_SECONDS = 0.25
#: Of several workers to whom a snapshot is due, the first one is ahead of the next by so many seconds.
_TURN_SECONDS = 0.5


class AsynchronousTrainer:
    """See the module's page, and `trainer.Trainer`.

    Args:
        run: of a worker.
        model: built; its weights are where training starts.
        gradients: a batch's loss and gradients.
        optimizers: who updates which variables.
        dataset: the rows to train on.
        settings: how; a batch is a worker's own.
        sample_losses: losses of single samples, for the validation loss.
        metrics: names of what to measure on validation rows.
        validation: rows to measure after each epoch.

    Raises:
        JobError: servers cannot update a variable, or early stopping has nothing to go by.
    """

    def __init__(
        self,
        run: Run,
        model: keras.Model,
        gradients: Gradients,
        optimizers: Optimizers,
        dataset: ArrayDataset,
        settings: TrainSettings,
        *,
        sample_losses: SampleLosses | None = None,
        metrics: Sequence[str] = (),
        validation: ArrayDataset | None = None,
    ) -> None:
        if settings.patience is not None and (validation is None or sample_losses is None):
            raise JobError("early stopping needs validation rows and their losses")
        assert run.member is not None  # noqa: S101 - a program that runs alone trains otherwise
        self._run, self._member = run, run.member
        self._model = model
        self._dataset = dataset
        self._settings = settings
        self._extent = Extent.of(settings, len(dataset))
        self._order = SampleOrder(len(dataset), settings.seed)
        self._served = ServedTables.of(model, optimizers)
        self._dense = DenseTables(model, optimizers)
        self._initial = self._dense.rows()
        self._steps = LoneSteps(
            model, gradients, self._dense, self._served, dataset, settings.batch_size, run.member.number
        )
        self._validation = None
        if validation is not None and (sample_losses is not None or metrics):
            steps = settings.validation_steps
            rows = len(validation) if steps is None else steps * settings.batch_size
            self._validation = Validation(model, validation, rows, sample_losses, metrics, None, self._served)
        per_epoch = self._extent.steps_per_epoch
        self._steps_per_task = min(_MOST_STEPS, max(1, per_epoch // (_TASKS_PER_WORKER * run.member.most)))
        self._epochs = Epochs(run.folder.epochs)
        self._session: LoneSession | None = None
        #: After so many steps, and when, a snapshot was last begun here, or finished by whomever.
        self._saved, self._saved_at = 0, time.monotonic()
        #: The newest finished one, the newest one begun here, and the newest one begun here in vain.
        self._known = self._begun = self._failed = -1
        self._reported = 0, 0.0
        self._position = Position()

    @property
    def table_specs(self) -> Sequence[TableSpec]:
        """The model's own tables, which are the first on the servers."""
        return [] if self._served is None else self._served.specs

    @property
    def result_step(self) -> int:
        """Of the snapshot that the result is taken from: the last one, or the best one."""
        best = self._position.best_step
        return self._position.step if best is None else best

    def train(self) -> TrainResult:
        """Do tasks until training is at its end. The model then has the result's weights, but for its tables.

        Raises:
            DataError: a batch holds a number that is not finite.
            JobError: the loss or weights are not finite, or servers fail for good.
        """
        began = time.monotonic()
        try:
            for _ in self._tasks("beginning", 1):
                self._carried_out(_save)
            epochs = -(-self._extent.steps // self._extent.steps_per_epoch)
            for epoch in range(epochs):
                batches = self._batches(epoch)
                for task in self._tasks(f"epoch {epoch + 1} of {epochs}", -(-batches // self._steps_per_task)):
                    first = task * self._steps_per_task
                    self._train(epoch, task, first, min(first + self._steps_per_task, batches))
                for _ in self._tasks(f"end of epoch {epoch + 1}", 1):
                    self._carried_out(self._end_epoch, epoch)
                self._position = self._epochs.position(epoch + 1)
                if self._stopped_early:
                    break
        finally:
            self._leave()
        self._take_result()
        return self._result(time.monotonic() - began)

    def _tasks(self, queue: str, total: int) -> Iterator[int]:
        return self._run.tasks(queue, total, self._idle)

    def _batches(self, epoch: int) -> int:
        """How many an epoch has."""
        per_epoch = self._extent.steps_per_epoch
        return min(per_epoch, self._extent.steps - epoch * per_epoch)

    @property
    def _stopped_early(self) -> bool:
        patience = self._settings.patience
        return patience is not None and self._position.waited >= patience

    # With servers.

    def _joined(self) -> LoneSession:
        """The session that there is, or a new one."""
        if self._session is None:
            specs = [*self.table_specs, *self._dense.specs]
            session = self._member.servers.join(specs, self._settings.staleness)
            tables = len(self.table_specs)
            try:
                for index, (ids, rows) in enumerate(zip(self._dense.ids, self._initial, strict=True)):
                    session.assign(tables + index, ids, rows)
            except BaseException:
                session.close()
                raise
            self._session = session
        return self._session

    def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _carried_out(self, work: Callable[..., None], *given: int) -> None:
        """Do something with the servers; anew with others if these break."""
        while True:
            try:
                work(self._joined(), *given)
            except WorldBroken:
                self._leave()
            else:
                return

    def _idle(self) -> None:
        if self._session is not None:
            try:
                self._session.idle()
            except WorldBroken:
                self._leave()

    # Tasks.

    def _train(self, epoch: int, task: int, first: int, stop: int) -> None:
        """Take the steps of some batches of an epoch. One that breaks is taken again."""
        done, losses, samples = first, 0.0, 0

        def take(session: LoneSession) -> None:
            nonlocal done, losses, samples
            batch = self._samples(epoch, done)
            weights = session.exchange(want=batch.ids)
            while done < stop:
                loss, gradients, rates = self._steps.run(batch, weights, session.step)
                self._check(loss, batch, session.step, epoch)
                following = None if done + 1 == stop else self._samples(epoch, done + 1)
                weights = session.exchange(gradients, rates, None if following is None else following.ids)
                done, samples, losses = done + 1, samples + len(batch.rows), losses + loss * len(batch.rows)
                batch = following or batch
                self._save_if_due(session)

        self._carried_out(take)
        self._epochs.did(epoch, task, samples, losses)
        if time.monotonic() >= self._reported[1] + _REPORT_SECONDS:
            self._report(epoch, losses / samples)

    def _samples(self, epoch: int, batch: int) -> Samples:
        size = self._extent.batch_size
        return self._steps.samples(self._order.take(epoch, batch * size, (batch + 1) * size))

    def _check(self, loss: float, batch: Samples, step: int, epoch: int) -> None:
        position = Position(step=step, epoch=epoch)
        check_losses(np.array([loss]), batch.rows, len(batch.rows), self._dataset, position)

    def _save_if_due(self, session: LoneSession) -> None:
        """Let servers write a snapshot, if none of these workers did for some time."""
        now, newest = time.monotonic(), session.snapshot_step
        if newest >= self._saved and newest > self._known:
            self._saved, self._saved_at, self._known = newest, now, newest
            if newest == self._begun:
                self._forget(newest, self._position.best_step)
        self._tell_failure(session)
        seconds, every = self._settings.checkpoint_secs, self._settings.checkpoint_steps
        turn = _TURN_SECONDS * (self._member.number % 16)
        by_time = seconds is not None and now >= self._saved_at + seconds + turn
        by_steps = every is not None and session.step >= self._saved + every
        if by_time or by_steps:
            self._begun = self._saved = session.step
            self._saved_at = now
            session.offer_snapshot(session.step)

    def _tell_failure(self, session: LoneSession) -> None:
        """A snapshot that was begun here and could not be written is told once."""
        failure = session.snapshot_failure
        if failure and self._begun not in (self._known, self._failed):
            self._failed = self._begun
            if failure != YIELDED:
                self._run.emit(Message(f"no snapshot could be written: {failure}; training goes on", "warning"))

    def _report(self, epoch: int, loss: float) -> None:
        """How far all workers are; the loss is what this one sees."""
        now, (step, at) = time.monotonic(), self._reported
        if self._session is None or not self._settings.verbose:
            return
        extent, done = self._extent, min(self._session.step, self._extent.steps)
        self._reported = done, now
        speed = (done - step) * extent.batch_size / (now - at) if at and done > step else None
        self._run.emit(
            Progress(
                "training",
                done,
                extent.steps,
                epoch=epoch + 1,
                epochs=extent.epochs,
                loss=loss,
                samples_per_second=speed,
                eta_seconds=None if speed is None else (extent.steps - done) * extent.batch_size / speed,
            )
        )

    def _end_epoch(self, session: LoneSession, epoch: int) -> None:
        """Save everything, measure, and tell; who did that before may have died before that was known."""
        session.exchange()  # to know how many steps there were
        if not self._epochs.ended(epoch + 1):
            self._measure(session, epoch)
        position = self._epochs.position(epoch + 1)
        self._report(epoch, position.loss)
        self._run.emit(Metrics("train", position.step, position.epoch, {"loss": position.loss}))
        if self._validation is not None:
            self._run.emit(Metrics("validation", position.step, position.epoch, position.metrics))

    def _measure(self, session: LoneSession, epoch: int) -> None:
        self._take(session)
        position = self._epochs.position(epoch)
        position.step, position.epoch, position.loss = session.step, epoch + 1, self._epochs.loss(epoch)
        session.snapshot(position.step)
        if self._validation is not None:
            tables = _OfModel(session, len(self._dense.specs))
            position.metrics = self._validation.run(None, (), tables)
            if self._settings.patience is not None:
                self._compare(position)
        self._forget(position.step, position.best_step)
        self._epochs.end(position)

    def _forget(self, newest: int, best: int | None) -> None:
        """Remove snapshots that are older than these."""
        forget(self._run.folder.tables, {newest, newest if best is None else best})

    def _compare(self, position: Position) -> None:
        if position.metrics["loss"] < position.best_loss:
            position.best_loss, position.best_metrics = position.metrics["loss"], position.metrics
            position.best_step, position.waited = position.step, 0
        else:
            position.waited += 1

    def _take(self, session: LoneSession) -> None:
        """The model takes on all weights but its tables'."""
        ids = [*(np.empty(0, np.int64) for _ in self.table_specs), *self._dense.ids]
        self._dense.take(session.peek(ids)[len(self.table_specs) :])

    # The end.

    def _take_result(self) -> None:
        """The model takes on all weights but its tables' as they were after a step."""
        rows = []
        for index, spec in enumerate(self._dense.specs):
            of_table = np.zeros((spec.rows, spec.width), spec.dtype)
            for ids, found in merged(self._run.folder.tables, self.result_step, len(self.table_specs) + index, spec):
                of_table[ids] = found
            rows.append(of_table)
        self._dense.take(rows)
        check_weights(self._model, self.result_step)

    def _result(self, seconds: float) -> TrainResult:
        position = self._position
        steps = min(position.epoch * self._extent.steps_per_epoch, self._extent.steps)
        return TrainResult(
            steps=steps,
            epochs=position.epoch,
            seconds=seconds,
            samples_per_second=self._extent.samples(steps) / seconds,
            loss=position.loss,
            metrics=position.metrics if position.best_step is None else position.best_metrics,
            stopped_early=self._stopped_early,
            way="asynchronous",
        )


def _save(session: LoneSession) -> None:
    session.exchange()
    session.snapshot(session.step)


class _OfModel:
    """The model's own tables on servers that have those of dense weights too.

    Args:
        session: with the servers.
        others: how many tables are behind the model's.
    """

    def __init__(self, session: LoneSession, others: int) -> None:
        self._session = session
        self._others = others

    def peek(self, ids: Sequence[Ids]) -> list[Numbers]:
        """See `tables.access.Rows`."""
        return self._session.peek([*ids, *(np.empty(0, np.int64) for _ in range(self._others))])[: len(ids)]
