"""What a master has to look at again, and when."""

from __future__ import annotations

import heapq
import math
from enum import Enum
from itertools import count


class Alarm(Enum):
    """Why the master looks again; all but the last seven concern one worker."""

    #: A process that has not said a word.
    HELLO = 1
    #: A worker that may be silent for too long.
    SILENCE = 2
    #: A lost stream.
    RECONNECT = 3
    #: One that leaves.
    LEAVE = 4
    #: One that was killed and has not ended.
    KILL = 5
    #: A world change under way, or a broken world.
    CHANGE = 6
    #: A pause before workers are started again.
    RESTART = 7
    #: Workers of the master before.
    ADOPT = 8
    #: Workers that end with the job.
    END = 9
    #: Whether the members' shares suit their speeds.
    SHARES = 10
    #: Whether more members died.
    GATHER = 11
    #: The first decision of all.
    BEGIN = 12


class Deadlines:
    """One time for each alarm of each worker (of "" where it concerns none)."""

    def __init__(self) -> None:
        self._times: dict[tuple[Alarm, str], float] = {}
        self._heap: list[tuple[float, int, tuple[Alarm, str]]] = []
        self._counter = count()

    def set(self, alarm: Alarm, worker: str, at: float) -> None:
        """Ring at this time and no other."""
        key = alarm, worker
        if self._times.get(key) != at:
            self._times[key] = at
            heapq.heappush(self._heap, (at, next(self._counter), key))

    def has(self, alarm: Alarm, worker: str = "") -> bool:
        """Whether it will ring."""
        return (alarm, worker) in self._times

    def clear(self, alarm: Alarm, worker: str = "") -> None:
        """Do not ring."""
        self._times.pop((alarm, worker), None)

    def clear_all(self, worker: str) -> None:
        """Do not ring for a worker."""
        for alarm in (Alarm.HELLO, Alarm.SILENCE, Alarm.RECONNECT, Alarm.LEAVE, Alarm.KILL):
            self._times.pop((alarm, worker), None)

    def pop(self, now: float) -> tuple[Alarm, str] | None:
        """The next one that is due, which rings no more then."""
        if self.next > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._times[key]
        return key

    @property
    def next(self) -> float:
        """When the next one rings; infinity for never."""
        while self._heap and self._times.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf
