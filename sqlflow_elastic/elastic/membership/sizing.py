"""How many workers make a job fastest: tried on the job itself, on steps that count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlflow_elastic.elastic.membership.messages import Progress
from sqlflow_elastic.elastic.membership.spec import JobSpec, Scaling

#: What a trial costs, in seconds: a worker's start and what measuring takes.
_TRIAL_SECONDS = 3.0 + 2.0
#: The rest of training must take this many times what a trial costs: a trial that finds nothing costs 5 % at most.
_REPAYS = 20
#: A speed counts when it was measured over so many seconds and steps.
_MEASURED_SECONDS, _MEASURED_STEPS = 1.0, 30
#: A world smaller than the one to try, because there is no room, is judged after so many seconds.
_PATIENCE_SECONDS = 5.0
#: A size has to be faster by this part: below it, the difference is the machine's noise.
_BETTER = 1.03


class Sizing:
    """Decides how many workers a job takes.

    Args:
        spec: of the job.
        stored: `to_json` of the master before.

    Attributes:
        reason: why ``target`` is smaller than what there was, for the workers that are released.
    """

    def __init__(self, spec: JobSpec, stored: Mapping[str, Any] | None = None) -> None:
        self._limit = spec.most
        self._batch = spec.batch_size
        self._speeds: dict[int, float] = {}
        self._trial: int | None = None
        self._last_chance = False
        self._told = False
        fixed = spec.scaling is Scaling.ALL or self._batch is None or self._limit == 1
        self._best = self._limit if fixed else 1
        self._decided = fixed
        self.reason = "one worker too many"
        if stored is not None and not fixed:
            self._best = min(int(stored["best"]), self._limit)
            self._trial = stored["trial"]
            self._last_chance = bool(stored["last_chance"])
            self._decided = bool(stored["decided"])
            self._speeds = {int(size): float(speed) for size, speed in stored["speeds"].items()}

    @property
    def grown(self) -> bool:
        """Whether it is decided, after trials, that a job takes more than the one worker that it began with."""
        return self._decided and bool(self._speeds) and self._best > 1

    @property
    def target(self) -> int:
        """How many workers the job takes, by what is known now."""
        return self._trial or self._best

    def to_json(self) -> dict[str, Any]:
        """What a new master has to know, so that nothing is tried twice."""
        speeds = {str(size): speed for size, speed in self._speeds.items()}
        return {
            "best": self._best,
            "trial": self._trial,
            "last_chance": self._last_chance,
            "decided": self._decided,
            "speeds": speeds,
        }

    def measured(self, size: int, progress: Progress) -> str | None:
        """Rank 0 of a world of ``size`` tells its speed.

        Returns: a sentence for the user if that decided something (also to be stored then); ``target`` may differ now.
        """
        if self._decided or self._batch is None:
            return None
        speed = progress.samples_per_second
        long_enough = progress.eta >= _REPAYS * _TRIAL_SECONDS
        if self._trial is not None and size < self._trial and not long_enough and progress.eta > 0:
            return self._stay(f"{_workers(self._best)}: what is left is too short to try {self._trial}")
        steps = progress.measured * speed / self._batch
        if not progress.settled or progress.measured < _MEASURED_SECONDS or steps < _MEASURED_STEPS:
            return None
        if size == self._best:
            self._speeds[size] = speed
            if self._trial is not None:
                return None
            larger = min(2 * size, self._limit)
            return self._try(larger) if long_enough else self._too_late(larger, progress.eta)
        if self._trial is None or size < self._best:
            return None
        if size < self._trial and progress.measured < _PATIENCE_SECONDS:
            return None
        self._speeds[size] = speed
        best = self._speeds[self._best]
        figures = f"{_workers(size)} {speed:,.0f} samples/s, {_workers(self._best)} {best:,.0f}"
        if speed < best * _BETTER:
            return self._too_slow(size, figures, long_enough)
        self._best = size
        if size < self._trial:
            return f"{figures}: {_workers(size)} for now"
        self._trial = None
        larger = min(2 * size, self._limit)
        if self._last_chance or larger == size or not long_enough:
            return self._stay(f"{figures}: {_workers(size)} from now on")
        self._try(larger)
        return f"{figures}: trying {larger}"

    def _too_late(self, larger: int, eta: float) -> str | None:
        """Said once: a job whose speed falls may become long enough after all."""
        if self._told:
            return None
        self._told = True
        needed = _REPAYS * _TRIAL_SECONDS
        return f"{_workers(self._best)}: to try {larger} pays from {needed:.0f} s on, and {eta:.0f} s are left"

    def _try(self, size: int) -> str:
        self._trial = size
        return f"trying {_workers(size)}"

    def _stay(self, sentence: str) -> str:
        self._trial, self._decided = None, True
        return sentence

    def _too_slow(self, size: int, figures: str, long_enough: bool) -> str:
        self.reason = figures
        larger = size == self._trial and size < self._limit and not self._last_chance and long_enough
        if larger and self._predicted() > self._speeds[self._best] * _BETTER:
            self._last_chance = True
            self._try(self._limit)
            return f"{figures}: trying {self._limit}, which may be faster all the same"
        return self._stay(f"{figures}: {_workers(self._best)} from now on")

    def _predicted(self) -> float:
        """Samples a second of the full size, if a step is a part that is split and an exchange that a ring lengthens.

        From the time of a step alone and of one in the largest world measured: t(1) = compute, t(n) = compute / n +
        exchange * (n - 1) / n.
        """
        size = max(self._speeds)
        if 1 not in self._speeds or size == 1 or self._batch is None:
            return 0.0
        compute = self._batch / self._speeds[1]
        exchange = (self._batch / self._speeds[size] - compute / size) * size / (size - 1)
        step = compute / self._limit + max(0.0, exchange) * (self._limit - 1) / self._limit
        return self._batch / step


def _workers(size: int) -> str:
    return "1 worker" if size == 1 else f"{size} workers"
