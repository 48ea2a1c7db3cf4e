"""What the statements of a session share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlflow_elastic.cluster import Cluster
from sqlflow_elastic.datasource import DataSource
from sqlflow_elastic.events import Event, Message, Progress
from sqlflow_elastic.models.storage import Storage
from sqlflow_elastic.session.background import Background, Emit

_PROGRESS_SECONDS = 0.2


@dataclass(frozen=True)
class Context:
    """A session's parts.

    Attributes:
        source: the database; called through `database` only, but for what does not wait.
        database: where blocking calls run.
        cluster: where jobs run.
        jobs_folder: where their folders are.
        storage: where tables of trained models are that are too large for the database.
        state_store: URL of the store of their states; None for those in their folders.
        cancelled: set when the running program is to stop.
    """

    source: DataSource
    database: Background
    cluster: Cluster
    jobs_folder: Path
    storage: Storage
    cancelled: threading.Event
    state_store: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Outcome:
    """What a statement came to; see `Result`."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


#: A running statement: its events, then its outcome.
Running = Generator[Event, None, Outcome]


def row_progress(emit: Emit, phase: str, total: int | None = None) -> Callable[[int], None]:
    """A function to be called with the number of rows done; it emits a few events a second, and one at the total."""
    last = 0.0

    def on_rows(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= _PROGRESS_SECONDS:
            last = now
            emit(Progress(phase, done, total, unit="rows"))

    return on_rows


def rows_text(count: int) -> str:
    """``1 row``, ``1,000 rows``."""
    return f"{count:,} row" if count == 1 else f"{count:,} rows"


def warning(emit: Emit) -> Callable[[str], None]:
    """A function that tells a warning."""
    return lambda text: emit(Message(text, "warning"))
