"""The contract of a cluster: something that runs Python programs as processes, on a bounded number of slots.

What every implementation guarantees:

- **Nothing is left behind.** When the cluster is closed, or the process that holds it dies (kill -9 too), every process
  it started is killed, together with the processes those started and kept in their process group.
- **Independent.** A process dies alone: neither another process nor the cluster goes with it. It is not reached by the
  terminal's Ctrl-C. A process that another one started (a worker, started by its job's master) lives on without it.
- **Told once, told truly.** Every process that was started ends with exactly one exit code, even if nobody waited for
  it while it ran. What is known to have ended has ended: its memory, files and sockets are free.
- **Once.** A process is known by its job and its name. Both together are used once and never again, so a request that
  is repeated (by a master that was restarted) makes no second process. A job that was forgotten starts nothing more.
- **Bounded and in order.** Running processes never take more slots than there are. Pending ones start strictly in the
  order of their priority, among equals first come, first served: what is behind waits, even if it would fit. Processes
  that take no slot wait for nothing.
- **Preemption.** For a process that waits and does not fit, running ones of lower priority are terminated: the lowest
  priority first, of these the youngest; no more than needed, and none if it would not fit even then. Their `Status`
  says so. Masters, and what takes no slot, are never preempted.
- **Memory.** A process with a limit that takes more is killed, and its `Status` says why.
- **Deadlines.** Every method returns within its stated time, 10 seconds where nothing is stated; none waits for ever on
  a process that hangs.
- **Threads.** All methods of `Cluster` may be called from several threads. One `Process` or `Watch` belongs to one
  thread at a time, but for `Process.kill`, which any thread may call.

A process with a job belongs to the cluster: it runs until it ends, is ended, or its job is forgotten. One without a job
is anonymous and belongs to its `Process`: it is killed when that is dropped, and its entry goes with its end.

Errors: `JobError`, with a message for people, when a process cannot be started or the cluster cannot be reached. That a
process failed is no error here: it is an exit code.

Starting does not wait: a process may be pending for a while, until a slot is free, TensorFlow is imported, a machine
or an image is there. What cannot be started after all is told by `Process.wait` and `Status.failure`.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlflow_elastic.errors import JobError

GRACE_SECONDS = 5.0

#: The environment variable in which a master gets the address of its cluster, for `connect`.
CLUSTER_VARIABLE = "SQLFLOW_ELASTIC_CLUSTER"


class AlreadyStarted(JobError):  # noqa: N818 - often what the caller wants
    """A process of this job and name was started before. It may be pending, running or ended: `Cluster.list` tells."""


class Role(StrEnum):
    """What a process is in its job."""

    MASTER = "master"
    WORKER = "worker"
    SERVER = "server"
    """Holds tables for the workers."""
    PROGRAM = "program"
    """A program that runs alone."""


class Phase(StrEnum):
    """Where a process is in its life. It only goes forward."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True)
class ProcessSpec:
    """What to run.

    Attributes:
        program: a Python file; runs as ``__main__``, its folder first on the module path, then ``directory``. None if
            a ``module`` is to run.
        log: file that standard output and error are appended to.
        directory: the working directory.
        environment: variables set beside those of the cluster's own process. Never shown: there may be a secret in it.
        descriptors: open file descriptors handed over: environment variable → descriptor here, at most 15. In the
            process the variable holds the descriptor's number there. They stay open here; the caller closes them after
            the start. What a cluster on other machines cannot hand over is a JobError.
        job: the job it belongs to, at most 200 characters; empty for an anonymous process.
        name: its name, at most 200 characters, unique in its job for ever. An anonymous one gets a number besides.
        role: what it is in its job.
        priority: which process gets slots first; higher is more urgent.
        slots: how many it takes while it runs; 0 for one that does not count, as masters are.
        memory: MiB that it may take for data of its own, which no other process shares; 0 for as much as there is.
        arguments: ``sys.argv[1:]``.
        module: the module to run in place of a ``program``, as ``python -P -m`` would.
    """

    program: Path | None
    log: Path
    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    descriptors: Mapping[str, int] = field(default_factory=dict)
    job: str = ""
    name: str = "main"
    role: Role = Role.PROGRAM
    priority: int = 0
    slots: int = 1
    arguments: tuple[str, ...] = ()
    module: str | None = None
    memory: int = 0

    def __post_init__(self) -> None:
        if (self.program is None) == (self.module is None):
            raise ValueError("either a program or a module runs")
        if self.memory < 0:
            raise ValueError(f"{self.memory} MiB are less than none")
        if self.slots < 0:
            raise ValueError(f"{self.slots} slots are fewer than none")
        if not self.name or len(self.name) > 200 or len(self.job) > 200:
            raise ValueError("a process has a name, and no more than 200 characters in it or in its job's")


