"""What a trained network says of rows: its outputs, batch by batch, and what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.metrics import Task
from sqlflow_elastic.elastic.predictor import Predictor
from sqlflow_elastic.elastic.running import Run, values_of
from sqlflow_elastic.elastic.served import ServedTables
from sqlflow_elastic.elastic.snapshot import Snapshot
from sqlflow_elastic.models.artifact import Artifact
from sqlflow_elastic.models.features.columns import ClassLabel, NumberLabel

Outputs = NDArray[Any]


def task_of(artifact: Artifact) -> Task:
    """What the network's outputs are."""
    if not isinstance(artifact.label, ClassLabel):
        return Task.REGRESSION
    return Task.BINARY if len(artifact.statistics.classes) == 2 and _width(artifact) == 1 else Task.MULTICLASS


def no_outputs(artifact: Artifact) -> Outputs:
    """What the network says of no rows: float32 [0, width]."""
    return np.zeros((0, _width(artifact)), np.float32)


def _width(artifact: Artifact) -> int:
    return int(artifact.model.outputs[0].shape[-1])


class Inference:
    """Runs a network over rows of a snapshot, traced once.

    Args:
        run: told the progress.
        artifact: the trained model.
        snapshot: where the rows are.
        phase: what to call this.
        batch_rows: rows that the network sees at a time.
    """

    def __init__(self, run: Run, artifact: Artifact, snapshot: Snapshot, phase: str, batch_rows: int) -> None:
        self._run = run
        self._encoder = artifact.encoder
        self._snapshot = snapshot
        self._phase = phase
        self._batch_rows = batch_rows
        tables = artifact.tables
        served = None if tables is None else ServedTables.stored(artifact.model, tables.specs)
        self._predictor = Predictor(artifact.model, served, tables)

    def over(self, start: int, stop: int) -> Iterator[tuple[pa.RecordBatch, int, Outputs]]:
        """Each batch of the rows ``start`` to ``stop``, the number of its first row, and its outputs, float [rows, …].

        Raises: DataError: a value cannot be encoded.
        """
        first = start
        for batch in self._run.counted(self._snapshot, self._phase, start, stop):
            with values_of(self._snapshot):
                dataset = ArrayDataset(self._encoder.encode(batch, first))
            yield batch, first, np.concatenate(list(self._predictor.run(dataset, self._batch_rows)))
            first += batch.num_rows


def meaning(artifact: Artifact, outputs: Outputs) -> pa.Array:
    """Outputs in the terms of the data: the most likely class as the label has it, or the number (float64).

    Several numbers a row become a text of them, separated by commas, as such labels are given.
    """
    match task_of(artifact):
        case Task.BINARY:
            return artifact.encoder.decode_label((outputs.reshape(-1) > 0).astype(np.int32))
        case Task.MULTICLASS:
            return artifact.encoder.decode_label(outputs.argmax(axis=-1).astype(np.int32))
        case Task.REGRESSION:
            if isinstance(artifact.label, NumberLabel) and artifact.label.shape > 1:
                return pa.array([",".join(map(str, row)) for row in outputs.tolist()])
            return pa.array(outputs.reshape(-1).astype(np.float64))
