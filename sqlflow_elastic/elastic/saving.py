"""Training's state to and from checkpoints."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from sqlflow_elastic.elastic.checkpoints import Checkpoint, CheckpointFolder
from sqlflow_elastic.elastic.position import Extent, Position
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.ways import Way
from sqlflow_elastic.events import Event

#: Settings that may differ between a run and the one that resumes it.
_FREE = ("checkpoint_secs", "checkpoint_steps", "log_every_n_steps", "verbose", "way", "validation_fraction")


@dataclass(frozen=True)
class Resumed:
    """Where a run goes on.

    Attributes:
        position: how far training was.
        best: the best weights so far, one array a model variable; None without early stopping.
        way: how steps were run; None if that was not decided yet.
    """

    position: Position
    best: list[Any] | None
    way: Way | None


class Saver:
    """Saves and restores the variables of a model and its optimizers, with the position of training.

    Args:
        folder: where checkpoints are.
        settings: when they are due.
        extent: how long training is.
        model: random seeds and moving statistics among its variables.
        optimizer_variables: the optimizers' state.
        emit: takes warnings.
    """

    def __init__(
        self,
        folder: Path,
        settings: TrainSettings,
        extent: Extent,
        model: keras.Model,
        optimizer_variables: Sequence[keras.Variable],
        emit: Callable[[Event], None],
    ) -> None:
        self._folder = CheckpointFolder(folder, emit)
        self._settings = settings
        self._groups = {"model": list(model.variables), "optimizer": list(optimizer_variables)}
        self._fingerprint = _fingerprint(settings, extent, self._groups)
        self._saved_at = time.monotonic()

    def resume(self) -> Resumed | None:
        """Set the variables as the newest usable checkpoint has them; None, and nothing set, if there is none."""
        checkpoint = self._folder.latest(self._fingerprint)
        if checkpoint is None:
            return None
        for group, variables in self._groups.items():
            restore(variables, [checkpoint.arrays[f"{group}/{i}"] for i in range(len(variables))])
        description = checkpoint.description
        best = None
        if description["best"]:
            best = [checkpoint.arrays[f"best/{i}"] for i in range(len(self._groups["model"]))]
        way = None if description["way"] is None else Way.parse(description["way"])
        return Resumed(Position(**description["position"]), best, way)

    def steps_until_due(self, step: int) -> int:
        """After how many more steps one is due by their number; many if never."""
        every = self._settings.checkpoint_steps
        return 2**31 if every is None else every - step % every

    def save_if_due(self, position: Position, best: list[Any] | None, way: Way | None) -> None:
        """`save` if it is time; not while the one before is still being written."""
        seconds, every = self._settings.checkpoint_secs, self._settings.checkpoint_steps
        by_time = seconds is not None and time.monotonic() - self._saved_at >= seconds and not self._folder.busy
        if by_time or (every is not None and position.step % every == 0):
            self.save(position, best, way)

    def save(self, position: Position, best: list[Any] | None, way: Way | None) -> None:
        """Copy the state in memory and begin to write it."""
        arrays = {
            f"{group}/{i}": value
            for group, variables in self._groups.items()
            for i, value in enumerate(copies(variables))
        }
        arrays |= {f"best/{i}": value for i, value in enumerate(best or [])}
        description = {
            "fingerprint": self._fingerprint,
            "position": dataclasses.asdict(position),
            "best": best is not None,
            "way": None if way is None else str(way),
        }
        self._folder.save(Checkpoint(position.step, arrays, description))
        self._saved_at = time.monotonic()

    def close(self) -> None:
        """Return when the last one is on disk or given up."""
        self._folder.close()


def copies(variables: Sequence[keras.Variable]) -> list[Any]:
    """The variables' values now. TensorFlow copies a buffer when it is next written, not here."""
    return [variable.value.read_value() for variable in variables]


def restore(variables: Sequence[keras.Variable], values: Sequence[Any]) -> None:
    """Set variables."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _fingerprint(settings: TrainSettings, extent: Extent, groups: dict[str, list[keras.Variable]]) -> str:
    """A digest of all that two runs must have in common for one to resume the other."""
    facts = {
        "settings": {name: value for name, value in dataclasses.asdict(settings).items() if name not in _FREE},
        "rows": extent.rows,
        "variables": {
            # Not their names: Keras numbers layers through the life of a process.
            group: [[list(variable.shape), str(variable.dtype)] for variable in variables]
            for group, variables in groups.items()
        },
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
