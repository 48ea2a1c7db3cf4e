"""Events that wait for a thread, in memory that is bounded however slow that thread is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from sqlflow_elastic.events import Event, Metrics, Progress

#: When more events wait that may be missed, they are thinned.
MOST_SPARE = 10_000


class Waiting(NamedTuple):
    """An event, its line of JSON, and when it came, in Unix seconds."""

    event: Event
    line: str
    at: float

    @property
    def spare(self) -> bool:
        """Whether it may be missed: those like it come without end, and a later one says more."""
        return isinstance(self.event, Progress) or (isinstance(self.event, Metrics) and self.event.split == "train")


class Backlog:
    """Events in the order of coming, from any threads to one.

    When more than `MOST_SPARE` wait that may be missed, every second one of the training metrics goes, and all progress
    but the newest of each phase: who reads late sees the whole way, with fewer points. All else stays.
    """

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self._spare = 0
        self._closed = False
        self._changed = threading.Condition()

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def put(self, waiting: Waiting) -> None:
        """Take one; nothing happens after `close`."""
        with self._changed:
            if self._closed:
                return
            self._waiting.append(waiting)
            self._spare += waiting.spare
            if self._spare > MOST_SPARE:
                thinned: deque[Waiting] = deque()
                thinned.extendleft(self._thinned())
                self._waiting = thinned
                self._spare = sum(one.spare for one in self._waiting)
            self._changed.notify()

    def take(self) -> Waiting | None:
        """Wait for the next one; None when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return None
            waiting = self._waiting.popleft()
            self._spare -= waiting.spare
            return waiting

    def close(self) -> None:
        """Nothing comes any more; what waits can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _thinned(self) -> Iterator[Waiting]:
        """What stays, from the newest on."""
        phases: set[str] = set()
        metrics = 0
        for waiting in reversed(self._waiting):
            if isinstance(waiting.event, Progress):
                if waiting.event.phase in phases:
                    continue
                phases.add(waiting.event.phase)
            elif waiting.spare:
                metrics += 1
                if metrics % 2 == 0:
                    continue
            yield waiting
