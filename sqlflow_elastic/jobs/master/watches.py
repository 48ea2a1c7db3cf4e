"""What a master looks at besides its streams: the processes of its job, and whether somebody wants the job to end."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from sqlflow_elastic.cluster import Cluster, Phase, Role, Status
from sqlflow_elastic.elastic.membership import master_protocol as protocol
from sqlflow_elastic.elastic.state import StoreUnavailable, Watch
from sqlflow_elastic.elastic.state.base import MOST_CHANGES
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.jobs.master.journal import Journal
from sqlflow_elastic.jobs.records import CANCEL
from sqlflow_elastic.jobs.state import JobState

_LOOK_SECONDS = 1.0
_PAUSE_SECONDS = 0.5
_CLOSE_SECONDS = 5.0


#: What takes part in a job, beside its master.
ROLES = (Role.WORKER, Role.SERVER)


class Watches:
    """Two threads that look; what they see goes to the machine.

    Args:
        job: its id.
        cluster, state: what is looked at; a process's status is also noted in the state.
        journal: takes figures.
        put: takes events, in these threads.
    """

    def __init__(self, job: str, cluster: Cluster, state: JobState, journal: Journal, put: Callable[..., None]) -> None:
        self._job = job
        self._cluster = cluster
        self._state = state
        self._journal = journal
        self._put = put
        self._closed = threading.Event()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._asking: Watch | None = None
        self._phases: dict[str, Phase] = {}
        self._servers: set[str] = set()
        self._paused = False
        self._threads = [
            threading.Thread(target=self._processes, name="processes", daemon=True),
            threading.Thread(target=self._cancellation, name="cancellation", daemon=True),
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Look no more; takes a moment, seconds if the store or the cluster does not answer."""
        self._closed.set()
        os.eventfd_write(self._wake, 1)
        if (watch := self._asking) is not None:
            watch.close()
        for thread in self._threads:
            thread.join(_CLOSE_SECONDS)
        os.close(self._wake)

    def _processes(self) -> None:
        try:
            with self._cluster.watch(self._job) as watch:
                while True:
                    select.select([watch.fileno(), self._wake], [], [])
                    if self._closed.is_set():
                        return
                    self._changed([status for status in watch.next(0.0) if status.role in ROLES])
        except JobError as error:
            self._put(protocol.Cancelled(str(error)))

    def _changed(self, statuses: list[Status]) -> None:
        # The machine first, since the store takes its time; and at once, so that it knows together who died together.
        self._put(*map(process_changed, statuses))
        for status in statuses:
            if status.phase is Phase.ENDED and self._phases.get(status.name) is not Phase.ENDED:
                self._journal.timeline.ended(status.name, time.time(), status.exit_code or 0)
            self._phases[status.name] = status.phase
            if status.role is Role.SERVER:
                self._servers.add(status.name)
                if status.phase is Phase.ENDED:
                    self._journal.server_ended(status.name)
        workers = Counter(str(phase) for name, phase in self._phases.items() if name not in self._servers)
        self._journal.workers(workers)
        self._note_pause(workers)
        try:
            for begin in range(0, len(statuses), MOST_CHANGES):
                several = statuses[begin : begin + MOST_CHANGES]
                self._state.write({f"workers/{status.name}": _noted(status) for status in several})
        except StoreUnavailable as error:
            self._journal.warn(f"{error}; SHOW JOB may be behind")

    def _note_pause(self, workers: Mapping[str, int]) -> None:
        """A job none of whose workers runs waits: for room, or for the next one to start."""
        paused = workers["running"] == 0 and workers["ended"] > 0
        if paused != self._paused and not self._closed.is_set():
            self._paused = paused
            with contextlib.suppress(StoreUnavailable):
                self._state.pause(paused)

    def _cancellation(self) -> None:
        asked = False
        while not asked and not self._closed.is_set():
            try:
                with self._state.store.watch(CANCEL) as self._asking:
                    watch = self._asking
                    asked = self._state.read(CANCEL) is not None
                    while not asked and not self._closed.is_set():
                        asked = any(not change.deleted for change in watch.next(_LOOK_SECONDS))
            except (StoreUnavailable, ValueError):  # it is away, or `close` has closed the watch
                self._closed.wait(_PAUSE_SECONDS)
        if asked:
            self._put(protocol.Cancelled("the job was ended by KILL JOB"))


def _noted(status: Status) -> dict[str, Any]:
    """A worker's status for those who look on."""
    return {
        "phase": status.phase,
        "pid": status.pid,
        "since": status.since,
        "exit_code": status.exit_code,
        "preempted": status.preempted,
        "out_of_memory": status.out_of_memory,
    }


def process_changed(status: Status) -> protocol.ProcessChanged:
    """A worker's status in the words of the machine."""
    return protocol.ProcessChanged(
        status.name,
        protocol.Phase(status.phase),
        status.exit_code,
        status.preempted,
        status.failure,
        server=status.role is Role.SERVER,
        out_of_memory=status.out_of_memory,
    )
