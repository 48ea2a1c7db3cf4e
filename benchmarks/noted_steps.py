"""A job that trains a network in several workers, whose members note when they commit each step.

`Training` runs the job on a cluster of its own. Its workers note in one file each, on the clock that all processes of
the machine share (`time.monotonic`), so that a note outlives the process that made it.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlflow_elastic.cluster import LocalCluster, Phase, Role
from sqlflow_elastic.elastic.comm import Communicator, WorldBroken
from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.elastic.replica import Exchange
from sqlflow_elastic.elastic.tables.access import Tables
from sqlflow_elastic.events import WorldChanged
from sqlflow_elastic.jobs import Job, job_folder
from sqlflow_elastic.jobs.request import JobKind, JobRequest

if TYPE_CHECKING:
    from sqlflow_elastic.elastic.trainer import Trainer

SECONDS = 120.0
_LOOK_SECONDS = 0.02
_Found = TypeVar("_Found")
_NOTE = struct.Struct("<dqqq")


class Kind(IntEnum):
    """What is noted."""

    #: A member has the state and begins to take steps in a world.
    BEGIN = 0
    #: A step is committed.
    STEP = 1
    #: All stopped between two steps.
    STOPPED = 2
    #: The ring broke.
    BROKEN = 3


@dataclass(frozen=True)
class Note:
    """Made at a time by `time.monotonic`, in a world, after so many steps."""

    at: float
    kind: Kind
    version: int
    step: int


@dataclass(frozen=True)
class Network:
    """A classifier: widths of its input, its hidden layers and its output, trained by Adam."""

    widths: tuple[int, ...]
    batch_size: int


class Noting:
    """A `replica.Replica` that is a trainer, and notes."""

    def __init__(self, trainer: Trainer, path: Path) -> None:
        self._trainer = trainer
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trainer, name)

    def run(
        self,
        world: Exchange | None,
        shares: tuple[float, ...],
        stop: Callable[[], bool],
        tables: Tables | None = None,
    ) -> bool:
        version = world.place.version if isinstance(world, Communicator) else 0
        last = self._trainer.step
        self._note(Kind.BEGIN, version)

        def asked_between_steps() -> bool:
            nonlocal last
            if self._trainer.step != last:
                last = self._trainer.step
                self._note(Kind.STEP, version)
            return stop()

        try:
            finished = self._trainer.run(world, shares, asked_between_steps, tables)
        except WorldBroken:
            self._note(Kind.BROKEN, version)
            raise
        if self._trainer.step != last:
            self._note(Kind.STEP, version)
        self._note(Kind.STOPPED, version)
        return finished

    def _note(self, kind: Kind, version: int) -> None:
        os.write(self._file, _NOTE.pack(time.monotonic(), kind, version, self._trainer.step))


def program(network: Network) -> str:
    """The text of a worker's program."""
    return f"from benchmarks.noted_steps import Network, work\n\nwork({network!r})\n"


def work(network: Network) -> None:
    """What it does: trains until it is ended."""
    import keras
    import numpy as np
    import tensorflow as tf

    from sqlflow_elastic.elastic import Batch, TrainSettings
    from sqlflow_elastic.elastic.dataset import ArrayDataset
    from sqlflow_elastic.elastic.running import running
    from sqlflow_elastic.elastic.trainer import Trainer

    with running("noted") as run:
        if run.member is None:
            raise SystemExit("this program is a worker's")
        keras.utils.set_random_seed(0)
        inputs = keras.Input((network.widths[0],), name="x")
        x = inputs
        for width in network.widths[1:-1]:
            x = keras.layers.Dense(width, activation="relu")(x)
        model = keras.Model({"x": inputs}, keras.layers.Dense(network.widths[-1])(x))
        rng = np.random.default_rng(0)
        features = rng.normal(size=(20_000, network.widths[0])).astype(np.float32)
        labels = features[:, : network.widths[-1]].argmax(axis=1).astype(np.int32)

        def gradients(model: Any, batch: Batch) -> tuple[Any, list[Any]]:
            with tf.GradientTape() as tape:
                outputs = model(batch.features, training=True)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch.labels, outputs)
                loss = tf.reduce_sum(batch.weights * losses)
            return loss, tape.gradient(loss, model.trainable_variables)

        trainer = Trainer(
            model,
            gradients,
            [(keras.optimizers.Adam(1e-4), model.trainable_variables)],
            ArrayDataset({"x": features}, labels),
            TrainSettings(epochs=1_000_000, batch_size=network.batch_size, verbose=0),
            emit=run.emit,
        )
        run.member.train(Noting(trainer, _notes(run.folder) / run.member.name), None)


