"""All of a training's state: what a checkpoint holds and what one member gives to another."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from sqlflow_elastic.elastic.checkpoints import Checkpoint
from sqlflow_elastic.elastic.moving_tables import BEST, MODEL, OPTIMIZER, PlacedTables
from sqlflow_elastic.elastic.position import Extent, Position
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.ways import Way
from sqlflow_elastic.errors import JobError

#: Settings that may differ between a run and the one that goes on from its state.
_FREE = (
    "checkpoint_secs",
    "checkpoint_steps",
    "log_every_n_steps",
    "verbose",
    "way",
    "validation_fraction",
    "strategy",
    "servers",
    "worker_memory",
)


class TrainingState:
    """The variables of a model and its optimizers, the position of training, and the best weights so far.

    Args:
        settings: how the model is trained.
        extent: how long training is.
        model: built; random seeds and moving statistics are among its variables.
        optimizer_variables: the optimizers' state.
        tables: where those are that could be elsewhere.

    Attributes:
        position: how far training is.
        best: the best weights so far, one tensor or array a model variable; None without early stopping.
        keeps_best: whether there are best weights to keep.
        fingerprint: a digest of all that two processes must have in common for one to go on from the other's state,
            but for the places of tables: with these elsewhere, it is converted.
    """

    def __init__(
        self,
        settings: TrainSettings,
        extent: Extent,
        model: keras.Model,
        optimizer_variables: Sequence[keras.Variable],
        tables: PlacedTables,
    ) -> None:
        self.position = Position()
        self.best: list[Any] | None = None
        self.keeps_best = settings.patience is not None
        self._model = list(model.variables)
        self._groups = {MODEL: self._model, OPTIMIZER: list(optimizer_variables)}
        self._tables = tables
        self.fingerprint = _fingerprint(settings, extent, self._groups, tables)

    def keep_best(self) -> None:
        """The weights as they are now are the best ones."""
        self.best = _copies(self._model)

    def take_back_best(self) -> None:
        """Set the model's variables to the best ones, if any were kept."""
        if self.best is not None:
            _set(self._model, self.best)

    def capture(self, way: Way | None) -> Checkpoint:
        """The state as it is between two steps.

        Args:
            way: how steps are run; None if that is not decided yet.
        """
        arrays = {
            f"{group}/{i}": value
            for group, variables in self._groups.items()
            for i, value in enumerate(_copies(variables))
        }
        arrays |= {f"{BEST}/{i}": value for i, value in enumerate(self.best or [])}
        description = {
            "fingerprint": self.fingerprint,
            "position": dataclasses.asdict(self.position),
            "best": self.best is not None,
            "way": None if way is None else str(way),
            "tables": self._tables.description,
        }
        return Checkpoint(self.position.step, arrays, description)

    def restore(self, checkpoint: Checkpoint) -> Way | None:
        """Take on what `capture` gave, here or in another process: whole, or not at all. Returns the way it tells.

        Raises:
            JobError: it is of another training, or its tables are elsewhere.
        """
        arrays, description = checkpoint.arrays, checkpoint.description
        if description.get("fingerprint") != self.fingerprint:
            raise JobError("a state is of another training than this one")
        groups = dict(self._groups)
        try:
            if description["best"]:
                groups[BEST] = self._model
            values = {group: _checked(arrays, group, variables) for group, variables in groups.items()}
            position = Position(**description["position"])
            way = None if description["way"] is None else Way.parse(description["way"])
        except (KeyError, TypeError, ValueError) as error:
            raise JobError(f"a state is of another training than this one: {error}") from error
        for group, variables in self._groups.items():
            _set(variables, values[group])
        self.position, self.best = position, values.get(BEST)
        return way


def _copies(variables: Sequence[keras.Variable]) -> list[Any]:
    """The variables' values now. TensorFlow copies a buffer when it is next written, not here."""
    return [variable.value.read_value() for variable in variables]


def _set(variables: Sequence[keras.Variable], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _checked(arrays: Mapping[str, Any], group: str, variables: Sequence[keras.Variable]) -> list[Any]:
    """A group's values, which fit its variables. Raises: KeyError, ValueError."""
    values = [arrays[f"{group}/{i}"] for i in range(len(variables))]
    for i, (variable, value) in enumerate(zip(variables, values, strict=True)):
        if tuple(value.shape) != tuple(variable.shape) or np.dtype(value.dtype).name != str(variable.dtype):
            raise ValueError(f"{group}/{i} is {value.dtype} {value.shape}, not {variable.dtype} {variable.shape}")
    return values


def _fingerprint(
    settings: TrainSettings, extent: Extent, groups: dict[str, list[keras.Variable]], tables: PlacedTables
) -> str:
    facts = {
        "settings": {name: value for name, value in dataclasses.asdict(settings).items() if name not in _FREE},
        "rows": extent.rows,
        "variables": {
            # Not their names: Keras numbers layers through the life of a process.
            group: [[tables.shape(group, i, variable), str(variable.dtype)] for i, variable in enumerate(variables)]
            for group, variables in groups.items()
        },
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
