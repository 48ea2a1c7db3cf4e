"""Worlds in memory: members are threads of this process, and what they exchange is summed up in the order of ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import Place, WorldBroken

T = TypeVar("T")
DEADLINE_SECONDS = 60


@dataclass(frozen=True)
class Break:
    """Where a world breaks: in a member's ``call``-th call, from 0 on.

    Attributes:
        given: whether the others still get what this member gave in that call, so that they are ahead of it.
    """

    rank: int
    call: int
    given: bool


class World:
    """A world of ``size`` members, which may break."""

    def __init__(self, size: int, broken: Break | None = None) -> None:
        self.size = size
        self.calls = 0
        self._break = broken
        self._broken = False
        self._given: dict[int, dict[int, Any]] = {}
        self._changed = threading.Condition()

    def run(self, *members: Callable[[Member], T]) -> list[T | WorldBroken]:
        """Each member's work in a thread of its own, by rank. Returns their results; a `WorldBroken` is one."""

        def work(rank: int) -> T | WorldBroken:
            try:
                return members[rank](Member(self, rank))
            except WorldBroken as broken:
                return broken
            except BaseException:
                self.fail()
                raise

        with ThreadPoolExecutor(self.size) as threads:
            return list(threads.map(work, range(self.size)))

    def fail(self) -> None:
        with self._changed:
            self._broken = True
            self._changed.notify_all()

    def exchange(self, rank: int, call: int, data: Any) -> list[Any]:
        """What all members gave in their ``call``-th call."""
        breaks = (
            self._break if self._break is not None and (self._break.rank, self._break.call) == (rank, call) else None
        )
        with self._changed:
            self.calls = max(self.calls, call + 1)
            given = self._given.setdefault(call, {})
            if breaks is None or breaks.given:
                given[rank] = data
                self._changed.notify_all()
            if breaks is not None:
                self._broken = True
                self._changed.notify_all()
                raise WorldBroken("this member fails", rank)
            if not self._changed.wait_for(lambda: len(given) == self.size or self._broken, DEADLINE_SECONDS):
                raise TimeoutError(f"rank {rank} waits alone in call {call}")
            if len(given) < self.size:
                raise WorldBroken("another member failed")
            return [given[other] for other in range(self.size)]


class Member:
    """One member's end of a world: an `Exchange`."""

    def __init__(self, world: World, rank: int) -> None:
        self.place = Place(1, rank, world.size, "")
        self._world = world
        self._calls = 0

    def allreduce(
        self, buffers: Sequence[NDArray[Any]], into: Sequence[NDArray[Any]] | None = None, exact: int = 0
    ) -> None:
        given = self._all([buffer.copy() for buffer in buffers])
        for target, *parts in zip(buffers if into is None else into, *given, strict=True):
            target[:] = parts[0]
            for part in parts[1:]:
                target += part

    def allgather(self, data: Any) -> list[memoryview]:
        return [memoryview(each) for each in self._all(bytes(data))]

    def _all(self, data: Any) -> list[Any]:
        call, self._calls = self._calls, self._calls + 1
        return self._world.exchange(self.place.rank, call, data)


def equal(one: list[NDArray[Any]], other: list[NDArray[Any]]) -> bool:
    """Whether arrays hold the same bits."""
    return len(one) == len(other) and all(
        a.dtype == b.dtype and np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8))
        for a, b in zip(one, other, strict=True)
    )
