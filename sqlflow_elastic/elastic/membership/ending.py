"""The end of a job: stored first, then all workers end, then the job is over."""

from __future__ import annotations

from sqlflow_elastic.elastic.membership.deadlines import Alarm
from sqlflow_elastic.elastic.membership.desk import Desk
from sqlflow_elastic.elastic.membership.master_protocol import EndJob, Outcome
from sqlflow_elastic.elastic.membership.messages import End


class Ending:
    """Ends a job once, the way that was asked for first."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._end: EndJob | None = None
        self._killed = False
        self._over = False

    @property
    def begun(self) -> bool:
        """Whether it ends: nothing else is decided any more."""
        return self._end is not None

    def begin(self, end: EndJob, keeper: str | None, now: float) -> None:
        """Tell the workers to end, and kill those that cannot be told.

        Args:
            keeper: who writes a checkpoint first if the job is cancelled; None for nobody.
        """
        if self._end is not None:
            return
        self._end = end
        status = {"outcome": str(end.outcome), "event": end.event, "text": end.text, "worker": end.worker}
        self._desk.persist({"status": status})
        for worker in (*self._desk.workers.values(), *self._desk.servers.values()):
            if worker.connected and not worker.given_up:
                checkpoint = end.outcome is Outcome.CANCELLED and worker.name == keeper
                self._desk.send(worker, End(checkpoint))
            else:
                self._desk.kill(worker, now)
        self._desk.deadlines.set(Alarm.END, "", now + self._desk.spec.end)

    def overdue(self, now: float) -> None:
        """Kill those who have not ended in time; they have the same time again to be seen to end."""
        if self._killed:
            self._desk.workers.clear()
            self._desk.servers.clear()
            return
        self._killed = True
        for worker in (*self._desk.workers.values(), *self._desk.servers.values()):
            self._desk.kill(worker, now)
        self._desk.deadlines.set(Alarm.END, "", now + self._desk.spec.end)

    def settle(self) -> None:
        """The job is over when no process is left."""
        if self._end is not None and not self._desk.workers and not self._desk.servers and not self._over:
            self._over = True
            self._desk.commands.append(self._end)
