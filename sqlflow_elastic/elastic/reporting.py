"""What the session hears while training runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlflow_elastic.elastic.position import Extent
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.ways import Losses
from sqlflow_elastic.events import Event, Metrics, Progress

_SECONDS = 0.25


class Reporter:
    """Emits `Progress` at the first step, then at most four times a second, and at the end.

    Args:
        emit: takes the events.
        settings: whether and what to report.
        extent: how long training is.
        step: where this run begins.
    """

    def __init__(self, emit: Callable[[Event], None], settings: TrainSettings, extent: Extent, step: int) -> None:
        self._emit = emit
        self._settings = settings
        self._extent = extent
        self._step = step
        self._reported_step = step
        self._reported_at: float | None = None
        self._losses: list[float] = []
        self._logged: list[float] = []

    def steps_done(self, losses: Losses) -> None:
        """Tell the losses of the steps just done."""
        for loss in losses.tolist():
            self._step += 1
            self._losses.append(loss)
            self._log(loss)
        if self._reported_at is None or time.monotonic() - self._reported_at >= _SECONDS:
            self._report()

    def end(self) -> None:
        """Report the last step."""
        self._report()

    def _log(self, loss: float) -> None:
        every = self._settings.log_every_n_steps
        if every is None:
            return
        self._logged.append(loss)
        if self._step % every == 0:
            mean = sum(self._logged) / len(self._logged)
            self._logged = []
            self._emit(Metrics("train", self._step, self._epoch(), {"loss": mean}))

    def _epoch(self) -> int:
        return max(1, -(-self._step // self._extent.steps_per_epoch))

    def _report(self) -> None:
        now = time.monotonic()
        speed = eta = None
        if self._reported_at is not None and self._step > self._reported_step:
            done = self._extent.samples(self._step)
            speed = (done - self._extent.samples(self._reported_step)) / (now - self._reported_at)
            eta = (self._extent.samples(self._extent.steps) - done) / speed
        if self._settings.verbose:
            self._emit(
                Progress(
                    "training",
                    self._step,
                    self._extent.steps,
                    epoch=self._epoch(),
                    epochs=self._extent.epochs,
                    loss=sum(self._losses) / len(self._losses) if self._losses else None,
                    samples_per_second=speed,
                    eta_seconds=eta,
                )
            )
        self._losses = []
        self._reported_at, self._reported_step = now, self._step
