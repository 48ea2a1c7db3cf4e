"""The contract of a cluster: something that runs Python programs as processes.

What every implementation guarantees:

- **Nothing is left behind.** When the cluster is closed, or the process that holds it dies (kill -9 too), every process
  it started is killed, together with the processes those started and kept in their process group.
- **Independent.** A process dies alone: neither another process nor the cluster goes with it. It is not reached by the
  terminal's Ctrl-C.
- **Told once, told truly.** Every process that was started ends with exactly one exit code, even if nobody waited for
  it while it ran. What is known to have ended has ended: its memory, files and sockets are free.
- **Deadlines.** Every method returns within its stated time; none waits for ever on a process that hangs.
- **Threads.** `Cluster.start` may be called from several threads. One `Process` belongs to one thread at a time, but
  for `Process.kill`, which any thread may call.

Errors: `JobError`, with a message for people, when a process cannot be started. That a process failed is no error here:
it is an exit code.

Starting does not wait: a process may be pending for a while, until TensorFlow is imported, a machine is free, an image
is there. What cannot be started after all is told by `Process.wait`.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class ProcessSpec:
    """What to run.

    Attributes:
        program: a Python file; runs as ``__main__``, its folder first on the module path, then ``directory``.
        log: file that standard output and error are appended to.
        directory: the working directory.
        environment: variables set beside those of the cluster's own process.
        descriptors: open file descriptors handed over: environment variable → descriptor here. In the process the
            variable holds the descriptor's number there. They stay open here; the caller closes them after the start.
    """

    program: Path
    log: Path
    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    descriptors: Mapping[str, int] = field(default_factory=dict)


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


class Cluster(abc.ABC):
    """See the module's page for the guarantees."""

    @abc.abstractmethod
    def warm_up(self) -> None:
        """Begin what makes the next start fast, without waiting for it. Calling it again costs nothing."""

    @abc.abstractmethod
    def start(self, spec: ProcessSpec) -> Process:
        """Start a process, without waiting until it runs. Raises: JobError."""

    @abc.abstractmethod
    def close(self) -> None:
        """End all processes started here. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
