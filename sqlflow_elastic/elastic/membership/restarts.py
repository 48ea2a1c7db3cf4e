"""When a worker that died is replaced, and when that makes no sense any more."""

from __future__ import annotations


class Restarts:
    """Counts deaths in a row: of a worker that was started after the death before, with nothing achieved between.

    So the death of many at once counts as one. The first is replaced at once, the next ones after growing pauses.

    Args:
        backoff, longest: the first and the longest pause, in seconds.

    Attributes:
        row: deaths in a row.
        generation: of a worker that is started now.
        until: no worker is started before.
    """

    def __init__(self, backoff: float, longest: float) -> None:
        self._backoff = backoff
        self._longest = longest
        self.row = 0
        self.generation = 0
        self.until = 0.0

    def achieved(self) -> None:
        """A step was taken, or a task done."""
        self.row = 0

    def died(self, generation: int, now: float) -> None:
        """A worker of a generation died."""
        if generation == self.generation:
            self.generation += 1
            self.row += 1
            if self.row > 1:
                self.until = now + min(self._longest, self._backoff * 2.0 ** (self.row - 2))
