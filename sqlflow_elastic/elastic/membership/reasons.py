"""Why the next world is another one than the last, for people."""

from __future__ import annotations

from collections.abc import Sequence

#: Reasons, and names, that one sentence gives at most.
_MOST = 3


class Reasons:
    """Collects what happened between two worlds."""

    def __init__(self) -> None:
        #: By the name of a worker that was lost, else by the reason itself: each is told once.
        self._reasons: dict[str, str] = {}

    def because(self, reason: str) -> None:
        """Something happened."""
        self._reasons[reason] = reason

    def lost(self, worker: str, why: str) -> None:
        """A member is gone. What is known later is known better."""
        self._reasons[worker] = why

    def knows(self, worker: str) -> bool:
        """Whether there is a reason why a worker is gone."""
        return worker in self._reasons

    def tell(self, joined: Sequence[str]) -> str:
        """All of it in a sentence, with those who joined; then it is forgotten."""
        reasons = list(self._reasons.values())
        told = reasons[:_MOST]
        if len(reasons) > _MOST:
            told.append(f"{len(reasons) - _MOST} more reasons")
        if joined:
            more = f" and {len(joined) - _MOST} more" if len(joined) > _MOST else ""
            told.append(f"{', '.join(joined[:_MOST])}{more} joined")
        self._reasons.clear()
        return "; ".join(told) or "the members connected again"
