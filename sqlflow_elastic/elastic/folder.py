"""A job's folder: who finds what where."""

from __future__ import annotations

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
    def log(self) -> Path:
        """What the job's process printed."""
        return self.path / "log"

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

    def clear(self) -> None:
        """Forget rows, checkpoints and result, so that a program that is run again does all of it again."""
        for path in (self.snapshot, self.validation, self.encoded, self.encoded_validation, self.checkpoints):
            shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(self.summary.parent)
        self.statistics.unlink(missing_ok=True)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON whole or not at all: aside, synced, then renamed into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
