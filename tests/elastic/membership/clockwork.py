"""Simulated time: what happens next, in an order that a seed fixes."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable


class BrokenRuleError(AssertionError):
    """Something happened that must never happen."""


class Clockwork:
    """Calls functions in the order of their simulated times.

    Attributes:
        now: simulated seconds.
        random: fixes everything that is not decided by the product.
        count: how many calls were made.
        seen: how often what happened; for a whole run to show that it was not empty.
    """

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.count = 0
        self.seen: Counter[str] = Counter()
        self._queue: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._pushed = 0

    def at(self, time: float, call: Callable[..., None], *arguments: object) -> None:
        """Call it then."""
        self._pushed += 1
        heapq.heappush(self._queue, (time, self._pushed, call, arguments))

    def soon(self, call: Callable[..., None], *arguments: object, most: float = 0.05) -> None:
        """Call it within a short time."""
        self.at(self.now + self.random.random() * most, call, *arguments)

    def step(self) -> bool:
        """Make the next call; False if there is none."""
        if not self._queue:
            return False
        time, _, call, arguments = heapq.heappop(self._queue)
        self.now = max(self.now, time)
        self.count += 1
        call(*arguments)
        return True
