"""A job's figures over steps for TensorBoard, written by the master from the events that pass through it.

So there is one writer, whatever workers come and go. A new master begins a new file in the same folder, as TensorBoard
expects. Steps never run back: steps that are done again after a failure have the values they had, so what is there
already is not written again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from sqlflow_elastic.elastic.event_file import EventFile, last_step
from sqlflow_elastic.events import Event, Metrics, Progress, WorldChanged

LOSS = "train/loss"
SPEED = "job/samples_per_second"
WORLD_SIZE = "job/world_size"

_FLUSH_SECONDS = 1.0
_BUFFER_BYTES = 1 << 20
#: Progress is not written more often than each 1,000th of the time that training takes: TensorBoard shows 1,000 points.
_PROGRESS_PART = 1 / 1000


class Summaries:
    """The event file of one master, for one thread. Nothing here raises, and nothing is synced to disk.

    Args:
        folder: made if it is not there. Files that are there are read, for their last step: about a second for 16 MB.
        warn: takes one sentence, once, when something cannot be read or written.
        limit: bytes of a file; what comes later is left out.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None], limit: int = 16 << 20) -> None:
        self._folder = folder
        self._warn = warn
        self._warned = False
        self._limit = limit
        self._opened = self._flushed = time.monotonic()
        self._progress_at = -math.inf
        self._loss_is_logged = False
        self._steps: dict[str, int] = {}
        self._first = 0
        self._file: EventFile | None = None
        try:
            self._first = last_step(folder)
            self._file = EventFile(folder)
        except OSError as error:
            self._tell(error)

    def told(self, event: Event, at: float) -> None:
        """An event goes to the session, at a unix time in seconds."""
        match event:
            case Metrics(split=split, step=step, values=values):
                self._loss_is_logged = self._loss_is_logged or split == "train"
                self._scalars(at, step, {f"{split}/{name}": value for name, value in values.items()})
            case Progress(phase="training"):
                self._progress(event, at)
            case WorldChanged(step=step, members=members) if step >= 0:
                self._scalars(at, step, {WORLD_SIZE: len(members)})

    def flush(self) -> None:
        """Hand what is buffered to the operating system, which happens by itself once a second while events come."""
        self._flushed = time.monotonic()
        if self._file is not None:
            try:
                self._file.flush()
            except OSError as error:
                self._tell(error)

    def close(self) -> None:
        """Write the rest."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _progress(self, event: Progress, at: float) -> None:
        now = time.monotonic()
        last = event.done == event.total
        if not last and now - self._progress_at < (now - self._opened) * _PROGRESS_PART:
            return
        self._progress_at = now
        values = {}
        # With train.log_every_n_steps the losses come as metrics, over as many steps as were asked for.
        if event.loss is not None and not self._loss_is_logged:
            values[LOSS] = event.loss
        if event.samples_per_second is not None:
            values[SPEED] = event.samples_per_second
        self._scalars(at, event.done, values)

    def _scalars(self, at: float, step: int, values: Mapping[str, float]) -> None:
        new = {tag: value for tag, value in values.items() if step >= self._steps.get(tag, self._first)}
        if self._file is None or not new or self._file.size > self._limit:
            return
        self._steps.update(dict.fromkeys(new, step))
        waiting = self._file.scalars(at, step, new)
        if waiting > _BUFFER_BYTES or time.monotonic() - self._flushed >= _FLUSH_SECONDS:
            self.flush()

    def _tell(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"the TensorBoard logs in {self._folder} have gaps: {error.strerror or error}")