@dataclass(frozen=True)
class Status:
    """What is known of a process.

    Attributes:
        job, name, role: as in its `ProcessSpec`; the name of an anonymous one has a number besides.
        phase: where it is in its life.
        pid: its number on the machine it runs on; None unless it has begun to run.
        exit_code: the exit code; minus the signal's number if a signal ended it; None before it has ended, and if it
            could not be started.
        preempted: whether it had to make room for a more urgent one. True from the moment it is asked to go.
        since: when this last changed, in Unix seconds.
        failure: why it could not be started, for people; None if it could.
        out_of_memory: whether it took more memory than it may, and was killed for that.
    """

    job: str
    name: str
    role: Role
    phase: Phase
    pid: int | None
    exit_code: int | None
    preempted: bool
    since: float
    failure: str | None
    out_of_memory: bool = False


class Process(abc.ABC):
    """A process that was started, or is pending."""

    @property
    @abc.abstractmethod
    def pid(self) -> int | None:
        """Its number on the machine it runs on; None while it is pending. Known after a `wait` at the latest."""

    @abc.abstractmethod
    def fileno(self) -> int:
        """A descriptor for ``select``: readable when `wait` may have something new to say, at its end in any case."""

    @abc.abstractmethod
    def wait(self, seconds: float | None) -> int | None:
        """The exit code; minus the signal's number if a signal ended it; None if it still runs after ``seconds``.

        ``None`` seconds wait as long as it runs. A process whose machine or keeper was lost counts as killed (-9).

        Raises: JobError: it could not be started.
        """

    @abc.abstractmethod
    def terminate(self, grace: float = GRACE_SECONDS) -> int:
        """Ask it to end (SIGTERM), after ``grace`` seconds make it end (SIGKILL); the exit code.

        Blocks for at most ``grace`` and a moment. Ended already: returns the exit code it had. Pending: it is not
        started any more, and counts as killed.
        """

    @abc.abstractmethod
    def kill(self) -> None:
        """Make it end at once (SIGKILL), without waiting for that. Ended already: nothing happens."""


class Watch(abc.ABC):
    """What happens to processes, as it happens. Close it, or use it in a ``with`` statement."""

    @abc.abstractmethod
    def fileno(self) -> int:
        """A descriptor for ``select``: readable when `next` may have something to say."""

    @abc.abstractmethod
    def next(self, seconds: float) -> list[Status]:
        """First the current status of every process, which may be none; then, at each call, the changes since.

        Blocks until there is one, for at most ``seconds``: then the list is empty. The newest status of a process is
        never missed; several changes of one process in quick succession may be told as the last of them.

        Raises: JobError: the cluster has ended, and every process with it.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Watch no longer. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Cluster(abc.ABC):
    """See the module's page for the guarantees.

    Attributes:
        slots: how many there are in all.
        address: where `connect` reaches this cluster. No secret: only the same user is let in.
    """

    slots: int
    address: str

    @abc.abstractmethod
    def warm_up(self) -> None:
        """Begin what makes the next start fast, without waiting for it. Calling it again costs nothing."""

    @abc.abstractmethod
    def start(self, spec: ProcessSpec) -> Process:
        """Start a process, without waiting until it runs.

        Raises:
            AlreadyStarted: this job has or had a process of this name.
            JobError: it needs more slots than there are in all; its job was forgotten; the cluster cannot be reached.
        """

    @abc.abstractmethod
    def list(self, job: str | None = None) -> list[Status]:
        """The processes of a job, of all jobs for None: those that have ended too, until their job is forgotten."""

    @abc.abstractmethod
    def watch(self, job: str | None = None) -> Watch:
        """Follow the processes of a job, of all jobs for None; those of jobs that have none yet, too."""

    @abc.abstractmethod
    def terminate(self, job: str, name: str, grace: float = GRACE_SECONDS) -> None:
        """Ask a process to end (SIGTERM), after ``grace`` seconds make it end (SIGKILL). Does not wait for its end.

        A pending one is not started any more and counts as killed (-9). Ended or unknown: nothing happens. Called
        again, the earlier end of grace counts.
        """

    @abc.abstractmethod
    def kill(self, job: str, name: str) -> None:
        """Make a process end at once (SIGKILL). Does not wait for its end. Else as `terminate`."""

    @abc.abstractmethod
    def forget(self, job: str) -> None:
        """Kill what is left of a job, wait for its end, and drop its entries. The job can start nothing after this.

        Forgetting twice is fine. An empty job is a ValueError: anonymous processes belong to their `Process`.
        """

    @abc.abstractmethod
    def free(self) -> int:
        """How many slots are not taken by running processes."""

    @abc.abstractmethod
    def close(self) -> None:
        """End all processes, if this is the cluster itself; else only let go of it. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
