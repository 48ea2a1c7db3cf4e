"""The master's side of tasks: stores what is done, and gives out what is to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlflow_elastic.elastic.membership.desk import Desk, Worker
from sqlflow_elastic.elastic.membership.master_protocol import CountTasks
from sqlflow_elastic.elastic.membership.messages import Hello, NoTask, Task, TaskAccepted, Wish
from sqlflow_elastic.elastic.membership.restarts import Restarts
from sqlflow_elastic.elastic.membership.tasks import TASKS_KEY, TaskQueues


class Dealing:
    """Tasks of a job's queues between its workers.

    Attributes:
        open: whether tasks are given out: once it is known which ones the workers have already.
    """

    def __init__(self, desk: Desk, restarts: Restarts, stored: Mapping[str, Any]) -> None:
        self._desk = desk
        self._restarts = restarts
        self._queues = TaskQueues(stored)
        self.open = False

    def count(self) -> None:
        """Say how many tasks of each queue are done."""
        for queue in self._queues.counts:
            self._count(queue)

    def greeted(self, worker: Worker, hello: Hello) -> None:
        """A worker says which tasks it has, and whether it waits for one. Raises: TotalChangedError."""
        self._queues.holds(worker.name, hello.held)
        for held in hello.held:
            if held.done:
                self.done(worker, held.queue, held.index)
        if hello.wish is not None:
            self.wanted(worker, hello.wish)

    def wanted(self, worker: Worker, wish: Wish) -> None:
        """A worker waits for a task. Raises: TotalChangedError: not the queue that others mean."""
        if self._queues.wish(worker.name, wish):
            self._desk.persist({TASKS_KEY + wish.queue: wish.total})
            self._count(wish.queue)

    def done(self, worker: Worker, queue: str, index: int) -> None:
        """A task's result is where it belongs: known for good, then acknowledged."""
        if not self._queues.exists(queue, index):
            return
        if not self._queues.is_done(queue, index):
            self._desk.persist({f"{TASKS_KEY}{queue}/{index}": True})
            self._queues.did(queue, index)
            self._count(queue)
            self._restarts.achieved()
        self._desk.send(worker, TaskAccepted(queue, index))

    def has_many(self, queue: str) -> bool:
        """Whether a queue has more than one task."""
        return self._queues.counts.get(queue, (0, 0))[1] > 1

    def lost(self, worker: Worker, why: str) -> None:
        """Somebody else does what a worker had."""
        if self._queues.gone(worker.name):
            self._desk.inform(f"{why}; another worker does its part", level="warning")

    def settle(self) -> None:
        """Give tasks to those who wait."""
        if self.open:
            for name, queue, index in self._queues.deal():
                task = NoTask(queue) if index is None else Task(queue, index)
                self._desk.send(self._desk.workers[name], task)

    def _count(self, queue: str) -> None:
        done, total = self._queues.counts[queue]
        self._desk.commands.append(CountTasks(queue, done, total))
