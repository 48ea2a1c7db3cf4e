"""Where a job's events go: to its session, into its folder, to those who look on. None of it holds the master up."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial

from sqlflow_elastic import events
from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.membership.messages import ServerState
from sqlflow_elastic.elastic.summaries import Summaries
from sqlflow_elastic.elastic.timeline import Timeline
from sqlflow_elastic.errors import StoreUnavailable
from sqlflow_elastic.jobs.exposition import Exposition, Figures
from sqlflow_elastic.jobs.master.backlog import Backlog, Waiting
from sqlflow_elastic.jobs.pipe import SessionPipe
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.jobs.state import JobState

_PROGRESS_SECONDS = 1.0
_CLOSE_SECONDS = 5.0


class Journal:
    """Takes events in any thread, and writes them in threads of its own: one for the session, one for all else.

    Args:
        folder: the job's.
        request: the job's.
        state: takes ``progress``, ``servers`` and ``metrics``.
        descriptor: takes the session's lines; None without a session.
        session_gone: called once, in such a thread, when nobody reads them any more.
    """

    def __init__(
        self,
        folder: JobFolder,
        request: JobRequest,
        state: JobState,
        descriptor: int | None,
        session_gone: Callable[[], None],
    ) -> None:
        self._folder = folder
        self._request = request
        self._state = state
        self._session = None if descriptor is None else SessionPipe(descriptor, folder, session_gone)
        self._backlog = Backlog()
        self._file = folder.events.open("a", encoding="utf-8")
        self.timeline = Timeline(folder.timeline, self.warn)
        self._summaries = Summaries(folder.tensorboard, self.warn)
        self._figures = Figures()
        self._lock = threading.Lock()
        self._exposition = Exposition(folder.path.name, request.title)
        self._progress_at = 0.0
        self._ended: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()
        try:
            state.write({"metrics": self._exposition.start()})
        except (OSError, StoreUnavailable) as error:
            self.warn(f"the job's figures are not served for Prometheus: {error}")

    def tell(self, event: events.Event) -> None:
        """Take an event."""
        self._take(Waiting(event, events.to_json(event), time.time()))

    def tell_line(self, line: str) -> None:
        """Take an event as a line of JSON, as it goes on from here. Raises: ValueError: it is none."""
        self._take(Waiting(events.from_json(line), line, time.time()))

    def _take(self, waiting: Waiting) -> None:
        self._backlog.put(waiting)
        if self._session is not None:
            self._session.put(waiting)

    def beat(self) -> None:
        """The master lives: its session is to hear it."""
        if self._session is not None:
            self._session.beat()

    def tasks(self, queue: str, done: int, total: int) -> None:
        """So many tasks of a queue are done; where there are many, that is the job's progress, unless it trains."""
        counts = {(queue, "done"): done, (queue, "open"): total - done}
        self._serve(lambda figures: replace(figures, tasks={**figures.tasks, **counts}))
        if total > 1 and self._request.kind is not JobKind.TRAIN:  # which tells its steps
            self.tell(events.Progress(queue, done, total, unit="parts"))

    def workers(self, phases: Mapping[str, int]) -> None:
        """So many worker processes are in each phase."""
        self._serve(lambda figures: replace(figures, workers=phases))
        self.timeline.slots(self._request.slots * phases.get("running", 0), time.time())

    def server(self, name: str, state: ServerState) -> None:
        """How a server of tables is."""
        if name not in self._ended:  # what it said last may come after its end
            self._serve(lambda figures: replace(figures, servers={**figures.servers, name: state}))

    def server_ended(self, name: str) -> None:
        """A server of tables has ended; none that comes has its name."""
        self._ended.add(name)
        self._serve(
            lambda figures: replace(
                figures, servers={other: state for other, state in figures.servers.items() if other != name}
            )
        )

    def _serve(self, change: Callable[[Figures], Figures]) -> None:
        with self._lock:
            self._figures = change(self._figures)
            self._exposition.update(self._figures)

    def close(self) -> None:
        """Write what waits: for seconds at most, however little the session reads."""
        self._backlog.close()
        self._thread.join(_CLOSE_SECONDS)
        if self._session is not None:
            self._session.close()
        self._exposition.close()

    def warn(self, text: str) -> None:
        """Take a warning."""
        self.tell(events.Message(text, "warning"))

    def _run(self) -> None:
        while (waiting := self._backlog.take()) is not None:
            event, line, at = waiting
            if not waiting.spare:  # of those there is no end; TensorBoard's logs have them
                self._keep(line, at)
            self.timeline.told(event, at)
            self._summaries.told(event, at)
            match event:
                case events.Progress():
                    self._note_progress(event, at)
                case events.WorldChanged():
                    self._serve(partial(Figures.changed, event=event))
        self._file.close()
        self.timeline.close()
        self._summaries.close()

    def _keep(self, line: str, at: float) -> None:
        try:
            self._file.write(json.dumps({**json.loads(line), "at": round(at, 3)}) + "\n")
            self._file.flush()
        except OSError as error:
            sys.stderr.write(f"{self._folder.events} cannot be written: {error}\n")

    def _note_progress(self, event: events.Progress, at: float) -> None:
        if event.phase == "training":
            self._serve(
                lambda figures: replace(
                    figures,
                    step=event.done,
                    samples_per_second=event.samples_per_second,
                    loss=figures.loss if event.loss is None else event.loss,
                )
            )
        if at - self._progress_at < _PROGRESS_SECONDS and event.done != event.total:
            return
        self._progress_at = at
        progress = {
            "phase": event.phase,
            "step": event.done,
            "steps": event.total,
            "epoch": event.epoch,
            "epochs": event.epochs,
            "loss": event.loss,
            "samples_per_second": event.samples_per_second,
            "eta": event.eta_seconds,
        }
        servers = {name: asdict(state) for name, state in self._figures.servers.items()}
        try:
            self._state.write({"progress": progress, "servers": servers})
        except StoreUnavailable as error:
            sys.stderr.write(f"the job's progress cannot be stored: {error}\n")
