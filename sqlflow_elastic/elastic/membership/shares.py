"""How a batch is split over members that differ in speed."""

from __future__ import annotations

from collections.abc import Sequence

#: The slowest and the fastest member's times per sample have to differ by more than this part …
_UNEVEN = 0.15
#: … and for this long, in seconds, before shares change …
_PERSISTENT = 5.0
#: … which they do no more often than this.
_PAUSE = 10.0
#: What a new measurement weighs in the mean over time.
_WEIGHT = 0.2


class Shares:
    """Gives each member the part of a batch that takes all of them equally long."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._uneven_since: float | None = None
        self._changed = -_PAUSE

    def observe(self, worker: str, sample_seconds: float, now: float) -> None:
        """What one sample costs a member; 0.0 is no measurement."""
        if sample_seconds > 0:
            before = self._seconds.get(worker, sample_seconds)
            self._seconds[worker] = before + _WEIGHT * (sample_seconds - before)
            self._since.setdefault(worker, now)

    def forget(self, worker: str) -> None:
        """A member that is gone."""
        self._seconds.pop(worker, None)
        self._since.pop(worker, None)

    def of(self, members: Sequence[str], batch: int, now: float) -> tuple[float, ...]:
        """Each member's share, adding up to 1: whole samples of a full batch, at least one; empty for equal shares.

        A member that is not known long enough counts as the mean of the others.
        """
        known = [self._seconds[name] for name in members if now - self._since.get(name, now) >= _PERSISTENT]
        if len(members) > batch or len(known) < 2 or max(known) <= min(known) * (1 + _UNEVEN):
            return ()
        mean = sum(known) / len(known)
        speeds = [
            1 / (self._seconds[name] if now - self._since.get(name, now) >= _PERSISTENT else mean) for name in members
        ]
        # Everybody has one sample; the others are split by speed, the largest remainders first.
        wanted = [max(0.0, speed / sum(speeds) * batch - 1) for speed in speeds]
        scale = (batch - len(members)) / sum(wanted) if sum(wanted) > 0 else 0.0
        exact = [1 + part * scale for part in wanted]
        samples = [int(part) for part in exact]
        order = sorted(range(len(members)), key=lambda rank: (samples[rank] - exact[rank], rank))
        for rank in order[: batch - sum(samples)]:
            samples[rank] += 1
        return tuple(part / batch for part in samples)

    def due(self, members: Sequence[str], current: Sequence[float], batch: int, now: float) -> bool:
        """Whether other shares would have suited the members better for a while; asked every few seconds."""
        wanted = self.of(members, batch, now)
        equal = 1 / len(members)
        pairs = zip(wanted or [equal] * len(members), current or [equal] * len(members), strict=True)
        # One sample more or less is not worth a change.
        if all(abs(one - other) <= max(_UNEVEN * other, 1 / batch) for one, other in pairs):
            self._uneven_since = None
            return False
        if self._uneven_since is None:
            self._uneven_since = now
        return now - self._uneven_since >= _PERSISTENT and now - self._changed >= _PAUSE

    def changed(self, now: float) -> None:
        """A world begins with these shares."""
        self._changed = now
        self._uneven_since = None
