"""`evaluate`: the call an evaluation program ends in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
import pyarrow as pa

from sqlflow_elastic import events
from sqlflow_elastic.elastic.folder import write_json
from sqlflow_elastic.elastic.metrics import Measurement
from sqlflow_elastic.elastic.outputs import outputs_of, task_of
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
        if artifact.encoder.label is None:
            raise DataError(f"the model {name} has no label to measure it by")
        if not snapshot.rows:
            raise DataError("there are no rows to evaluate")
        measurement = Measurement(metrics, task_of(artifact))
        for batch, first, outputs in outputs_of(run, artifact, snapshot, "evaluating", _BATCH_ROWS):
            labels = pa.record_batch({artifact.encoder.label.field: batch.column(label)})
            with values_of(snapshot):
                expected = artifact.encoder.encode_label(labels, first)
            measurement.update(expected, outputs)
        values = measurement.results()
        run.emit(events.Metrics("evaluation", 0, None, values))
        write_json(run.folder.summary, {"metrics": values, "rows": snapshot.rows})
        run.done(f"evaluated on {snapshot.rows:,} rows", run.folder.summary)
