"""How many processes there are: started, replaced, released."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from sqlflow_elastic.elastic.membership.deadlines import Alarm
from sqlflow_elastic.elastic.membership.desk import Desk, Worker
from sqlflow_elastic.elastic.membership.master_protocol import EndWorker, Phase, ProcessChanged, StartWorker
from sqlflow_elastic.elastic.membership.messages import Release, Standing
from sqlflow_elastic.elastic.membership.restarts import Restarts
from sqlflow_elastic.elastic.membership.sizing import Sizing

#: The worker that a job begins with.
FIRST_WORKER = "worker-0"


class Staff:
    """Sees to it that there are as many workers as the job takes.

    Attributes:
        restarts: told by others of what was achieved.
    """

    def __init__(self, desk: Desk, sizing: Sizing, stored: Mapping[str, Any]) -> None:
        self._desk = desk
        self._sizing = sizing
        self._named = int(stored.get("names", 0))
        self.restarts = Restarts(desk.spec.backoff, desk.spec.longest_backoff)

    def renew_the_first(self) -> None:
        """The worker that began alone has threads for all cores; one that takes its share of them replaces it."""
        first = self._desk.workers.get(FIRST_WORKER)
        if self._sizing.grown and first is not None and not first.leaving:
            self._desk.inform(f"{FIRST_WORKER}, which uses all cores, makes room for one that takes its share")
            self._desk.commands.append(EndWorker(FIRST_WORKER, kill=False))

    def settle(self, members: Mapping[str, int], now: float) -> None:
        """Start workers that lack, release those too many, but for ``members``: a world change lets go of them."""
        counted = [worker for worker in self._desk.workers.values() if worker.counts]
        lack = self._sizing.target - len(counted)
        if lack > 0 and now < self.restarts.until:
            self._desk.deadlines.set(Alarm.RESTART, "", self.restarts.until)
        elif lack > 0:
            self._start(lack)
        elif lack < 0:
            # Those furthest from taking part go first.
            spare = [worker for worker in reversed(counted) if worker.name not in members]
            spare.sort(key=_use)
            for worker in spare[:-lack]:
                self._release(worker, now)

    def _start(self, number: int) -> None:
        names = [f"worker-{index}" for index in range(self._named, self._named + number)]
        self._named += number
        # Stored first: whatever happens next, no name is used twice.
        self._desk.persist({"names": self._named})
        for name in names:
            self._desk.workers[name] = Worker(name, self.restarts.generation)
            self._desk.commands.append(StartWorker(name))

    def _release(self, worker: Worker, now: float) -> None:
        self._desk.release(worker, Release(self._sizing.reason), now)
        if not worker.connected:
            self._desk.commands.append(EndWorker(worker.name, kill=False))

    def killed(self, worker: Worker, how: str, now: float) -> str | None:
        """A worker died that was not asked to. Returns: why the job makes no sense any more; None if it does."""
        self.restarts.died(worker.generation, now)
        self._desk.staffing = True
        row = self.restarts.row
        if row < self._desk.spec.deaths:
            return None
        hint = " (not enough memory?)" if how == "SIGKILL" else ""
        return f"worker processes were ended by {how} {row} times without a step between{hint}"


def cause(event: ProcessChanged) -> str:
    """What ended a process, in a word: the name of a signal, "exit code 3", or its limit."""
    if event.out_of_memory:
        return "their memory's limit"
    code = event.exit_code
    if code is None or code >= 0:
        return f"exit code {code or 0}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def failed_by_itself(event: ProcessChanged) -> bool:
    """Whether a process ended by its program's own fault."""
    return event.exit_code is not None and event.exit_code > 0


def in_words(event: ProcessChanged) -> str:
    """The end of a process, in words."""
    if event.out_of_memory:
        return f"{event.name} took more memory than it may"
    return f"{event.name} left" if event.exit_code == 0 else f"{event.name} was ended by {cause(event)}"


def _use(worker: Worker) -> int:
    if worker.phase is not Phase.RUNNING:
        return 0
    return 2 if worker.standing is Standing.READY else 1