class Training:
    """Such a job while it runs.

    Attributes:
        changes: what it told of its worlds so far.
    """

    def __init__(self, cluster: LocalCluster, folder: JobFolder, network: Network, workers: int) -> None:
        self.changes: list[WorldChanged] = []
        self._cluster = cluster
        self._folder = folder
        _notes(folder).mkdir()
        request = JobRequest(
            JobKind.TRAIN, "noted", "", workers=workers, batch_size=network.batch_size, scaling=Scaling.ALL
        )
        self._job = Job(folder, program(network), cluster, folder.summary, request)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="job")
        self._thread.start()

    def pids(self) -> dict[str, int]:
        """Of its workers that run, by name."""
        statuses = self._cluster.list(self._job.id)
        return {s.name: s.pid for s in statuses if s.role is Role.WORKER and s.phase is Phase.RUNNING and s.pid}

    def world_of(self, size: int, after: int = 0) -> WorldChanged:
        """Wait for the first world of so many members, of a version above ``after``."""

        def found() -> WorldChanged | None:
            return next((c for c in tuple(self.changes) if c.version > after and len(c.members) == size), None)

        return self._wait(found, f"no world of {size} after {after}")

    def settled(self, size: int, steps: int) -> WorldChanged:
        """Wait until the newest world has so many members and has taken so many steps at each."""

        def found() -> WorldChanged | None:
            world = self.changes[-1] if self.changes else None
            if world is None or len(world.members) != size:
                return None
            last = [self._last(name) for name in world.members]
            enough = all(note and note.version == world.version and note.step >= world.step + steps for note in last)
            return world if enough else None

        return self._wait(found, f"no world of {size} took {steps} steps")

    def notes(self, name: str) -> list[Note]:
        """A worker's, so far."""
        return [_note(*fields) for fields in _NOTE.iter_unpack(self._path(name).read_bytes())]

    def spans(self, name: str) -> dict[str, tuple[float, float]]:
        """What a worker did between steps, of the job's timeline: begin by `time.monotonic` and seconds, by name.

        Complete when the job is closed.
        """
        lines = self._folder.timeline.read_text(encoding="utf-8").splitlines()[1:]
        events = [json.loads(line.rstrip(",")) for line in lines]
        process = next(e["pid"] for e in events if e.get("name") == "process_name" and e["args"]["name"] == name)
        unix = time.time() - time.monotonic()
        spans = [e for e in events if e["ph"] == "X" and e["pid"] == process]
        return {e["name"]: (e["ts"] / 1e6 - unix, e["dur"] / 1e6) for e in spans}

    def close(self) -> None:
        """Stop it."""
        self._job.cancel()
        self._thread.join(SECONDS)

    def _wait(self, find: Callable[[], _Found | None], missing: str) -> _Found:
        deadline = time.monotonic() + SECONDS
        while (found := find()) is None:
            if self._error is not None or time.monotonic() > deadline:
                raise RuntimeError(missing) from self._error
            time.sleep(_LOOK_SECONDS)
        return found

    def _path(self, name: str) -> Path:
        return _notes(self._folder) / name

    def _last(self, name: str) -> Note | None:
        path = self._path(name)
        if not path.exists() or not (size := path.stat().st_size):
            return None
        with path.open("rb") as file:
            file.seek(size - _NOTE.size)
            return _note(*_NOTE.unpack(file.read(_NOTE.size)))

    def _run(self) -> None:
        try:
            for event in self._job.events():
                if isinstance(event, WorldChanged):
                    self.changes.append(event)
        except BaseException as error:  # noqa: BLE001 - told by who waits
            self._error = error


def _notes(folder: JobFolder) -> Path:
    return folder.path / "notes"


def _note(at: float, kind: int, version: int, step: int) -> Note:
    return Note(at, Kind(kind), version, step)


@contextmanager
def training(network: Network, workers: int) -> Iterator[Training]:
    """A job that trains with so many workers, on a cluster that has TensorFlow imported."""
    with (
        tempfile.TemporaryDirectory() as root,
        LocalCluster(slots=workers) as cluster,
        job_folder(Path(root)) as folder,
    ):
        running = Training(cluster, folder, network, workers)
        try:
            yield running
        finally:
            running.close()
