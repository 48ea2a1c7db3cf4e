"""How far workers that take steps alone are ahead of each other. Pure."""

from __future__ import annotations


class Clocks:
    """Counts the steps of workers.

    A worker counts from its first step on. One that comes, or comes back from idling, stands where the slowest is:
    nobody waits for it to catch up on what others did meanwhile.

    Args:
        staleness: so many steps a worker may be ahead of the slowest one.
    """

    def __init__(self, staleness: int) -> None:
        self._staleness = staleness
        self._steps: dict[str, int] = {}

    def stepped(self, worker: str) -> None:
        """A worker has taken a step."""
        self._steps[worker] = 1 + self._steps.get(worker, min(self._steps.values(), default=0))

    def rests(self, worker: str) -> None:
        """A worker idles or is gone: nobody waits for it."""
        self._steps.pop(worker, None)

    def may_go_on(self, worker: str) -> bool:
        """Whether a worker is not too far ahead."""
        steps = self._steps.get(worker)
        return steps is None or steps - min(self._steps.values()) <= self._staleness
