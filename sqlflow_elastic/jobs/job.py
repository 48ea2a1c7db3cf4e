"""One job, seen from its session: its master, or its only process, run until the result is there."""

from __future__ import annotations

import os
import secrets
import select
import signal
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

from sqlflow_elastic.cluster import CLUSTER_VARIABLE, Cluster, Process, ProcessSpec, Role
from sqlflow_elastic.elastic.folder import EVENTS_VARIABLE, JOB_VARIABLE, JobFolder, write_text
from sqlflow_elastic.errors import JobCancelled, JobError, SQLFlowError
from sqlflow_elastic.events import Event, Failed, Message, from_json
from sqlflow_elastic.jobs.pipe import take_unread
from sqlflow_elastic.jobs.records import Stage
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.jobs.state import STATE_VARIABLE, JobState, state_url

#: How often in a row a process that lives for less than `_QUICK_SECONDS` is started again after a signal ended it. A
#: master does little and keeps nothing: what kills it is mostly not its own fault.
_RESTARTS, _MASTER_RESTARTS = 3, 10

#: A master that says nothing for so long, not even that it lives, hangs; it is killed, and followed by another one.
_SILENT_SECONDS = 10.0

_QUICK_SECONDS = 5.0
_LOOK_SECONDS = 0.1  # how soon `cancel` is noticed
_END_SECONDS = 10.0  # for a process to go after it closed its events
_LOG_LINES = 15
_READ_BYTES = 1 << 16


