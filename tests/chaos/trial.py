"""A job under attack: run in a thread, looked at and attacked from the test's, with a deadline on all of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlflow_elastic.cluster import Cluster, Phase, Role, Status
from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.errors import SQLFlowError
from sqlflow_elastic.events import Event, Message, WorldChanged
from sqlflow_elastic.jobs import Job, job_folder
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.jobs.state import JobState, state_url
from tests.chaos import program
from tests.chaos.program import Marks
from tests.waiting import wait_until

#: What a job may take as a whole, and what its session may take to let go of it.
SECONDS, END_SECONDS = 100.0, 30.0

_LOG_LINES = 40
_EVENTS = 30
_DUMP_SECONDS = 5.0


def request(workers: int = 3, priority: int = 0) -> JobRequest:
    """A job that takes all the workers it may have."""
    batch = program.BATCH_SIZE
    return JobRequest(
        JobKind.TRAIN, "counts", "", workers=workers, batch_size=batch, scaling=Scaling.ALL, priority=priority
    )


class Trial:
    """One job. Use it in a ``with`` statement: the job runs within, and is stopped at its end.

    Args:
        cluster: where it runs.
        root: takes its folder.
        text: its program.
        asked: what is asked of it.
        state_store: URL of the store of its state; None for the one in its folder.
        seconds: until when all waiting for it has to end. Beyond that the test fails and tells where everything stood.

    Attributes:
        events: what it has told so far.
        folder: its own, once it has begun.
        error: how it ended, if not well.
        bug: the traceback of what must never come out of a job.
        counts: how often each sample counts in the result; of a job that has ended well.
        finals: digests of the states of all workers that trained to the end.
    """

    def __init__(
        self,
        cluster: Cluster,
        root: Path,
        text: str | None = None,
        asked: JobRequest | None = None,
        *,
        state_store: str | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._cluster = cluster
        self._root = root
        self._text = text or program.program()
        self._asked = asked or request()
        self._state_store = state_store
        self._deadline = time.monotonic() + seconds
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trial")
        self.events: list[Event] = []
        self.folder: JobFolder
        self.job: Job
        self.error: SQLFlowError | None = None
        self.bug = ""
        self.counts: list[int] | None = None
        self.finals: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._begun.wait(END_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.job.cancel()
        self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            raise AssertionError(f"the job's session does not end\n{self.report()}")

    def _run(self) -> None:
        try:
            with job_folder(self._root) as self.folder:
                self._prepare()
                self.job = Job(
                    self.folder,
                    self._text,
                    self._cluster,
                    self._result(),
                    self._asked,
                    state_store=self._state_store,
                )
                self._begun.set()
                for event in self.job.events():
                    self.events.append(event)
                self._collect()
        except SQLFlowError as error:
            self.error = error
        except BaseException:  # noqa: BLE001 - told by the test
            self.bug = traceback.format_exc()

    # What is different with other programs.

    def _prepare(self) -> None:
        """Put into the folder what the job needs."""

    def _result(self) -> Path:
        """What the job leaves."""
        return self.folder.summary

    def _collect(self) -> None:
        """Take from the folder of a job that has ended well what is looked at later."""
        self.finals = self.marks.having("final-")
        self.counts = json.loads(self.folder.summary.read_text())["counts"]

    # What there is to be seen.

    @property
    def marks(self) -> Marks:
        return Marks(self.folder)

    @property
    def step(self) -> int:
        """Of the last checkpoint."""
        return int(self.marks.get("step") or 0)

    @property
    def worlds(self) -> list[WorldChanged]:
        return [event for event in self.events if isinstance(event, WorldChanged)]

    @property
    def members(self) -> tuple[str, ...]:
        """Of the last world."""
        worlds = self.worlds
        return worlds[-1].members if worlds else ()

    @property
    def joins(self) -> int:
        """How often a worker has joined a world of others."""
        return sum(len(world.joined) for world in self.worlds[1:] if len(world.members) > len(world.joined))

    @property
    def warnings(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Message) and event.level == "warning"]

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def processes(self, role: Role | None = None) -> list[Status]:
        """Those that run."""
        statuses = self._cluster.list(self.job.id)
        return [one for one in statuses if one.phase is Phase.RUNNING and role in (None, one.role)]

    def worker(self, name: str) -> Status:
        return next(one for one in self._cluster.list(self.job.id) if one.name == name)

    def world_of(self, size: int) -> Callable[[], bool]:
        """The condition that so many workers train."""
        return lambda: (
            len(self.members) == size and all(self.worker(name).phase is Phase.RUNNING for name in self.members)
        )

    # Waiting.

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Return when it holds; fail, with all there is to know, at the deadline or when the job ends before."""
        holds = False

        def decided() -> bool:
            nonlocal holds
            over = self.over
            holds = condition()
            return holds or over

        try:
            wait_until(decided, max(0.0, self._deadline - time.monotonic()))
        except AssertionError:
            raise AssertionError(f"the job never came to this: {what}\n{self.report()}") from None
        if not holds:
            raise AssertionError(f"the job ended ({self.error or self.bug}) before this: {what}\n{self.told()}")

    def until_it_gets_on(self) -> None:
        """Return when steps have been taken, and saved, that were not when this was called."""
        step = self.step
        self.until(lambda: self.step > step, f"a step after {step}")

    def until_it_trains(self, size: int) -> None:
        """Return when so many workers train and have taken steps together."""
        self.until(self.world_of(size), f"{size} workers train")
        self.until_it_gets_on()

    def ends(self) -> None:
        """Let it end, and see that each sample of each epoch counts once, in one state that all have come to."""
        self.succeeds()
        assert self.counts == [program.EPOCHS] * program.ROWS
        assert len(self.finals) == 1

    def succeeds(self) -> None:
        """Let it end, and see that it ends well."""
        program.hurry(self.folder)
        self._await_end()
        if self.error is not None or self.bug:
            raise AssertionError(f"the job failed: {self.error or self.bug}\n{self.told()}")

    def fails(self) -> SQLFlowError:
        """Wait for its end; its error."""
        self._await_end()
        assert self.error is not None, f"{self.bug}\n{self.told()}"
        return self.error

    def _await_end(self) -> None:
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        if not self.over:
            raise AssertionError(f"the job does not end\n{self.report()}")

    # Attacks.

    def strike(self, status: Status, number: signal.Signals = signal.SIGKILL) -> bool:
        """Signal a process; whether it was there."""
        assert status.pid is not None
        try:
            os.kill(status.pid, number)
        except ProcessLookupError:
            return False
        return True

    def strike_worker(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        assert self.strike(self.worker(name), number)

    @property
    def master(self) -> Status:
        """The process of the job's master, when there is one."""
        found: list[Status] = []

        def is_there() -> bool:
            found[:] = self.processes(Role.MASTER)
            return len(found) == 1

        self.until(is_there, "there is a master")
        return found[0]

    # Where it stands.

    def report(self) -> str:
        """Where all stand: events, processes, state, logs with the stacks of all threads. Ends the processes."""
        running = self.processes()
        for one in running:
            self.strike(one, signal.SIGABRT)  # has Python write the stacks of its threads to the log
            self.strike(one, signal.SIGCONT)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not {one.pid for one in running} & {one.pid for one in self.processes()}, _DUMP_SECONDS)
        with JobState(state_url(self.folder, self._state_store)) as state:
            stored = "\n".join(f"  {key}: {value}" for key, value in state.read_all().items())
        logs = "".join(
            f"\n{path.name}:\n" + "\n".join(path.read_text(errors="replace").splitlines()[-_LOG_LINES:])
            for path in sorted(self.folder.logs.iterdir())
        )
        return f"{self.told()}\nstored:\n{stored}\nlogs:{logs}"

    def told(self) -> str:
        """The last events, and the processes."""
        events = "\n".join(f"  {event}" for event in self.events[-_EVENTS:])
        processes = "\n".join(f"  {one}" for one in self._cluster.list(self.job.id))
        return f"events:\n{events}\nprocesses:\n{processes}"
