"""A job's timeline: what its processes did when, collected in the workers, written by the master.

The file is a `TraceFile`, for Perfetto and chrome://tracing: a group of tracks for each worker (what it works on, the
worlds it runs in, its steps), one for the master (world changes, warnings) and one for the job's figures.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from sqlflow_elastic.elastic.membership.messages import (
    Broken,
    Finished,
    FromMaster,
    FromWorker,
    Hello,
    Left,
    Prepare,
    Prepared,
    Progress,
    Release,
    Running,
    Standing,
)
from sqlflow_elastic.elastic.trace_file import Argument, TraceFile
from sqlflow_elastic.events import Event, Failed, Message, WorldChanged

#: Track, name, begin (unix time in seconds), seconds, arguments; in JSON a list.
Span: TypeAlias = tuple[str, str, float, float, dict[str, Argument]]

_MASTER = "master"
_WORLD = "world"
_STEPS_SECONDS = 0.25
_STEPS_PART = 1 / 500
_MOST_SPANS = 1000
_MOST_TEXT = 500


class Timeline:
    """The file, as the master writes it: each method takes what the master sees anyway. None blocks, none raises.

    Args:
        path: the file. A file that is there is gone on with.
        warn: takes one sentence, once, when something is wrong with the file.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self.trace = TraceFile(path, warn)
        self._places: dict[str, Prepare] = {}

    def sent(self, worker: str, message: FromMaster, at: float) -> None:
        """A message goes to a worker."""
        if isinstance(message, Prepare):
            self._places[worker] = message
        elif isinstance(message, Release):
            self.trace.instant(worker, "released", at, why=message.reason[:_MOST_TEXT])

    def received(self, worker: str, message: FromWorker, at: float) -> None:
        """A message came from a worker."""
        match message:
            case Progress():
                self._measured(message, at)
            case Running(version=version, step=step) | Hello(standing=Standing.RUNNING, version=version, step=step):
                self._runs(worker, version, step, at)
            case Prepared() | Left() | Finished():
                self.trace.leave(worker, _WORLD, at, step=message.step)
            case Broken():
                self.trace.leave(worker, _WORLD, at, step=message.step, broken=message.reason[:_MOST_TEXT])

    def spans(self, worker: str, text: str) -> None:
        """A worker's drained `Spans`, as JSON; what is not of their form is left out."""
        with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
            for track, name, begin, seconds, args in json.loads(text):
                plain: dict[str, Any] = {
                    f"{key}": value if isinstance(value, int | float) else f"{value}"[:_MOST_TEXT]
                    for key, value in args.items()
                }
                self.trace.span(worker, f"{track}", f"{name}", float(begin), float(seconds), **plain)

    def told(self, event: Event, at: float) -> None:
        """An event goes to the session."""
        match event:
            case WorldChanged():
                self._changed(event, at)
            case Message(level="warning", text=text):
                self.trace.instant(_MASTER, "warning", at, text=text[:_MOST_TEXT])
            case Failed(error=error):
                self.trace.instant(_MASTER, "failed", at, error=str(error)[:_MOST_TEXT])

    def ended(self, worker: str, at: float, exit_code: int) -> None:
        """A worker's process has ended."""
        self._places.pop(worker, None)
        self.trace.leave_all(worker, at)
        self.trace.instant(worker, "ended", at, exit_code=exit_code)

    def slots(self, used: int, at: float) -> None:
        """So many slots are taken by the job's workers from now on."""
        self.trace.level("slots", at, used)

    def flush(self) -> None:
        """Write what is buffered, as happens every second while something comes."""
        self.trace.flush()

    def close(self) -> None:
        """Write the rest."""
        self.trace.close()

    def _measured(self, progress: Progress, at: float) -> None:
        if progress.samples_per_second > 0:
            self.trace.counter("samples/s", at, progress.samples_per_second)

    def _runs(self, worker: str, version: int, step: int, at: float) -> None:
        place = self._places.get(worker)
        known = {"rank": place.rank, "size": place.size} if place is not None and place.version == version else {}
        self.trace.enter(worker, _WORLD, f"world {version}", at, step=step, **known)

    def _changed(self, event: WorldChanged, at: float) -> None:
        self.trace.span(
            _MASTER,
            "world changes",
            f"world {event.version}: {event.why}",
            at - event.seconds,
            event.seconds,
            True,
            why=event.why[:_MOST_TEXT],
            step=event.step,
            seconds=event.seconds,
            members=" ".join(event.members)[:_MOST_TEXT],
            joined=" ".join(event.joined)[:_MOST_TEXT],
            left=" ".join(event.left)[:_MOST_TEXT],
        )
        self.trace.level("world size", at, len(event.members))


class Spans:
    """Threads record, one drains. A call costs a few microseconds; the newest 1,000 spans are kept while nobody drains.

    Steps are one span for 0.25 s or, in a long life, for a 500th of the time the collector is there: a day of training
    is some 4,000 spans.
    """

    def __init__(self) -> None:
        # Clocks that are set must not make spans overlap.
        self._unix = time.time() - time.monotonic()
        self._created = time.monotonic()
        self._done: deque[Span] = deque(maxlen=_MOST_SPANS)
        self._lock = threading.Lock()
        self._mark: tuple[float, int] | None = None

    @contextlib.contextmanager
    def span(self, track: str, name: str, **args: Argument) -> Iterator[None]:
        """Record how long the block takes, also if it raises. Spans of one track must not overlap."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.add(track, name, begun, time.monotonic() - begun, **args)

    def add(self, track: str, name: str, begun: float, seconds: float, **args: Argument) -> None:
        """Record what took ``seconds`` from ``begun`` on, by `time.monotonic`."""
        self._done.append((track, name, self._unix + begun, seconds, args))

    def progress(self, step: int, samples_per_second: float = 0.0) -> None:
        """Steps are being taken, and so many are done: to be called when they begin, then at any times."""
        now = time.monotonic()
        with self._lock:
            if self._mark is None:
                self._mark = (now, step)
            elif now - self._mark[0] >= max(_STEPS_SECONDS, (now - self._created) * _STEPS_PART):
                self._steps(now, step, samples_per_second)

    def pause(self, step: int, samples_per_second: float = 0.0) -> None:
        """So many steps are done, and no more are taken until `progress` is called again."""
        with self._lock:
            self._steps(time.monotonic(), step, samples_per_second)
            self._mark = None

    def drain(self) -> list[Span]:
        """Take out what is recorded, oldest first."""
        drained: list[Span] = []
        with contextlib.suppress(IndexError):
            while len(drained) < _MOST_SPANS:
                drained.append(self._done.popleft())
        return drained

    def _steps(self, now: float, step: int, samples_per_second: float) -> None:
        if self._mark is None or step <= self._mark[1]:
            return
        (begun, before), self._mark = self._mark, (now, step)
        speed = {"samples_per_second": round(samples_per_second, 1)} if samples_per_second else {}
        self.add("steps", f"{step - before} steps", begun, now - begun, last=step, **speed)
