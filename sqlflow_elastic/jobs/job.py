"""One job: a program in its folder, run as a process until it has its result."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

from sqlflow_elastic.cluster import Cluster, Process, ProcessSpec
from sqlflow_elastic.elastic.folder import EVENTS_VARIABLE, JOB_VARIABLE, JobFolder
from sqlflow_elastic.errors import JobCancelled, JobError
from sqlflow_elastic.events import Event, Failed, Message, from_json

#: How often a killed process is started again.
RESTARTS = 3

_LOOK_SECONDS = 0.1  # how soon `cancel` is noticed
_END_SECONDS = 10.0  # for a process to go after it closed its events
_LOG_LINES = 15
_READ_BYTES = 1 << 16


class Job:
    """A job that has its folder and everything in it that it needs.

    Args:
        folder: the job's; `program` is written into it.
        program: the text of the Python program to run.
        cluster: where its process runs.
        result: the file or folder that a job has left when it is done.
        cancelled: set from any thread, it stops the job; see `cancel`.
    """

    def __init__(
        self,
        folder: JobFolder,
        program: str,
        cluster: Cluster,
        result: Path,
        cancelled: threading.Event | None = None,
    ) -> None:
        self._folder = folder
        self._cluster = cluster
        self._result = result
        self._cancelled = cancelled or threading.Event()
        self._failure: Failed | None = None
        aside = folder.program.with_suffix(".new")
        aside.write_text(program, encoding="utf-8")
        aside.replace(folder.program)

    @property
    def id(self) -> str:
        """The name of its folder."""
        return self._folder.path.name

    def cancel(self) -> None:
        """Stop it, from any thread: `events` raises JobCancelled soon, when its process is gone."""
        self._cancelled.set()

    def events(self) -> Generator[Event, None, None]:
        """Run the job and yield what it tells; the end of the iterator is its success. Call it once.

        A process that is killed (out of memory, kill -9, a crash) is started again, at most `RESTARTS` times; it goes
        on from its last checkpoint. Closing the iterator early stops the process: when `close` returns it is gone.

        Raises:
            SQLFlowError: the error the job told (a wrong value in its data, …).
            JobError: it ended without its result; the message has the last lines of its log and where the log is.
            JobCancelled: `cancel` was called.
        """
        for restart in range(1, RESTARTS + 2):
            exit_code = yield from self._run()
            if self._failure is not None:
                raise self._failure.error
            if exit_code == 0 and self._result.exists():
                return
            if exit_code >= 0:
                raise self._error("failed" if exit_code else "ended without its result")
            name = signal.Signals(-exit_code).name
            if restart <= RESTARTS:
                yield Message(
                    f"the job's process was ended by {name}; "
                    f"it goes on from its last checkpoint (restart {restart} of {RESTARTS})",
                    "warning",
                )
        raise self._error(f"was ended by {name} {RESTARTS + 1} times (not enough memory?)")

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
        return self._cluster.start(
            ProcessSpec(
                program=self._folder.program,
                log=self._folder.log,
                directory=Path.cwd(),
                environment={JOB_VARIABLE: str(self._folder.path)},
                descriptors={EVENTS_VARIABLE: writing},
            )
        )

    def _lines(self, channel: int, process: Process) -> Iterator[bytes]:
        """The whole lines that come until the process has ended or closed its end. Raises: JobCancelled."""
        rest = b""
        while True:
            ready, _, _ = select.select([channel, process.fileno()], [], [], _LOOK_SECONDS)
            if self._cancelled.is_set():
                raise JobCancelled("the job was stopped")
            if channel in ready:
                data = os.read(channel, _READ_BYTES)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                yield from lines
            elif ready and process.wait(0) is not None:
                return  # everything it wrote is read; a child of its may hold the other end open

    def _error(self, what: str) -> JobError:
        log = self._folder.log.read_text(errors="replace").rstrip().splitlines()[-_LOG_LINES:]
        lines = [f"job {self.id} {what}", *(f"  {line}" for line in log), f"Its folder is kept: {self._folder.path}"]
        return JobError("\n".join(lines))
