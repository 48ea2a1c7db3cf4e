"""What validation rows say about a model."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.batch import SampleLosses
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.metrics import Measurement, Task
from sqlflow_elastic.elastic.predictor import Evaluator
from sqlflow_elastic.elastic.replica import Exchange
from sqlflow_elastic.elastic.served import ServedTables, StandInTables
from sqlflow_elastic.elastic.sharing import bounds
from sqlflow_elastic.elastic.tables.access import Rows

_BATCH_BYTES = 4 * 2**20
_BATCH_ROWS = 4096


class Validation:
    """Loss and metrics over validation rows.

    Args:
        model: built.
        dataset: the rows; its weights act on the loss, not on the metrics.
        rows: how many of them are read, from the first on.
        sample_losses: losses of single samples; None for no loss.
        metrics: names, see `metrics.METRICS`.
        task: what the outputs are; None to see it from the first labels and outputs.
        served: its tables that are on servers; None without.
    """

    def __init__(
        self,
        model: keras.Model,
        dataset: ArrayDataset,
        rows: int,
        sample_losses: SampleLosses | None,
        metrics: Sequence[str],
        task: Task | None,
        served: ServedTables | None = None,
    ) -> None:
        self._evaluator = Evaluator(model, sample_losses, served)
        self._served = served
        self._has_loss = sample_losses is not None
        self._dataset = dataset
        self._rows = min(rows, len(dataset))
        self._metrics = metrics
        self._task = task
        self._batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // dataset.row_bytes))

    def warm_up(self) -> None:
        """Trace what `run` needs."""
        self._measure(0, min(1, self._rows), None if self._served is None else StandInTables(self._served))

    def run(self, world: Exchange | None, shares: tuple[float, ...], tables: Rows | None = None) -> dict[str, float]:
        """``loss``: the mean weighted loss per sample, without regularization; then the metrics by their names.

        Each member measures a part of the rows, and all have the same values in the end. Metrics that count rows, such
        as AUC, do not depend on the parts; sums are added in another order. ``tables``: where served ones are.

        Raises:
            comm.WorldBroken: members did not all measure their part.
        """
        if world is None:
            loss, measurement = self._measure(0, self._rows, tables)
        else:
            ends = bounds(self._rows, world.place.size, shares)
            rank = world.place.rank
            parts = world.allgather(_packed(*self._measure(ends[rank], ends[rank + 1], tables)))
            loss, measurement = self._merged(parts)
        values = {"loss": loss / self._rows} if self._has_loss else {}
        return values if measurement is None else {**values, **measurement.results()}

    def _measure(self, start: int, stop: int, tables: Rows | None) -> tuple[float, Measurement | None]:
        """The sum of the losses of some rows and their metrics; None without metrics or without rows."""
        total = 0.0
        measurement: Measurement | None = None
        for loss, outputs, labels, _ in self._evaluator.run(self._dataset, start, stop, self._batch_rows, tables):
            total += loss
            if self._metrics and labels is not None:
                if measurement is None:
                    measurement = Measurement(self._metrics, self._task or Task.of(labels, outputs))
                measurement.update(labels, outputs)
        return total, measurement

    def _merged(self, parts: Sequence[memoryview]) -> tuple[float, Measurement | None]:
        """All members' parts, in the order of their ranks."""
        total = 0.0
        merged: Measurement | None = None
        for part in parts:
            arrays = _unpacked(part)
            total += float(arrays.pop("loss"))
            if arrays:
                measurement = Measurement.of(self._metrics, arrays)
                if merged is None:
                    merged = measurement
                else:
                    merged.merge(measurement)
        return total, merged


def _packed(loss: float, measurement: Measurement | None) -> bytes:
    """A JSON line that says what the arrays are, then their bytes one after the other."""
    arrays: dict[str, Any] = {} if measurement is None else measurement.arrays()
    arrays = {name: np.asarray(array) for name, array in {**arrays, "loss": np.array(loss)}.items()}
    header = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    return b"".join([json.dumps(header).encode(), b"\n", *(array.tobytes() for array in arrays.values())])


def _unpacked(part: memoryview) -> dict[str, NDArray[Any]]:
    # Not numpy's own format, whose header is parsed as Python, which threads of Python 3.11 cannot do at once.
    line, _, data = bytes(part).partition(b"\n")
    arrays, start = {}, 0
    for name, dtype, shape in json.loads(line):
        stop = start + np.dtype(dtype).itemsize * math.prod(shape)
        arrays[name] = np.frombuffer(data[start:stop], dtype).reshape(shape).copy()
        start = stop
    return arrays