class Job:
    """A job that has its folder and everything in it that it needs.

    Args:
        folder: the job's; `program` is written into it.
        program: the text of the Python program to run.
        cluster: where its processes run.
        result: the file or folder that a job has left when it is done.
        request: what is asked of it.
        state_store: URL of the store of its state; None for the one in its folder.
        cancelled: set from any thread, it stops the job; see `cancel`.
    """

    def __init__(
        self,
        folder: JobFolder,
        program: str,
        cluster: Cluster,
        result: Path,
        request: JobRequest,
        *,
        state_store: str | None = None,
        cancelled: threading.Event | None = None,
    ) -> None:
        self._folder = folder
        self._cluster = cluster
        self._result = result
        self._request = request
        self._state_url = state_url(folder, state_store)
        self._cancelled = cancelled or threading.Event()
        self._failure: Failed | None = None
        self._starts = 0
        self._restarts = _RESTARTS if request.kind is JobKind.PROGRAM else _MASTER_RESTARTS
        write_text(folder.program, program)
        write_text(folder.token, secrets.token_urlsafe(32))

    @property
    def id(self) -> str:
        """The name of its folder."""
        return self._folder.path.name

    def cancel(self) -> None:
        """Stop it, from any thread: `events` raises JobCancelled soon, when its processes are gone."""
        self._cancelled.set()

    def events(self) -> Generator[Event, None, None]:
        """Run the job and yield what it tells; the end of the iterator is its success. Call it once.

        A master that is killed, or hangs, is followed by another one, which takes over the running workers. A job
        without a master that is killed (out of memory, kill -9, a crash) is started again, and goes on from its last
        checkpoint. Either is given up when it dies within seconds again and again. Closing the iterator early stops the
        job: when `close` returns its processes are gone.

        Raises:
            SQLFlowError: the error the job told (a wrong value in its data, …).
            JobError: it ended without its result; the message has the last lines of its log and where the log is.
            JobCancelled: `cancel` was called, or KILL JOB.
        """
        with JobState(self._state_url) as state:
            state.begin(self._request)
            try:
                try:
                    yield from self._run_to_the_end()
                finally:
                    self._cluster.forget(self.id)
            except (GeneratorExit, KeyboardInterrupt):
                state.ended(Stage.CANCELLED, "its statement was stopped")
                raise
            except JobCancelled as error:
                state.ended(Stage.CANCELLED, str(error))
                raise
            except SQLFlowError as error:
                state.ended(Stage.FAILED, str(error))
                raise
            state.ended(Stage.SUCCEEDED, "")

    def _run_to_the_end(self) -> Generator[Event, None, None]:
        quick = 0
        while True:
            begun = time.monotonic()
            exit_code = yield from self._run()
            if self._failure is not None:
                raise self._failure.error
            if exit_code == 0 and self._result.exists():
                return
            if exit_code >= 0:
                raise self._error("failed" if exit_code else "ended without its result")
            name = signal.Signals(-exit_code).name
            quick = quick + 1 if time.monotonic() - begun < _QUICK_SECONDS else 1
            if quick > self._restarts:
                raise self._error(f"was ended by {name} {quick} times (not enough memory?)")
            yield self._restart(name)

    def _restart(self, name: str) -> Message:
        if self._request.kind is JobKind.PROGRAM:
            return Message(f"the job's process was ended by {name}; it is started again", "warning")
        return Message(f"the job's master was ended by {name}; another one takes over", "warning")

    def _run(self) -> Generator[Event, None, int]:
        """Run the process once; its exit code."""
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb", buffering=0) as channel:
            try:
                process = self._start(writing)
            finally:
                os.close(writing)
            try:
                for line in self._lines(channel.fileno(), process):
                    event = from_json(line.decode())
                    if isinstance(event, Failed):
                        self._failure = event
                    else:
                        yield event
                exit_code = process.wait(_END_SECONDS)
                return process.terminate() if exit_code is None else exit_code
            finally:
                process.terminate()

    def _start(self, writing: int) -> Process:
        alone = self._request.kind is JobKind.PROGRAM
        self._starts += 1
        name = "main" if alone else "master"
        return self._cluster.start(
            ProcessSpec(
                program=self._folder.program if alone else None,
                module=None if alone else "sqlflow_elastic.jobs.master",
                log=self._folder.log_of(name),
                directory=Path.cwd(),
                environment={
                    JOB_VARIABLE: str(self._folder.path),
                    STATE_VARIABLE: self._state_url,
                    CLUSTER_VARIABLE: self._cluster.address,
                },
                descriptors={EVENTS_VARIABLE: writing},
                job=self.id,
                name=f"{name}-{self._starts}",
                role=Role.PROGRAM if alone else Role.MASTER,
                priority=self._request.priority,
                slots=self._request.slots if alone else 0,
            )
        )

    def _lines(self, channel: int, process: Process) -> Iterator[bytes]:
        """The whole lines that come until the process has ended or closed its end. Raises: JobCancelled."""
        rest = b""
        for data in self._pieces(channel, process):
            *lines, rest = (rest + data).split(b"\n")
            yield from filter(None, lines)  # an empty one is a sign of life

    def _pieces(self, channel: int, process: Process) -> Iterator[bytes]:
        """What comes through the pipe, then what it did not take."""
        heard = None
        while True:
            ready, _, _ = select.select([channel, process.fileno()], [], [], _LOOK_SECONDS)
            if self._cancelled.is_set():
                raise JobCancelled("the job was stopped")
            if channel in ready:
                data = os.read(channel, _READ_BYTES)
                if not data:
                    break
                yield data
                heard = time.monotonic()
            elif ready and process.wait(0) is not None:
                break  # everything it wrote is read; a child of its may hold the other end open
            elif process.pid is not None and self._request.kind is not JobKind.PROGRAM:
                heard = heard or time.monotonic()
                if time.monotonic() - heard > _SILENT_SECONDS:
                    process.kill()
        yield take_unread(self._folder)

    def _error(self, what: str) -> JobError:
        log = self._folder.log_of("main" if self._request.kind is JobKind.PROGRAM else "master")
        last = log.read_text(errors="replace").rstrip().splitlines()[-_LOG_LINES:] if log.exists() else []
        lines = [f"job {self.id} {what}", *(f"  {line}" for line in last), f"Its folder is kept: {self._folder.path}"]
        return JobError("\n".join(lines))
