"""Real trainings under attack: compiled from SQL, slowed down until they are told to hurry, their weights kept."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic import language
from sqlflow_elastic.cluster import Cluster
from sqlflow_elastic.compiler import compile_statement
from sqlflow_elastic.compiler.plan import TrainPlan
from sqlflow_elastic.datasource import DataSource, write_snapshot
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.events import Progress
from sqlflow_elastic.language import ast
from sqlflow_elastic.models.artifact import NETWORK_FILES
from tests.chaos.trial import Trial

Weights = Mapping[str, NDArray[Any]]

#: There is time for all members to come, and for attacks.
_SLOW = """
from tests.chaos.slow import slow_down

slow_down(0.15)
"""
_WIDE = """
import keras

keras.config.set_floatx("float64")
"""


@dataclass(frozen=True)
class Training:
    """A TO TRAIN statement on its data source.

    Attributes:
        wide: whether it computes in float64.
    """

    source: DataSource
    sql: str
    wide: bool = False

    def plan(self) -> TrainPlan:
        (statement,) = language.parse(self.sql, self.source.dialect)
        assert isinstance(statement, ast.Train)
        plan = compile_statement(statement, self.sql, self.source)
        assert isinstance(plan, TrainPlan)
        return plan


class TrainingTrial(Trial):
    """See `Trial`.

    Args:
        training: what is trained.
        workers: how many do it.
        before: what its program does first.

    Attributes:
        weights: by the variables' paths in the stored network; of a job that has ended well.
        summary: its figures.
    """

    def __init__(self, cluster: Cluster, root: Path, training: Training, workers: int, before: str = "") -> None:
        self._training = training
        self._plan = training.plan()
        self.weights: Weights = {}
        self.summary: dict[str, Any] = {}
        super().__init__(
            cluster,
            root,
            before + _SLOW + (_WIDE if training.wide else "") + self._plan.program,
            dataclasses.replace(self._plan.request, workers=workers, scaling=Scaling.ALL),
        )

    def _prepare(self) -> None:
        write_snapshot(self._training.source, self._plan.select, str(self.folder.snapshot))

    def _collect(self) -> None:
        self.summary = json.loads(self.folder.summary.read_text(encoding="utf-8"))
        with zipfile.ZipFile(self.folder.trained) as archive:
            network = archive.read(NETWORK_FILES[0])
        with zipfile.ZipFile(io.BytesIO(network)) as archive:
            stored = io.BytesIO(archive.read("model.weights.h5"))
        with h5py.File(stored) as file:
            found: dict[str, NDArray[Any]] = {}
            file.visititems(lambda name, item: found.update({name: item[()]} if isinstance(item, h5py.Dataset) else {}))
        self.weights = {name: value for name, value in found.items() if np.issubdtype(value.dtype, np.floating)}

    @property
    def step(self) -> int:
        """Told last."""
        done = [event.done for event in self.events if isinstance(event, Progress) and event.phase == "training"]
        return done[-1] if done else 0


def difference(one: Weights, other: Weights) -> float:
    """How far weights are from others: of each variable the norm of the difference by the norm, and the largest."""
    assert one.keys() == other.keys()
    assert one
    return max(float(np.linalg.norm(one[name] - other[name]) / np.linalg.norm(other[name])) for name in one)
