"""A job's folder: who finds what where."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlflow_elastic.elastic.snapshot import MANIFEST

#: Environment variable: the job's folder. A program without it runs alone, in a folder of its own beside it.
JOB_VARIABLE = "SQLFLOW_ELASTIC_JOB"

#: Environment variable: the file descriptor that takes the job's events, one line of JSON each.
EVENTS_VARIABLE = "SQLFLOW_ELASTIC_EVENTS_FD"


@dataclass(frozen=True)
class JobFolder:
    """The paths in a job's folder. The session writes the upper ones before the job starts, the job the lower ones."""

    path: Path

    @property
    def program(self) -> Path:
        """The generated program."""
        return self.path / "program.py"

    @property
    def snapshot(self) -> Path:
        """The rows of the statement's SELECT."""
        return self.path / "snapshot"

    @property
    def validation(self) -> Path:
        """The rows of ``validation.select``, if the statement has one."""
        return self.path / "validation"

    @property
    def model(self) -> Path:
        """The trained model to go on from, to predict with or to evaluate."""
        return self.path / "model.artifact"

    @property
    def lock(self) -> Path:
        """A file that the job's session holds locked while it lives."""
        return self.path / "lock"

    @property
    def token(self) -> Path:
        """The job's secret, by which its processes know each other; the owner's only."""
        return self.path / "token"

    @property
    def master(self) -> Path:
        """Where the job's master listens: JSON with its ``address``, host:port."""
        return self.path / "master.json"

    @property
    def state(self) -> Path:
        """The embedded state store: what is asked of the job, and how it stands."""
        return self.path / "state.db"

    @property
    def logs(self) -> Path:
        """What the job's processes printed, a file each."""
        return self.path / "logs"

    def log_of(self, name: str) -> Path:
        """What the process of a name printed."""
        return self.logs / f"{name}.log"

    @property
    def log(self) -> Path:
        """What the process of a job without master printed."""
        return self.log_of("main")

    @property
    def events(self) -> Path:
        """What the job told, as `events.to_json` writes it, one a line, each with the Unix time ``at`` besides."""
        return self.path / "events.jsonl"

    @property
    def timeline(self) -> Path:
        """What its processes did when, for a viewer such as Perfetto."""
        return self.path / "timeline.json"

    @property
    def tensorboard(self) -> Path:
        """Losses, metrics and speed over steps, for TensorBoard."""
        return self.path / "tensorboard"

    @property
    def encoded(self) -> Path:
        """The encoder's arrays over the snapshot."""
        return self.path / "encoded"

    @property
    def encoded_validation(self) -> Path:
        """The same over the validation rows."""
        return self.path / "encoded_validation"

    @property
    def statistics(self) -> Path:
        """What the features learned from the snapshot."""
        return self.path / "statistics.json"

    @property
    def checkpoints(self) -> Path:
        """The trainer's checkpoints."""
        return self.path / "checkpoints"

    @property
    def tables(self) -> Path:
        """The servers' snapshots of tables."""
        return self.path / "tables"

    @property
    def epochs(self) -> Path:
        """What the workers of an asynchronous training say of its epochs."""
        return self.path / "epochs"

    @property
    def strategy(self) -> Path:
        """How the training is run, as chosen once for all workers: JSON."""
        return self.path / "strategy.json"

    @property
    def trained(self) -> Path:
        """The artifact a training job ends with."""
        return self.path / "output" / "model.artifact"

    @property
    def summary(self) -> Path:
        """JSON figures about the finished job: metrics, rows, seconds, versions."""
        return self.path / "output" / "summary.json"

    @property
    def predictions(self) -> Path:
        """A snapshot of what a prediction job ends with: the predictions, row by row as in the snapshot."""
        return self.path / "output" / "predictions"

    @property
    def finished(self) -> bool:
        """Whether the job's result is there."""
        return self.summary.exists() or (self.predictions / MANIFEST).exists()

    def shrink(self) -> None:
        """Remove what a job that has ended needs no more: all but its program, its state, its logs and what it told."""
        kept = {self.program, self.lock, self.logs, self.events, self.timeline, self.tensorboard}
        for path in self.path.iterdir():
            if path in kept or path.name.startswith(self.state.name):  # SQLite has files beside its file
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()

    def clear(self) -> None:
        """Forget rows, checkpoints and result, so that a program that is run again does all of it again."""
        kept = (self.snapshot, self.validation, self.encoded, self.encoded_validation, self.checkpoints, self.tables)
        for path in kept:
            shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(self.summary.parent)
        for file in (self.statistics, self.strategy):
            file.unlink(missing_ok=True)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON whole or not at all."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1))


def write_text(path: Path, text: str) -> None:
    """Write a file for its owner only, whole or not at all: aside, synced, then renamed into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
