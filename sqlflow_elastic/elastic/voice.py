"""Who of a world's members tells the session what happens: rank 0."""

from __future__ import annotations

from collections.abc import Callable

from sqlflow_elastic.events import Event


class Voice:
    """A member's events: kept until its rank is known, then told if that is 0, and dropped otherwise.

    Args:
        emit: takes those that are told, in the thread that says them.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._rank: int | None = None
        self._kept: list[Event] = []

    @property
    def leads(self) -> bool:
        """Whether this member speaks for all."""
        return self._rank == 0

    def take_rank(self, rank: int) -> None:
        """From now on this member has that rank."""
        self._rank = rank
        kept, self._kept = self._kept, []
        for event in kept:
            self.say(event)

    def say(self, event: Event) -> None:
        """Tell an event, if this member is the one to do it."""
        if self._rank is None:
            self._kept.append(event)
        elif self.leads:
            self._emit(event)
