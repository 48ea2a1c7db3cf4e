"""`evaluate`: the call an evaluation program ends in."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import numpy as np
import pyarrow as pa

from sqlflow_elastic import events
from sqlflow_elastic.elastic.folder import write_json
from sqlflow_elastic.elastic.metrics import Measurement
from sqlflow_elastic.elastic.outputs import Inference, Outputs, task_of
from sqlflow_elastic.elastic.predicting import TASK_ROWS
from sqlflow_elastic.elastic.running import RowSource, running, values_of
from sqlflow_elastic.errors import DataError
from sqlflow_elastic.models.features.inputs import FeatureInputs

_BATCH_ROWS = 4096


def evaluate(
    *,
    name: str,
    rows: RowSource,
    label: str,
    metrics: Sequence[str],
    build_model: Callable[[FeatureInputs], keras.Model] | None = None,
) -> None:
    """Measure a trained model on labelled rows and leave the metrics in the job's folder.

    The workers of a job share the rows as in `predicting.predict`; one of them measures what all of them left, in the
    rows' order, so the metrics are those of a single process.

    Args:
        name: the model's name.
        rows: where the rows come from when the program runs alone; a job finds their snapshot in its folder.
        label: the field that holds the label, whatever it was called in training.
        metrics: what to measure, see `metrics.METRICS`.
        build_model: see `sqlflow_elastic.models.artifact.load_artifact`.
    """
    with running(name) as run:
        artifact = run.trained_model(build_model)
        snapshot = run.rows(rows, run.folder.snapshot)
        trained_label = artifact.encoder.label
        if trained_label is None:
            raise DataError(f"the model {name} has no label to measure it by")
        if not snapshot.rows:
            raise DataError("there are no rows to evaluate")
        measurement = Measurement(metrics, task_of(artifact))
        inference = Inference(run, artifact, snapshot, "evaluating", _BATCH_ROWS)
        ranges = snapshot.ranges(TASK_ROWS)
        scored = run.folder.summary.parent / "scored"
        for index in run.tasks("evaluating", len(ranges)):
            expected, outputs = [], []
            for batch, first, of_batch in inference.over(*ranges[index]):
                labels = pa.record_batch({trained_label.field: batch.column(label)})
                with values_of(snapshot):
                    expected.append(artifact.encoder.encode_label(labels, first))
                outputs.append(of_batch)
            _save(_part(scored, index), np.concatenate(expected), np.concatenate(outputs))
        for _ in run.tasks("measuring", 1):
            for index in range(len(ranges)):
                with np.load(_part(scored, index)) as part:
                    measurement.update(part["labels"], part["outputs"])
            values = measurement.results()
            run.emit(events.Metrics("evaluation", 0, None, values))
            write_json(run.folder.summary, {"metrics": values, "rows": snapshot.rows})
        run.completed(f"evaluated on {snapshot.rows:,} rows", run.folder.summary)


def _part(folder: Path, index: int) -> Path:
    return folder / f"part-{index:05d}.npz"


def _save(path: Path, labels: Outputs, outputs: Outputs) -> None:
    """Write a range's labels and outputs, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{secrets.token_hex(4)}.npz")
    try:
        with aside.open("wb") as file:
            np.savez(file, labels=labels, outputs=outputs)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
