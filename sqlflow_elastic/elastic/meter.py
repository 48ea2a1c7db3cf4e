"""How fast training is: a few sums, read from any thread."""

from __future__ import annotations

from sqlflow_elastic.elastic.replica import Speeds

#: Calls of a run that are not measured: they instantiate graphs, fill caches and wait for others that do.
_FIRST_CALLS = 3


class Meter:
    """Sums of one run's calls."""

    def __init__(self) -> None:
        self._settled = False
        self._unmeasured = _FIRST_CALLS
        #: Samples of the world, seconds, this member's samples, seconds of work on them; replaced as a whole.
        self._sums = (0, 0.0, 0, 0.0)

    def add(self, samples: int, seconds: float, own: int, own_seconds: float, *, settled: bool) -> None:
        """Add a call.

        Args:
            samples: of the world.
            seconds: from the call's begin to its end.
            own: this member's samples.
            own_seconds: what it worked on them.
            settled: whether the speed will stay as it is now.
        """
        if settled and not self._settled:
            self._settled, self._sums = True, (0, 0.0, 0, 0.0)
        if self._unmeasured:
            self._unmeasured -= 1
            return
        all_samples, all_seconds, all_own, all_own_seconds = self._sums
        self._sums = (all_samples + samples, all_seconds + seconds, all_own + own, all_own_seconds + own_seconds)

    def speeds(self, left: int) -> Speeds:
        """The figures so far, where ``left`` samples are to be trained on."""
        samples, seconds, own, own_seconds = self._sums
        if not samples:
            return Speeds()
        return Speeds(
            samples_per_second=samples / seconds,
            sample_seconds=own_seconds / own if own else 0.0,
            measured=seconds,
            settled=self._settled,
            eta=left * seconds / samples,
        )
