"""What validation rows say about a model, and when that stops training."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np

from sqlflow_elastic.elastic.batch import SampleLosses
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.metrics import Measurement, Task
from sqlflow_elastic.elastic.predictor import Evaluator

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
    """

    def __init__(
        self,
        model: keras.Model,
        dataset: ArrayDataset,
        rows: int,
        sample_losses: SampleLosses | None,
        metrics: Sequence[str],
        task: Task | None,
    ) -> None:
        self._evaluator = Evaluator(model, sample_losses)
        self._dataset = dataset
        self._rows = min(rows, len(dataset))
        self._metrics = metrics
        self._task = task
        self._batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // dataset.row_bytes))

    def run(self) -> dict[str, float]:
        """``loss``: the mean weighted loss per sample, without regularization; then the metrics by their names."""
        total = 0.0
        measurement: Measurement | None = None
        for loss, outputs, labels, _ in self._evaluator.run(self._dataset, self._rows, self._batch_rows):
            total += loss
            if self._metrics and labels is not None:
                if measurement is None:
                    task = self._task or Task.of(labels, outputs)
                    measurement = Measurement(self._metrics, task)
                measurement.update(labels, outputs)
        values = {} if np.isnan(total) else {"loss": total / self._rows}
        return values if measurement is None else {**values, **measurement.results()}
