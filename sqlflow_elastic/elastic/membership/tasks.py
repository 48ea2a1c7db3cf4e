"""Work that is not a step, as queues of tasks: who has which, and which are done."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any

from sqlflow_elastic.elastic.membership.messages import Held, Wish

#: Keys in the state store: of a queue its total, below it True for each task that is done.
TASKS_KEY = "tasks/"


class TotalChangedError(Exception):
    """Two workers do not mean the same queue: a bug in the program."""


class TaskQueue:
    """The tasks 0 … ``total`` - 1 of one queue: todo, doing, done.

    Attributes:
        done: those whose results are where they belong.
        doing: who has the others that somebody has.
        waiting: who waits for one, in the order of coming.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.done: set[int] = set()
        self.doing: dict[int, str] = {}
        self.waiting: dict[str, None] = {}
        self._todo = list(range(total))

    def next(self) -> int | None:
        """The first task that nobody has, which is then somebody's; None if there is none."""
        while self._todo:
            index = heapq.heappop(self._todo)
            if index not in self.done and index not in self.doing:
                return index
        return None

    def put_back(self, index: int) -> None:
        """A task that nobody has any more."""
        if self.doing.pop(index, None) is not None:
            heapq.heappush(self._todo, index)


class TaskQueues:
    """All queues of a job, by name. A queue begins to be with the first wish for one of its tasks."""

    def __init__(self, stored: Mapping[str, Any] | None = None) -> None:
        self._queues: dict[str, TaskQueue] = {}
        for key, value in sorted((stored or {}).items()):
            if key.startswith(TASKS_KEY):
                name, _, index = key.removeprefix(TASKS_KEY).partition("/")
                if index:
                    self._queues[name].done.add(int(index))
                else:
                    self._queues[name] = TaskQueue(int(value))

    def wish(self, worker: str, wish: Wish) -> bool:
        """A worker waits. Returns whether the queue is new and is to be stored. Raises: TotalChangedError."""
        queue = self._queues.get(wish.queue)
        if queue is not None and queue.total != wish.total:
            raise TotalChangedError(f"queue {wish.queue!r} has {queue.total} tasks, and {worker} says {wish.total}")
        if queue is None:
            self._queues[wish.queue] = TaskQueue(wish.total)
        self._queues[wish.queue].waiting[worker] = None
        return queue is None

    def holds(self, worker: str, held: Iterable[Held]) -> None:
        """What a worker has, by its own words, and nothing else."""
        self.gone(worker)
        for task in held:
            queue = self._queues.get(task.queue)
            if queue is not None and not task.done and task.index not in queue.done:
                queue.doing.setdefault(task.index, worker)

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """Of each queue how many tasks are done, and how many there are."""
        return {name: (len(queue.done), queue.total) for name, queue in self._queues.items()}

    def is_done(self, queue: str, index: int) -> bool:
        """Whether it is already known to be done."""
        return queue in self._queues and index in self._queues[queue].done

    def exists(self, queue: str, index: int) -> bool:
        """Whether there is such a task."""
        return queue in self._queues and 0 <= index < self._queues[queue].total

    def did(self, queue: str, index: int) -> None:
        """A task is done, and that is stored."""
        self._queues[queue].doing.pop(index, None)
        self._queues[queue].done.add(index)

    def gone(self, worker: str) -> bool:
        """A worker that waits for nothing and has nothing any more. Returns whether it had a task."""
        had_one = False
        for queue in self._queues.values():
            queue.waiting.pop(worker, None)
            for index in [index for index, holder in queue.doing.items() if holder == worker]:
                queue.put_back(index)
                had_one = True
        return had_one

    def deal(self) -> list[tuple[str, str, int | None]]:
        """Give tasks to those who wait.

        Returns: (worker, queue, index) of each that waits no longer; the index is None where all are done.
        """
        dealt: list[tuple[str, str, int | None]] = []
        for name, queue in self._queues.items():
            finished = len(queue.done) == queue.total
            while queue.waiting:
                index = None if finished else queue.next()
                if index is None and not finished:
                    break
                worker = next(iter(queue.waiting))
                del queue.waiting[worker]
                if index is not None:
                    queue.doing[index] = worker
                dealt.append((worker, name, index))
        return dealt


class TasksInHand:
    """A worker's side: the tasks it has, and the queue it waits at."""

    def __init__(self) -> None:
        self.wish: Wish | None = None
        self._done: dict[tuple[str, int], bool] = {}

    def held(self) -> tuple[Held, ...]:
        """All that the master has not acknowledged."""
        return tuple(Held(queue, index, done) for (queue, index), done in self._done.items())

    def take(self, queue: str, index: int) -> bool:
        """A task has come. False: nobody waits for it."""
        if self.wish is None or self.wish.queue != queue:
            return False
        self.wish = None
        self._done[queue, index] = False
        return True

    def give_up(self, queue: str) -> bool:
        """There are no more. False: nobody waits for one."""
        if self.wish is None or self.wish.queue != queue:
            return False
        self.wish = None
        return True

    def did(self, queue: str, index: int) -> None:
        """A task is done; not acknowledged yet."""
        self._done[queue, index] = True

    def accepted(self, queue: str, index: int) -> None:
        """A done task is acknowledged."""
        self._done.pop((queue, index), None)
