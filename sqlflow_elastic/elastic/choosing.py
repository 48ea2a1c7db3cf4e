"""Which way to run steps: measured on the job itself, on batches that count.

The first step runs in the way that is ready first. The others are built while training goes on, and only by jobs long
enough to get the time back. Each newcomer runs in turns with the best so far, so that both see the same machine, and
the faster one stays. Every batch is trained on exactly once whatever is tried.
"""

from __future__ import annotations

import logging
import os
import statistics
import time
from collections.abc import Callable, Generator

import tensorflow as tf

from sqlflow_elastic.elastic.ways import Kind, Runner, Way, steps_per_call
from sqlflow_elastic.events import Event, Message

logger = logging.getLogger(__name__)

#: What remains of training must take this many times what building a way costs: the loops gain some ten percent.
_LOOP_REPAYS = 10
#: The same for XLA, which makes graphs of small operations several times as fast …
_XLA_REPAYS = 4
#: … but not those with convolutions, on a CPU.
_XLA_CONVOLUTIONS_REPAY = 20
#: Seconds of XLA compilation per operation of the graph: 1 to 2 ms were measured on one idle core.
_XLA_SECONDS_PER_OPERATION = 0.002
#: How long each measures in a turn, and how many turns there are.
_TURN_SECONDS, _TURNS = 0.05, 10
#: A newcomer has to take less than this part of the other's time: above it, the difference is the machine's noise.
_BETTER = 0.98
#: A newcomer whose first steps, one a call, all take this many times as long is not measured further.
_HOPELESS, _CHANCES = 2.0, 5
_CALL_OVERHEAD_SECONDS = 0.001

#: Yields who runs next and how many steps at most; is sent the seconds per step that this took.
_Trial = Generator[tuple[Runner, int], float, None]


def clock() -> float:
    """Seconds, to time steps with: of the wall; of this process where it has one core, so that others do not count."""
    return time.process_time() if len(os.sched_getaffinity(0)) == 1 else time.perf_counter()


class Choice:
    """Decides, call by call, which way runs the next steps.

    Args:
        make: makes the runner of a way, without tracing it.
        state: the variables a step uses, once it is traced.
        batch_bytes: of one batch.
        fixed: the way to use; None to choose.
        emit: takes a message about what was chosen.
        wait: whether a fixed way must be used from the first step on, however long it takes to build.

    Attributes:
        single: the runner that also takes an epoch's short last batch.
        decided: whether `way` will stay.
    """

    def __init__(
        self,
        make: Callable[[Way], Runner],
        state: Callable[[], list[tf.Variable]],
        batch_bytes: int,
        fixed: Way | None,
        emit: Callable[[Event], None],
        *,
        wait: bool = True,
    ) -> None:
        self._make = make
        self._state = state
        self._batch_bytes = batch_bytes
        self._emit = emit
        self._best = self.single = make(Way(Kind.SINGLE))
        self._left = 0
        self._gain = 1.0
        self.decided = False
        self._trial = self._choose() if fixed is None else self._use(fixed, wait)
        self._next: tuple[Runner, int] | None = None

    @property
    def way(self) -> Way:
        """The best way so far; another one may be under trial."""
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
        """Tell how long those steps took, by `clock`."""
        self._next = self._trial.send(seconds_per_step)

    def _use(self, way: Way, wait: bool) -> _Trial:
        """Build a way, then run everything in it."""
        runner = None if way.kind is Kind.SINGLE else self._traced(way)
        if runner is not None:
            compilation = runner.compile(self._state())
            while not wait and compilation.is_alive():
                yield self._best, 1
            compilation.join()
            if compilation.error is None:
                self._best = runner
        yield from self._stay()

    def _stay(self) -> _Trial:
        self.decided = True
        while True:
            yield self._best, self.way.steps

    def _choose(self) -> _Trial:
        first = yield self.single, 1
        seconds: list[float] = []
        while sum(seconds) < _TURN_SECONDS * 2 or len(seconds) < 5:
            seconds.append((yield self.single, 1))
        step = statistics.median(seconds)
        steps = steps_per_call(step, self._batch_bytes)
        if steps > 1 and self._left * step > first * _LOOP_REPAYS:
            yield from self._try(Way(Kind.FUSED, steps))
        operations = self.single.operations()
        # XLA draws other random numbers than TensorFlow from the same seed, so its steps would not be the same steps.
        repays = _XLA_CONVOLUTIONS_REPAY if any("Conv" in operation for operation in operations) else _XLA_REPAYS
        random = any("Random" in operation for operation in operations)
        if not random and self._left * step > len(operations) * _XLA_SECONDS_PER_OPERATION * repays:
            yield from self._try(Way(Kind.XLA, steps))
        if self._best is not self.single:
            compiled = ", compiled by XLA" if self.way.kind is Kind.XLA else ""
            times = f"{self._gain:.1f} times as fast as one a call"
            many = "1 step" if self.way.steps == 1 else f"up to {self.way.steps} steps"
            self._emit(Message(f"training runs {many} a call{compiled}: {times}"))
        yield from self._stay()

    def _try(self, way: Way) -> _Trial:
        """Build a way while training goes on, and keep it if it is faster."""
        runner = self._traced(way)
        if runner is None:
            return
        compilation = runner.compile(self._state())
        while compilation.is_alive():
            yield self._best, self.way.steps
        if compilation.error is None:
            yield from self._compare(runner)

    def _traced(self, way: Way) -> Runner | None:
        runner = self._make(way)
        try:
            runner.trace()
        except Exception as error:  # noqa: BLE001 - a step may do what cannot stand in a loop: the way is dropped
            logger.debug("no way %s: %s", way, error)
            return None
        return runner

    def _compare(self, newcomer: Runner) -> _Trial:
        """Run both in turns; keep the faster."""
        yield newcomer, 1
        other = yield self._best, self.way.steps
        for _ in range(_CHANCES):
            one = yield newcomer, 1
            if one < other * _HOPELESS + _CALL_OVERHEAD_SECONDS:
                break
        else:
            logger.debug("%s takes %.1f times as long as %s", newcomer.way, one / other, self.way)
            return
        new, old = [], []
        for _ in range(_TURNS):
            begun = time.perf_counter()
            new.append((yield from self._turn(newcomer, _TURN_SECONDS)))
            # As long, so that both have the same chance of being left alone.
            old.append((yield from self._turn(self._best, time.perf_counter() - begun)))
        # The least of each: what else runs on the machine only ever adds.
        ratio = min(new) / min(old)
        logger.debug("%s takes %.2f of the time of %s", newcomer.way, ratio, self.way)
        if ratio < _BETTER:
            self._best = newcomer
            self._gain /= ratio

    def _turn(self, runner: Runner, seconds: float) -> Generator[tuple[Runner, int], float, float]:
        """Seconds per step over calls that take some seconds together."""
        begun = time.perf_counter()
        calls: list[float] = []
        while not calls or time.perf_counter() - begun < seconds:
            calls.append((yield runner, runner.way.steps))
        return statistics.fmean(calls)
