"""A job's master as a process.

One event loop hands `MasterMachine` what happens, one event after the other, and carries out its commands in order. The
cluster and the state store, which block, are asked in threads that the loop waits for, so the order holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from sqlflow_elastic import events
from sqlflow_elastic.cluster import CLUSTER_VARIABLE, AlreadyStarted, Cluster, ProcessSpec, Role, connect
from sqlflow_elastic.elastic.folder import EVENTS_VARIABLE, JOB_VARIABLE, JobFolder, write_json
from sqlflow_elastic.elastic.member import HOST_VARIABLE, MOST_VARIABLE, SCALING_VARIABLE, WORKER_VARIABLE
from sqlflow_elastic.elastic.membership import master_protocol as protocol
from sqlflow_elastic.elastic.membership.master import MasterMachine
from sqlflow_elastic.elastic.membership.messages import FromWorker, ServerState
from sqlflow_elastic.elastic.membership.spec import JobSpec
from sqlflow_elastic.elastic.state import Conflict, StoreUnavailable
from sqlflow_elastic.errors import JobCancelled, JobError, SQLFlowError
from sqlflow_elastic.jobs.master.journal import Journal
from sqlflow_elastic.jobs.master.streams import Streams
from sqlflow_elastic.jobs.master.watches import ROLES, Watches, process_changed
from sqlflow_elastic.jobs.records import MACHINE, Stage
from sqlflow_elastic.jobs.request import JobRequest
from sqlflow_elastic.jobs.state import STATE_VARIABLE, JobState

#: Key: JSON number of the job's masters so far. Only the last one may write: a master that was taken for dead may live.
TERM = "term"

_BEAT_SECONDS = 1.0
_GRACE_SECONDS = 10.0
_LONGEST_WAIT_SECONDS = 3600.0
_LOG_LINES = 15
_STORE_SECONDS = 60.0
_STORE_PAUSE_SECONDS = 0.2
_STAGES = {
    protocol.Outcome.SUCCEEDED: Stage.SUCCEEDED,
    protocol.Outcome.FAILED: Stage.FAILED,
    protocol.Outcome.CANCELLED: Stage.CANCELLED,
}


class Master:
    """One master's life.

    Args:
        folder: the job's.
        state: the job's.
        cluster: where workers run.
        descriptor: takes events for the session; None without one.
    """

    def __init__(self, folder: JobFolder, state: JobState, cluster: Cluster, descriptor: int | None) -> None:
        self._folder = folder
        self._state = state
        self._cluster = cluster
        self._request = JobRequest.from_json(state.read("request"))
        self._spec = spec_of(folder.path.name, self._request)
        self._term = 0
        self._inbox: deque[protocol.MasterEvent] = deque()
        self._comes = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._journal = Journal(folder, self._request, state, descriptor, self._session_gone)
        token = folder.token.read_text(encoding="utf-8")
        self._streams = Streams(token, self._received, self._lost, self._journal.timeline.spans)
        self._watches = Watches(self._spec.job, cluster, state, self._journal, self._put_from_thread)

    async def run(self) -> int:
        """Live until the job is over. Returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._put, protocol.Cancelled("the job was stopped"))
        stored = await self._blocking(self._take_over)
        statuses = await self._blocking(self._cluster.list, self._spec.job)
        processes = [process_changed(status) for status in statuses if status.role in ROLES]
        machine = MasterMachine.adopt(self._spec, stored, processes, self._now())
        address = await self._streams.serve(os.environ.get(HOST_VARIABLE, "127.0.0.1"))
        await self._blocking(write_json, self._folder.master, {"address": address})
        self._watches.start()
        beating = asyncio.create_task(self._beat())
        try:
            return await self._ended(await self._serve(machine))
        except SQLFlowError as error:  # the store or the cluster is away for good
            self._journal.tell(events.Failed(error))
            return 1
        finally:
            beating.cancel()
            self._watches.close()
            await self._streams.close()
            self._journal.close()

    def _take_over(self) -> dict[str, Any]:
        """Become the master; what the one before has stored for the machine."""
        entry = self._state.store.get(TERM)
        before, revision = (0, 0) if entry is None else (int(entry.value), entry.revision)
        self._term = self._state.write({TERM: before + 1}, {TERM: revision})
        self._state.running()
        stored = self._state.read_all()
        return {key.removeprefix(MACHINE): value for key, value in stored.items() if key.startswith(MACHINE)}

    async def _serve(self, machine: MasterMachine) -> protocol.EndJob:
        event: protocol.MasterEvent = protocol.Tick()
        while True:
            for command in machine.handle(event, self._now()):
                if isinstance(command, protocol.EndJob):
                    return command
                await self._execute(command)
            event = await self._next(machine.next_wake)

    async def _next(self, wake: float) -> protocol.MasterEvent:
        """What happens next, which is nothing if it is time to wake before that."""
        if not self._inbox:
            self._comes.clear()
            seconds = min(max(0.0, wake - self._now()), _LONGEST_WAIT_SECONDS)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._comes.wait(), seconds)
        return self._inbox.popleft() if self._inbox else protocol.Tick()

    async def _beat(self) -> None:
        while True:
            self._journal.beat()
            await asyncio.sleep(_BEAT_SECONDS)

    async def _execute(self, command: protocol.MasterCommand) -> None:
        match command:
            case protocol.Send(name, message):
                self._journal.timeline.sent(name, message, time.time())
                self._streams.send(name, message)
            case protocol.StartWorker(name):
                await self._blocking(self._start_worker, name)
            case protocol.StartServer(name, memory):
                await self._blocking(self._start_server, name, memory)
            case protocol.EndWorker(name, kill):
                await self._blocking(self._end_worker, name, kill)
            case protocol.Persist(changes):
                await self._persist(changes)
            case protocol.Tell(event):
                self._journal.tell_line(event)
            case protocol.CountTasks(queue, done, total):
                self._journal.tasks(queue, done, total)

    async def _persist(self, changes: Any) -> None:
        """Write for the machine. A store that is away is waited for: training goes on without us meanwhile."""
        encoded = {f"{MACHINE}{key}": value for key, value in changes.items()}
        deadline = time.monotonic() + _STORE_SECONDS
        while not await self._written(encoded, deadline):
            await asyncio.sleep(_STORE_PAUSE_SECONDS)

    async def _written(self, changes: dict[str, Any], deadline: float) -> bool:
        try:
            await self._blocking(self._state.write, changes, {TERM: self._term})
        except StoreUnavailable as error:
            if time.monotonic() > deadline:
                raise
            self._journal.warn(f"{error}; the master waits for it")
            return False
        return True

    def _start_worker(self, name: str) -> None:
        environment = {MOST_VARIABLE: str(self._spec.most), SCALING_VARIABLE: str(self._spec.scaling)}
        self._start(
            self._process(name, Role.WORKER, environment, slots=self._spec.slots, memory=self._request.worker_memory)
        )

    def _start_server(self, name: str, memory: int) -> None:
        module = "sqlflow_elastic.elastic.tables.process"
        self._start(
            self._process(
                name, Role.SERVER, {}, program=None, module=module, slots=self._request.ps_slots, memory=memory
            )
        )

    def _process(self, name: str, role: Role, environment: dict[str, str], **options: Any) -> ProcessSpec:
        return ProcessSpec(
            **{"program": self._folder.program, **options},
            log=self._folder.log_of(name),
            directory=Path.cwd(),
            environment={JOB_VARIABLE: str(self._folder.path), WORKER_VARIABLE: name, **environment},
            job=self._spec.job,
            name=name,
            role=role,
            priority=self._spec.priority,
        )

    def _start(self, spec: ProcessSpec) -> None:
        try:
            self._cluster.start(spec)
        except AlreadyStarted:
            pass  # by the master before, which could not say so any more
        except JobError as error:
            self._put_from_thread(protocol.ProcessChanged(spec.name, protocol.Phase.ENDED, failure=str(error)))

    def _end_worker(self, name: str, kill: bool) -> None:
        if kill:
            self._cluster.kill(self._spec.job, name)
        else:
            self._cluster.terminate(self._spec.job, name, _GRACE_SECONDS)

    async def _ended(self, end: protocol.EndJob) -> int:
        """Say how the job ended."""
        error: SQLFlowError | None = None
        if end.outcome is protocol.Outcome.CANCELLED:
            error = JobCancelled(end.text)
        elif end.outcome is protocol.Outcome.FAILED:
            told = events.from_json(end.event) if end.event else None
            error = told.error if isinstance(told, events.Failed) else JobError(self._with_log(end))
        await self._blocking(self._state.set, _STAGES[end.outcome], "" if error is None else str(error))
        if error is None:
            return 0
        self._journal.tell(events.Failed(error))
        return 1

    def _with_log(self, end: protocol.EndJob) -> str:
        lines = [f"job {self._spec.job} failed: {end.text}"]
        if end.worker is not None and (log := self._folder.log_of(end.worker)).exists():
            last = log.read_text(errors="replace").rstrip().splitlines()[-_LOG_LINES:]
            lines += [f"  {line}" for line in last]
        return "\n".join([*lines, f"Its folder is kept: {self._folder.path}"])

    def _received(self, name: str, message: FromWorker) -> None:
        self._journal.timeline.received(name, message, time.time())
        if isinstance(message, ServerState):
            self._journal.server(name, message)
        self._put(protocol.Received(name, message))

    def _lost(self, name: str) -> None:
        self._put(protocol.Disconnected(name))

    def _put(self, *events: protocol.MasterEvent) -> None:
        self._inbox.extend(events)
        self._comes.set()

    def _put_from_thread(self, *events: protocol.MasterEvent) -> None:
        self._loop.call_soon_threadsafe(self._put, *events)

    def _session_gone(self) -> None:
        self._put_from_thread(protocol.Cancelled("the session that started this job is gone"))

    async def _blocking(self, call: Any, *arguments: Any) -> Any:
        return await self._loop.run_in_executor(None, call, *arguments)

    @staticmethod
    def _now() -> float:
        return time.monotonic()


def spec_of(job: str, request: JobRequest) -> JobSpec:
    """What the machine has to know of what was asked."""
    return JobSpec(
        job=job,
        workers=request.workers,
        batch_size=request.batch_size,
        scaling=request.scaling,
        priority=request.priority,
        slots=request.slots,
        server_memory=request.ps_memory,
    )


def main() -> int:
    """Be the master of the job in the environment. Returns the exit code."""
    return asyncio.run(_main())


async def _main() -> int:
    folder = JobFolder(Path(os.environ[JOB_VARIABLE]))
    with JobState(os.environ[STATE_VARIABLE]) as state, connect(os.environ[CLUSTER_VARIABLE]) as cluster:
        descriptor = os.environ.get(EVENTS_VARIABLE)
        master = Master(folder, state, cluster, None if descriptor is None else int(descriptor))
        try:
            return await master.run()
        except Conflict:
            sys.stderr.write("another master has taken over\n")
            return 0
