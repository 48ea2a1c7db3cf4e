"""Workers of an asynchronous training in threads of this process, with real servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sqlflow_elastic.elastic.asynchronous.trainer import AsynchronousTrainer
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.membership.messages import Wish
from sqlflow_elastic.elastic.membership.tasks import TaskQueues
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.table_saving import whole_model
from sqlflow_elastic.elastic.tables.lone_client import LoneSession, join
from sqlflow_elastic.elastic.trainer import TrainResult
from sqlflow_elastic.events import Event
from sqlflow_elastic.models.tables.spec import TableSpec
from tests.elastic import models
from tests.elastic.tables.servers import SECONDS, TOKEN, Servers


class DiedError(Exception):
    """A worker does no more."""


class Master:
    """Gives out tasks and says which servers there are, as a job's master does."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.version = 1
        self.done: list[tuple[str, int]] = []
        self._queues = TaskQueues()
        self._given: dict[tuple[str, str], int | None] = {}
        self._changed = threading.Condition()

    def tasks(self, worker: str, queue: str, total: int, idles: Callable[[], None]) -> Iterator[int]:
        while True:
            with self._changed:
                self._queues.wish(worker, Wish(queue, total))
                index = self._await(worker, queue, idles)
            if index is None:
                return
            try:
                yield index
            except GeneratorExit:
                self.lose(worker)
                raise
            with self._changed:
                self._queues.did(queue, index)
                self.done.append((queue, index))
                self._changed.notify_all()

    def lose(self, worker: str) -> None:
        """What a worker had falls to others."""
        with self._changed:
            self._queues.gone(worker)
            self._changed.notify_all()

    def _await(self, worker: str, queue: str, idles: Callable[[], None]) -> int | None:
        def dealt() -> bool:
            self._given |= {(name, of): index for name, of, index in self._queues.deal()}
            self._changed.notify_all()
            return (worker, queue) in self._given

        if not dealt():
            idles()
            assert self._changed.wait_for(dealt, SECONDS), "no task comes"
        return self._given.pop((worker, queue))


class Worker:
    """What an asynchronous trainer has of its process: its run, its member and its servers at once."""

    def __init__(self, master: Master, folder: Path, number: int, most: int) -> None:
        self.number, self.most, self.name = number, most, f"worker-{number}"
        self.folder = JobFolder(folder)
        self.events: list[Event] = []
        self.emit = self.events.append
        self.member = self.servers = self
        self._master = master

    def tasks(self, queue: str, total: int, idles: Callable[[], None] = lambda: None) -> Iterator[int]:
        return self._master.tasks(self.name, queue, total, idles)

    def join(self, specs: Sequence[TableSpec], staleness: int) -> LoneSession:
        servers = self._master.servers
        at = [(name, servers[name].address) for name in servers.names]
        return join(TOKEN, at, specs, self._master.version, self.name, staleness, seconds=SECONDS, deadline=SECONDS)


class LoneCrew:
    """Workers of one training.

    Attributes:
        master: theirs.
        workers, models, trainers: each one's.
    """

    def __init__(
        self,
        size: int,
        servers: Servers,
        build: Callable[[], Any],
        dataset: ArrayDataset,
        settings: TrainSettings,
        *,
        gradients: Callable[..., Any] = models.class_gradients,
        **options: Any,
    ) -> None:
        self.master = Master(servers)
        self.workers = [Worker(self.master, servers.folder.parent, number, size) for number in range(size)]
        self.models: list[Any] = []
        self.trainers: list[AsynchronousTrainer] = []
        for worker in self.workers:
            model, optimizers = build()
            run: Any = worker
            self.models.append(model)
            self.trainers.append(AsynchronousTrainer(run, model, gradients, optimizers, dataset, settings, **options))

    def train(self) -> list[TrainResult | DiedError]:
        """All train to the end, or die."""

        def work(number: int) -> TrainResult | DiedError:
            try:
                return self.trainers[number].train()
            except DiedError as died:
                return died
            finally:
                self.master.lose(self.workers[number].name)

        with ThreadPoolExecutor(len(self.trainers)) as threads:
            return list(threads.map(work, range(len(self.trainers))))

    def weights(self, build: Callable[[], Any], worker: int = 0) -> list[Any]:
        """All of the result, as a worker has it.

        Args:
            build: makes the model with its tables in it.
        """
        trainer, folder = self.trainers[worker], self.master.servers.folder
        if not trainer.table_specs:
            return models.weights(self.models[worker])
        model = self.models[worker]
        return models.weights(whole_model(model, build, folder, trainer.result_step, trainer.table_specs))
