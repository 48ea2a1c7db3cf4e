"""Which way to run steps: measured on the job itself, on batches that count.

The first step runs in the way that is ready first. The others are built while training goes on, and only by jobs long
enough to get the time back. Each newcomer runs in turns with the best so far, so that both see the same machine, and
the faster one stays. Every batch is trained on exactly once whatever is tried.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Callable, Generator

import tensorflow as tf

from sqlflow_elastic.elastic.ways import Kind, Runner, Way

logger = logging.getLogger(__name__)

#: A call runs at most this long, so that progress, checkpoints and a stop are prompt.
_CALL_SECONDS = 0.2
#: Steps a call: more gain nothing measurable.
_MOST_STEPS = 32
#: Bytes of a call's batches, at most.
_CALL_BYTES = 64 * 2**20
#: What remains of training must take this many times what building a way costs.
_REPAYS = 10
#: Seconds of XLA compilation per operation, as measured on one busy core (MLP, DeepFM and MobileNetV2: 0.003 to 0.007).
_XLA_SECONDS_PER_OPERATION = 0.005
#: How long each measures in a turn, and how many turns there are.
_TURN_SECONDS, _TURNS = 0.05, 7
#: A newcomer has to take less than this part of the other's time: below it, the difference is the machine's noise.
_BETTER = 0.98
#: A newcomer whose first steps take this many times as long is not measured further.
_HOPELESS = 2.0

#: Yields who runs next and how many steps at most; is sent the seconds per step that this took.
_Trial = Generator[tuple[Runner, int], float, None]


class Choice:
    """Decides, call by call, which way runs the next steps.

    Args:
        make: makes the runner of a way, without tracing it.
        state: the variables a step uses, once it is traced.
        row_bytes: bytes of one batch.
        fixed: the way to use from the first step on; None to choose.

    Attributes:
        way: the way that runs steps now; another one may be under trial.
        decided: whether it will stay.
    """

    def __init__(
        self,
        make: Callable[[Way], Runner],
        state: Callable[[], list[tf.Variable]],
        batch_bytes: int,
        fixed: Way | None,
    ) -> None:
        self._make = make
        self._state = state
        self._batch_bytes = batch_bytes
        self._best = self.single = make(Way(Kind.SINGLE))
        self._left = 0
        self.gain = 1.0
        self.decided = False
        self._trial = self._choose() if fixed is None else self._use(fixed)
        self._next: tuple[Runner, int] | None = None

    @property
    def way(self) -> Way:
        """The way that runs steps now; another one may be under trial."""
        return self._best.way

    def next(self, left: int) -> tuple[Runner, int]:
        """Who runs next, and how many steps at most.

        Args:
            left: steps until training ends.
        """
        self._left = left
        if self._next is None:
            self._next = next(self._trial)
        return self._next

    def took(self, seconds_per_step: float) -> None:
        """Tell how long those steps took."""
        self._next = self._trial.send(seconds_per_step)

    def _use(self, way: Way) -> _Trial:
        if way.kind is not Kind.SINGLE:
            runner = self._built(way)
            if runner is not None and way.kind is Kind.XLA:
                runner = self._compiled(runner)
            self._best = runner or self.single
        yield from self._stay()

    def _stay(self) -> _Trial:
        self.decided = True
        while True:
            yield self._best, self._best.way.steps

    def _choose(self) -> _Trial:
        first = yield self.single, 1
        seconds: list[float] = []
        while sum(seconds) < _TURN_SECONDS * 2 or len(seconds) < 5:
            seconds.append((yield self.single, 1))
        step = statistics.median(seconds)
        steps = int(min(_CALL_SECONDS / step, _CALL_BYTES / self._batch_bytes, _MOST_STEPS))
        if steps > 1 and self._repays(first, step) and (fused := self._built(Way(Kind.FUSED, steps))):
            yield from self._compare(fused)
        cost = self.single.operations * _XLA_SECONDS_PER_OPERATION
        if not self.single.random and self._repays(cost, step) and (xla := self._built(Way(Kind.XLA, max(1, steps)))):
            try:
                compilation = xla.compile(self._state())
            except ValueError as error:
                logger.debug("no XLA: %s", error)
            else:
                while compilation.is_alive():
                    yield self._best, self._best.way.steps
                if compilation.error is None:
                    yield from self._compare(xla)
                else:
                    logger.debug("XLA does not compile the step: %s", compilation.error)
        yield from self._stay()

    def _repays(self, cost: float, step: float) -> bool:
        return self._left * step > cost * _REPAYS

    def _built(self, way: Way) -> Runner | None:
        runner = self._make(way)
        try:
            runner.trace()
        except Exception as error:  # noqa: BLE001 - a step may do what cannot stand in a loop: the way is dropped
            logger.debug("no way %s: %s", way, error)
            return None
        return runner

    def _compiled(self, runner: Runner) -> Runner | None:
        try:
            compilation = runner.compile(self._state())
        except ValueError as error:
            logger.debug("no XLA: %s", error)
            return None
        compilation.join()
        if compilation.error is not None:
            logger.debug("XLA does not compile the step: %s", compilation.error)
            return None
        return runner

    def _compare(self, newcomer: Runner) -> _Trial:
        """Run both in turns; keep the faster."""
        yield newcomer, 1
        times: list[tuple[float, float]] = []
        one = yield newcomer, 1
        other = yield self._best, self._best.way.steps
        if one > other * _HOPELESS + 0.001:
            logger.debug("%s takes %.1f times as long as %s", newcomer.way, one / other, self.way)
            return
        for _ in range(_TURNS):
            turn = []
            for runner in (newcomer, self._best):
                seconds, calls = 0.0, []
                while seconds < _TURN_SECONDS:
                    calls.append((yield runner, runner.way.steps))
                    seconds += calls[-1] * runner.way.steps
                turn.append(statistics.fmean(calls))
            times.append((turn[0], turn[1]))
        ratio = statistics.median(new / old for new, old in times)
        logger.debug("%s takes %.2f of the time of %s", newcomer.way, ratio, self.way)
        if ratio < _BETTER:
            self._best = newcomer
            self.gain /= ratio
