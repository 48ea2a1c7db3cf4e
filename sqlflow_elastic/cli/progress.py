"""How far a job has come, on standard error: a live line in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import abc
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from sqlflow_elastic.events import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_LINE_SECONDS = 5.0
_METRICS = 4  # how many metrics a line shows


class ProgressView(abc.ABC):
    """Shows Progress events of one statement after the other."""

    def __init__(self) -> None:
        self._metrics: Mapping[str, float] = {}

    def measured(self, metrics: Mapping[str, float]) -> None:
        """Take the latest metrics, to be shown with the next progress; none at the beginning of a statement."""
        self._metrics = metrics

    @abc.abstractmethod
    def show(self, progress: Progress) -> None:
        """Show where the job is."""

    def end(self) -> None:  # noqa: B027 most views have nothing to take away
        """The statement is done, or something else is to be written."""

    def _figures(self, progress: Progress) -> str:
        """``epoch 3/10, loss 0.1234, validation loss 0.2345, accuracy 0.97, 12,345 samples/s``."""
        figures = []
        if progress.epoch is not None:
            figures.append(f"epoch {progress.epoch}" + (f"/{progress.epochs}" if progress.epochs else ""))
        if progress.loss is not None:
            figures.append(f"loss {progress.loss:.4g}")
        if progress.phase == "training" and self._metrics:
            metrics = [f"{name} {value:.4g}" for name, value in self._metrics.items()]
            figures.append(f"validation {', '.join(metrics[:_METRICS])}")
        if progress.samples_per_second is not None:
            figures.append(f"{progress.samples_per_second:,.0f} samples/s")
        return ", ".join(figures)


class TerminalProgress(ProgressView):
    """One line at the bottom, redrawn, gone at the end."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def show(self, progress: Progress) -> None:
        """See `ProgressView.show`."""
        if self._bar is None:
            self._bar = self._new_bar()
            self._task = self._bar.add_task("", total=None, done="", figures="", eta="")
            self._bar.start()
        assert self._task is not None  # noqa: S101 set with the bar
        done = ""
        if progress.done and progress.epoch is None:
            done = f"{progress.done:,}" + (f"/{progress.total:,}" if progress.total else "") + f" {progress.unit}"
        eta = "" if progress.eta_seconds is None else f"ETA {_duration(progress.eta_seconds)}"
        self._bar.update(
            self._task,
            description=progress.phase,
            completed=progress.done,
            total=progress.total,
            done=done,
            figures=self._figures(progress),
            eta=eta,
        )

    def end(self) -> None:
        """See `ProgressView.end`."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _new_bar(self) -> Bar:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        return Bar(
            TextColumn("{task.description}"),
            BarColumn(20),
            TextColumn("{task.fields[done]}"),
            TextColumn("{task.fields[figures]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            TextColumn("{task.fields[eta]}"),
            console=Console(file=self._out),
            transient=True,
            refresh_per_second=5,
        )


class LineProgress(ProgressView):
    """A line at the end of training, and every few seconds before that."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out
        self._last = time.monotonic()

    def show(self, progress: Progress) -> None:
        """See `ProgressView.show`."""
        now = time.monotonic()
        trained = progress.phase == "training" and progress.done == progress.total
        if not trained and (progress.done == 0 or now - self._last < _LINE_SECONDS):
            return
        self._last = now
        line = f"{progress.phase}: {progress.done:,}" + (f" of {progress.total:,}" if progress.total else "")
        figures = self._figures(progress)
        eta = "" if not progress.eta_seconds else f", {_duration(progress.eta_seconds)} left"
        self._out.write(f"{line} {progress.unit}{figures and ', '}{figures}{eta}\n")
        self._out.flush()


class NoProgress(ProgressView):
    """Shows nothing."""

    def show(self, progress: Progress) -> None:
        """See `ProgressView.show`."""


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
