"""What a job's master does about what its workers say and what happens to them.

The parts: `Worlds` decides who trains together, `Staff` how many processes there are, `Sizing` how many there should
be, `Dealing` who does work that is not a step, `Ending` how all ends. This one takes the events in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlflow_elastic.elastic.membership import messages
from sqlflow_elastic.elastic.membership.deadlines import Alarm
from sqlflow_elastic.elastic.membership.dealing import Dealing
from sqlflow_elastic.elastic.membership.desk import Desk, Worker
from sqlflow_elastic.elastic.membership.ending import Ending
from sqlflow_elastic.elastic.membership.master_protocol import (
    Cancelled,
    CountTasks,
    Disconnected,
    EndJob,
    EndWorker,
    MasterCommand,
    MasterEvent,
    Outcome,
    Persist,
    Phase,
    ProcessChanged,
    Received,
    Send,
    StartServer,
    StartWorker,
    Tell,
    Tick,
)
from sqlflow_elastic.elastic.membership.messages import Standing
from sqlflow_elastic.elastic.membership.servers import Servers
from sqlflow_elastic.elastic.membership.sizing import Sizing
from sqlflow_elastic.elastic.membership.spec import JobSpec
from sqlflow_elastic.elastic.membership.staff import Staff, cause, failed_by_itself, in_words
from sqlflow_elastic.elastic.membership.tasks import TotalChangedError
from sqlflow_elastic.elastic.membership.worlds import Worlds

__all__ = [
    "Cancelled",
    "CountTasks",
    "Disconnected",
    "EndJob",
    "EndWorker",
    "MasterCommand",
    "MasterEvent",
    "MasterMachine",
    "Outcome",
    "Persist",
    "Phase",
    "ProcessChanged",
    "Received",
    "Send",
    "StartServer",
    "StartWorker",
    "Tell",
    "Tick",
]


class MasterMachine:
    """A master, as a function of what happened. The first event is a `Tick`.

    Args:
        spec: of the job.
        now: seconds of a clock that never goes back; the same for `handle`.
    """

    def __init__(self, spec: JobSpec, now: float) -> None:
        self._begin(spec, {}, (), now)

    @classmethod
    def adopt(
        cls, spec: JobSpec, stored: Mapping[str, Any], processes: Iterable[ProcessChanged], now: float
    ) -> MasterMachine:
        """The next master of a job.

        Args:
            stored: what masters of the job have persisted, by key.
            processes: all of the job's processes that the cluster knows, listed after the master before has died.
        """
        machine = cls.__new__(cls)
        machine._begin(spec, stored, processes, now)
        return machine

    def _begin(self, spec: JobSpec, stored: Mapping[str, Any], processes: Iterable[ProcessChanged], now: float) -> None:
        self._spec = spec
        self._desk = Desk(spec)
        self._sizing = Sizing(spec, stored.get("sizing"))
        self._servers = Servers(self._desk, stored)
        self._desk.plan = str(stored.get("plan", ""))
        self._worlds = Worlds(self._desk, self._sizing, self._servers, stored)
        self._staff = Staff(self._desk, self._sizing, stored)
        self._dealing = Dealing(self._desk, self._staff.restarts, stored)
        self._ending = Ending(self._desk)
        self._new = not stored
        self._stored_end = stored.get("status")
        self._ends: list[ProcessChanged] = []
        for process in processes:
            if process.phase is Phase.ENDED:
                self._ends.append(process)
            else:
                self._add(process, now)
        self._adopting, self._waited = True, False
        self._desk.deadlines.set(Alarm.BEGIN, "", now)
        self._desk.deadlines.set(Alarm.ADOPT, "", now + spec.adopt)

    def _add(self, process: ProcessChanged, now: float) -> Worker:
        if process.server:
            worker = self._servers.add(process)
        else:
            worker = Worker(process.name, self._staff.restarts.generation, process.phase)
            self._desk.workers[worker.name] = worker
        self._desk.staffing = True
        if process.phase is Phase.RUNNING:
            self._desk.deadlines.set(Alarm.HELLO, worker.name, now + self._spec.hello)
        return worker

    @property
    def next_wake(self) -> float:
        """When the next `Tick` is due, in the time of `handle`; infinity for never."""
        return self._desk.deadlines.next

    def handle(self, event: MasterEvent, now: float) -> list[MasterCommand]:
        """What is to be done about an event, in order."""
        desk = self._desk
        desk.commands = []
        match event:
            case Received(name, message):
                self._received(name, message, now)
            case Disconnected(name):
                self._disconnected(name, now)
            case ProcessChanged():
                self._process_changed(event, now)
            case Cancelled(reason):
                self._finish(EndJob(Outcome.CANCELLED, text=reason), now)
            case Tick():
                pass
        while (alarm := desk.deadlines.pop(now)) is not None:
            self._ring(*alarm, now)
        self._follow(now)
        return desk.commands

    def _follow(self, now: float) -> None:
        """Draw the consequences, until there are none."""
        desk = self._desk
        while True:
            while desk.lost:
                self._lost(*desk.lost.pop(0), now)
            if self._ending.begun:
                self._ending.settle()
                return
            if self._adopting:
                every = (*desk.workers.values(), *desk.servers.values())
                unheard = any(worker.phase is Phase.RUNNING and not worker.met for worker in every)
                if unheard and not self._waited:
                    return
                self._adopted()
            self._worlds.settle(now)
            gathers = desk.deadlines.has(Alarm.GATHER)
            if desk.staffing and not gathers:  # those who live come first: to start others takes its time
                desk.staffing = False
                # While somebody has trained to the end, nobody else is needed.
                if not self._worlds.finished:
                    attempt = self._worlds.attempt
                    self._servers.settle(attempt.servers if attempt is not None else (), now)
                    self._staff.settle(attempt.ranks if attempt is not None else {}, now)
            self._dealing.settle()
            if not desk.lost and not (desk.staffing and not gathers):
                return

    def _lost(self, worker: Worker, why: str, now: float) -> None:
        if worker is self._desk.servers.get(worker.name):
            self._servers.lost(worker)
            self._worlds.server_lost(worker.name, why)
            return
        if not self._ending.begun:
            self._dealing.lost(worker, why)
        self._worlds.lost(worker, why)
        if worker.given_up and not worker.leaving:
            self._count_death(worker, "their master, which lost them,", now)

    def _ring(self, alarm: Alarm, name: str, now: float) -> None:
        """An alarm's time has come."""
        worker = self._process(name)
        match alarm:
            case Alarm.BEGIN:
                self._first(now)
            case Alarm.CHANGE:
                self._worlds.overdue(now)
            case Alarm.GATHER:
                self._worlds.gathered()
            case Alarm.SHARES:
                self._worlds.look_at_shares(now)
            case Alarm.RESTART:
                self._desk.staffing = True
            case Alarm.ADOPT:
                self._waits_no_longer(now)
            case Alarm.END:
                self._ending.overdue(now)
            case _ if worker is not None:
                self._ring_for(alarm, worker, now)

    def _ring_for(self, alarm: Alarm, worker: Worker, now: float) -> None:
        match alarm:
            case Alarm.KILL:
                self._desk.kill(worker, now)
            case Alarm.LEAVE:
                self._desk.give_up(worker, f"{worker.name} did not leave in time", now)
            case Alarm.HELLO:
                self._desk.give_up(worker, f"{worker.name} said nothing since it was started", now)
            case Alarm.RECONNECT:
                self._desk.give_up(worker, f"{worker.name} is out of touch", now)
            case Alarm.SILENCE:
                silence = self._desk.silence(worker)
                if now < worker.heard + silence:
                    self._desk.deadlines.set(Alarm.SILENCE, worker.name, worker.heard + silence)
                elif worker.connected and not worker.left:
                    self._desk.give_up(worker, f"{worker.name} was silent for {silence:.3g} s", now)

    # Beginning.

    def _first(self, now: float) -> None:
        if self._stored_end is not None:
            stored = dict(self._stored_end)
            self._finish(EndJob(Outcome(stored.pop("outcome")), **stored), now)
            return
        for process in self._ends:
            if process.name in self._worlds.stored and failed_by_itself(process):
                self._worker_failed(process, now)
                return
        most = self._spec.most
        if self._new and most < self._spec.workers:
            rows, busy = ("1 row", "1 worker") if most == 1 else (f"{most} rows", f"{most} workers")
            text = f"a batch of {rows} keeps at most {busy} busy; {self._spec.workers} were asked for"
            self._desk.inform(text, level="warning")
        if not self._new:
            self._desk.inform("a new master took over")
            self._dealing.count()

    def _waits_no_longer(self, now: float) -> None:
        """Members of the stored world have had their time to come; others may still be about to begin."""
        self._waited = True
        stored = self._worlds.stored | self._servers.holders
        for worker in (*self._desk.workers.values(), *self._desk.servers.values()):
            if worker.name in stored and not worker.met:
                self._desk.give_up(worker, f"{worker.name} did not answer the new master", now)

    def _adopted(self) -> None:
        self._adopting = False
        self._desk.deadlines.clear(Alarm.ADOPT)
        self._dealing.open = True
        self._servers.adopted()
        self._worlds.adopted({process.name: in_words(process) for process in self._ends})
        self._ends.clear()

    # Workers.

    def _received(self, name: str, message: messages.FromWorker, now: float) -> None:
        worker = self._process(name)
        if worker is None or worker.given_up:
            if isinstance(message, messages.Hello):
                self._turn_away(name, worker, now)
            return
        worker.heard = now
        if name in self._desk.servers:
            self._hear_server(worker, message, now)
            return
        if isinstance(message, messages.Progress):
            self._progress(worker, message, now)
            return
        try:
            self._hear(worker, message, now)
        except TotalChangedError as error:
            self._finish(EndJob(Outcome.FAILED, text=str(error), worker=name), now)

    def _hear(self, worker: Worker, message: messages.FromWorker, now: float) -> None:
        match message:
            case messages.Hello():
                self._greet(worker, message, now)
            case messages.Ready(step):
                worker.standing, worker.step = Standing.READY, step
                self._desk.deadlines.set(Alarm.SILENCE, worker.name, now + self._spec.silence)
                self._worlds.ready(worker)
            case messages.Prepared(version, step):
                worker.standing, worker.step = Standing.PREPARED, step
                self._worlds.prepared(worker, version, step, now)
            case messages.Running(version, step, seconds):
                worker.standing, worker.step = Standing.RUNNING, step
                self._worlds.running(worker, version, step, seconds, now)
            case messages.Broken():
                worker.standing, worker.step = Standing.STOPPED, message.step
                self._worlds.broken(worker, message, now)
            case messages.Leaving():
                self._desk.leaves(worker, now)
                self._worlds.leaving(worker, now)
            case messages.Left():
                worker.left = True
                self._desk.leaves(worker, now)
                self._desk.lost.append((worker, f"{worker.name} left"))
            case messages.Finished(step):
                worker.standing, worker.step = Standing.FINISHED, step
                self._worlds.finished.add(worker.name)
            case messages.TaskWanted(queue, total):
                self._dealing.wanted(worker, messages.Wish(queue, total))
            case messages.TaskDone(queue, index):
                self._dealing.done(worker, queue, index)
                self._servers.restarts.achieved()
                if not worker.repeats and self._dealing.has_many(queue):
                    worker.repeats = True
                    self._desk.deadlines.set(Alarm.SILENCE, worker.name, now + self._desk.silence(worker))
            case messages.Completed():
                self._finish(EndJob(Outcome.SUCCEEDED), now)
            case messages.Failed(event):
                self._finish(EndJob(Outcome.FAILED, event=event, worker=worker.name), now)
            case messages.Told(event):
                self._desk.commands.append(Tell(event))
            case messages.Needs() if self._servers.known:
                self._worlds.better(worker, message)
            case messages.Needs():
                self._servers.needs(message)

    def _hear_server(self, server: Worker, message: messages.FromWorker, now: float) -> None:
        if self._ending.begun and isinstance(message, messages.Hello):
            server.met = server.connected = True
            self._desk.send(server, messages.End())
            return
        self._servers.heard(server, message, now)
        if not isinstance(message, messages.Progress | messages.ServerState):
            self._desk.staffing = True

    def _process(self, name: str) -> Worker | None:
        return self._desk.workers.get(name) or self._desk.servers.get(name)

    def _progress(self, worker: Worker, message: messages.Progress, now: float) -> None:
        attempt = self._worlds.attempt
        if attempt is None or message.version != attempt.version or not attempt.settled:
            return
        if message.step > worker.step:
            worker.step = message.step
            self._staff.restarts.achieved()
            self._servers.restarts.achieved()
        self._worlds.observe(worker, message.sample_seconds, now)
        if attempt.ranks.get(worker.name) == 0 and not self._worlds.finished:
            decided = self._sizing.measured(len(attempt.members), message)
            if decided is not None:
                self._desk.persist({"sizing": self._sizing.to_json()})
                self._desk.inform(decided)
                self._desk.staffing = True
                self._staff.renew_the_first()

    def _turn_away(self, name: str, worker: Worker | None, now: float) -> None:
        """A worker that is not, or no more, one of the job's."""
        self._desk.commands.append(Send(name, messages.End()))
        if worker is not None:
            self._desk.kill(worker, now)

    def _greet(self, worker: Worker, hello: messages.Hello, now: float) -> None:
        worker.met = worker.connected = True
        worker.address, worker.standing = hello.address, hello.standing
        worker.version, worker.step = hello.version, hello.step
        deadlines = self._desk.deadlines
        deadlines.clear(Alarm.HELLO, worker.name)
        deadlines.clear(Alarm.RECONNECT, worker.name)
        deadlines.set(Alarm.SILENCE, worker.name, now + self._desk.silence(worker))
        self._desk.send(worker, messages.Welcome(self._spec.heartbeat_of_all))
        if self._ending.begun:
            self._desk.send(worker, messages.End())
            return
        if hello.needs is not None and not self._servers.known:
            self._servers.needs(hello.needs)
        self._servers.greeted(worker)
        self._dealing.greeted(worker, hello)
        if worker.release is not None:
            self._desk.send(worker, worker.release)
            return
        if hello.leaving:
            self._desk.leaves(worker, now)
            self._worlds.leaving(worker, now)
        self._worlds.greeted(worker, hello, now)

    def _disconnected(self, name: str, now: float) -> None:
        worker = self._process(name)
        if worker is None or not worker.connected:
            return
        worker.connected = False
        if worker.given_up or (worker.leaving and name in self._desk.workers):
            return
        self._desk.deadlines.set(Alarm.RECONNECT, name, now + self._desk.reconnect(worker))
        if name in self._desk.workers:
            self._worlds.disconnected(worker, now)

    def _process_changed(self, event: ProcessChanged, now: float) -> None:
        worker = self._process(event.name)
        if worker is None:
            if event.phase is not Phase.ENDED:
                # Started by the master before, as its last act.
                self._desk.commands.append(EndWorker(event.name, kill=True))
        elif event.phase is Phase.ENDED:
            self._ended(worker, event, now)
        elif event.phase is Phase.RUNNING and worker.phase is Phase.PENDING:
            worker.phase = Phase.RUNNING
            if not worker.met and not worker.given_up:
                self._desk.deadlines.set(Alarm.HELLO, worker.name, now + self._spec.hello)

    def _ended(self, worker: Worker, event: ProcessChanged, now: float) -> None:
        desk = self._desk
        desk.deadlines.clear_all(worker.name)
        desk.staffing = True
        if desk.servers.pop(worker.name, None) is not None:
            self._server_ended(worker, event, now)
            return
        del desk.workers[worker.name]
        asked = worker.leaving or worker.left
        desk.lost.append((worker, f"{worker.name} left" if asked else in_words(event)))
        if self._ending.begun:
            return
        if event.failure is not None:
            self._not_started(worker, event.failure, now)
        elif asked or event.preempted:
            return
        elif failed_by_itself(event):
            # Also of a worker that is given up: its stream and its ring may have gone before its process.
            self._worker_failed(event, now)
        elif not worker.given_up:
            self._count_death(worker, cause(event), now)

    def _server_ended(self, server: Worker, event: ProcessChanged, now: float) -> None:
        self._servers.lost(server)
        self._worlds.server_lost(server.name, in_words(event))
        if not self._ending.begun and (hopeless := self._servers.ended(server, event, now)) is not None:
            self._finish(EndJob(Outcome.FAILED, text=hopeless, worker=server.name), now)

    def _worker_failed(self, event: ProcessChanged, now: float) -> None:
        text = f"{event.name} ended by itself with exit code {event.exit_code}"
        self._finish(EndJob(Outcome.FAILED, text=text, worker=event.name), now)

    def _count_death(self, worker: Worker, how: str, now: float) -> None:
        hopeless = self._staff.killed(worker, how, now)
        if hopeless is not None:
            self._finish(EndJob(Outcome.FAILED, text=hopeless, worker=worker.name), now)

    def _not_started(self, worker: Worker, failure: str, now: float) -> None:
        if not any(other.phase is Phase.RUNNING for other in self._desk.workers.values()):
            self._finish(EndJob(Outcome.FAILED, text=f"{worker.name} could not be started: {failure}"), now)
            return
        self._desk.inform(f"{worker.name} could not be started: {failure}", level="warning")
        self._staff.restarts.died(worker.generation, now)

    def _finish(self, end: EndJob, now: float) -> None:
        attempt = self._worlds.attempt
        self._ending.begin(end, attempt.members[0] if attempt is not None else None, now)
