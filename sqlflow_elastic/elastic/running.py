"""How a program runs: as a worker of a job, as a job's only process, or alone.

A job has its folder in an environment variable (see `folder`), a worker its name in another one (see `member`), a job's
only process the descriptor for its events. A program started by hand has none of them: it makes a folder of its own,
and its events are lines on standard error.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, Protocol

import pyarrow as pa

from sqlflow_elastic import events
from sqlflow_elastic.elastic.folder import EVENTS_VARIABLE, JOB_VARIABLE, JobFolder
from sqlflow_elastic.elastic.member import WORKER_VARIABLE, Exit, Member
from sqlflow_elastic.elastic.snapshot import MANIFEST, Snapshot
from sqlflow_elastic.elastic.spinning import stop_spinning
from sqlflow_elastic.errors import DataError, JobCancelled, ModelStoreError, SQLFlowError, StorageError
from sqlflow_elastic.models.artifact import Artifact, load_artifact

if TYPE_CHECKING:
    import keras

    from sqlflow_elastic.elastic.trainer import Trainer, TrainResult
    from sqlflow_elastic.models.features.inputs import FeatureInputs

Emit = Callable[[events.Event], None]

_PROGRESS_SECONDS = 0.25


class RowSource(Protocol):
    """Where a program that runs alone gets its rows: `sqlflow_elastic.datasource.Query` is one."""

    def snapshot(self, into: str, on_rows: Callable[[int], None] | None = None) -> Snapshot:
        """Write the rows as a snapshot into a folder."""
        ...


def _cancel() -> None:
    raise JobCancelled("the job was stopped")


@dataclass
class Run:
    """One run of a program: alone, or as one of the workers of a job.

    Attributes:
        folder: where everything of it lies.
        emit: takes its events.
        member: this process as a worker; None for a program that runs alone.
        stop: what SIGTERM and Ctrl-C do, in the main thread; by default they end the run at once with `JobCancelled`.
    """

    folder: JobFolder
    emit: Emit
    member: Member | None = None
    stop: Callable[[], None] = field(default=_cancel)
    _last: float = 0.0

    def tasks(self, queue: str, total: int, idles: Callable[[], None] = lambda: None) -> Iterator[int]:
        """The tasks of a queue that fall to this process; ends when all ``total`` are done, by whichever process.

        A task counts as done when the next one is asked for. One whose worker dies falls to another worker. All
        workers go through the same queues in the same order. ``idles`` is called when this one waits for others.
        """
        return iter(range(total)) if self.member is None else self.member.tasks(queue, total, idles)

    def train(self, trainer: Trainer) -> TrainResult:
        """Train to the end, together with the job's other workers if there are any."""
        if self.member is None:
            self.stop = trainer.stop
            return trainer.run()
        self.member.train(trainer, trainer.wire)
        return trainer.result()

    def completed(self, text: str, result: Path) -> None:
        """The result is in the folder. A person who runs a program by hand is told where; a job's session knows."""
        if self.member is not None:
            self.member.completed()
        elif JOB_VARIABLE not in os.environ:
            self.emit(events.Message(f"{text}: {result}"))

    def progress(self, phase: str, done: int, total: int | None) -> None:
        """Tell how many rows of a phase are done, a few times a second and at its end."""
        now = time.monotonic()
        if done == total or now - self._last >= _PROGRESS_SECONDS:
            self._last = now
            self.emit(events.Progress(phase, done, total, unit="rows"))

    def rows(self, source: RowSource, path: Path) -> Snapshot:
        """The snapshot at ``path``; a program that runs alone reads it from its source if it is not there."""
        if JOB_VARIABLE in os.environ or (path / MANIFEST).exists():
            return Snapshot.open(str(path))
        return source.snapshot(str(path), lambda done: self.progress("reading", done, None))

    def trained_model(self, build_model: Callable[[FeatureInputs], keras.Model] | None = None) -> Artifact:
        """The trained model to start from; for ``build_model`` see `load_artifact`.

        Raises: ModelStoreError: a program that runs alone was not given one, or it is damaged.
        """
        if not self.folder.model.exists():
            raise ModelStoreError("this program starts from a trained model: give its file with --model")
        return load_artifact(self.folder.model, build_model)

    def counted(
        self, snapshot: Snapshot, phase: str, start: int = 0, stop: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The batches of the rows ``start`` to ``stop`` (None: to the end) of a snapshot, with progress."""
        done = start
        for batch in snapshot.batches(start, stop):
            yield batch
            done += batch.num_rows
            if self.member is None or (start == 0 and stop is None):  # else the master counts the tasks
                self.progress(phase, done, snapshot.rows)


@contextmanager
def values_of(snapshot: Snapshot) -> Iterator[None]:
    """Where a snapshot's values are used: a wrong one is told with the SELECT that it comes from."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{error}\n  in: {snapshot.description}") from error


@contextmanager
def running(name: str) -> Iterator[Run]:
    """The run of this process. An error of the user's is told as an event, and the process ends with exit code 1."""
    run = _begin(name)

    def on_signal(number: int, frame: FrameType | None) -> None:
        run.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    try:
        yield run
    except SQLFlowError as error:
        _fail(run, error)
    except OSError as error:
        if (refused := StorageError.of(error, f"the job's folder {run.folder.path} cannot be written")) is None:
            raise
        _fail(run, refused)
    except Exit:
        pass
    finally:
        if run.member is not None:
            run.member.close()


def _fail(run: Run, error: SQLFlowError) -> NoReturn:
    if run.member is not None:
        run.member.failed(error)
    run.emit(events.Failed(error))
    sys.exit(1)


def _begin(name: str) -> Run:
    if JOB_VARIABLE in os.environ:
        folder = JobFolder(Path(os.environ[JOB_VARIABLE]))
        if (worker := os.environ.get(WORKER_VARIABLE)) is not None:
            member = Member(folder, worker)
            if member.takes_all_cores:
                stop_spinning()
            return Run(folder, member.tell, member, stop=member.terminate)
        descriptor = int(os.environ[EVENTS_VARIABLE])
        return Run(folder, lambda event: _send(descriptor, event))
    program = sys.modules["__main__"]
    parser = argparse.ArgumentParser(description=program.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--folder",
        type=Path,
        help=f"where to keep rows, checkpoints and the result (default: {name}.job)",
    )
    parser.add_argument("--model", type=Path, help="the trained model to start from (a model.artifact file)")
    arguments = parser.parse_args()
    folder = JobFolder((arguments.folder or Path(f"{name}.job")).absolute())
    folder.path.mkdir(parents=True, exist_ok=True)
    if folder.finished:
        folder.clear()
    if arguments.model is not None and not folder.model.exists():
        folder.model.symlink_to(arguments.model.absolute())
    return Run(folder, _show)


def _send(descriptor: int, event: events.Event) -> None:
    data = (events.to_json(event) + "\n").encode()
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:
        raise JobCancelled("the session that started this job is gone") from None


def _show(event: events.Event) -> None:
    """An event as a line for a person."""
    match event:
        case events.Progress(phase, done, total, unit):
            line = f"{phase}: {done:,}" + (f" of {total:,}" if total else "") + f" {unit}" if done else phase
            line += "" if event.epoch is None else f", epoch {event.epoch} of {event.epochs}"
            line += "" if event.loss is None else f", loss {event.loss:.4f}"
            line += "" if event.samples_per_second is None else f", {event.samples_per_second:,.0f} samples/s"
        case events.Metrics(split, _, epoch, values):
            line = f"{split}" + ("" if epoch is None else f" after epoch {epoch}")
            line += ": " + ", ".join(f"{name} {value:.4f}" for name, value in values.items())
        case events.Message(text, level):
            line = text if level == "info" else f"{level}: {text}"
        case events.Failed(error):
            line = f"error: {error}"
        case events.Result(text):
            line = text
        case _:
            return
    sys.stderr.write(line + "\n")
