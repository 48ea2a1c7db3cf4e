"""`predict`: the call a prediction program ends in."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import keras
import pyarrow as pa

from sqlflow_elastic.elastic.outputs import meaning, no_outputs, outputs_of
from sqlflow_elastic.elastic.running import RowSource, running
from sqlflow_elastic.elastic.snapshot import SnapshotWriter
from sqlflow_elastic.errors import DataError
from sqlflow_elastic.models.features.inputs import FeatureInputs


def predict(
    *,
    name: str,
    rows: RowSource,
    target: str,
    batch_size: int,
    build_model: Callable[[FeatureInputs], keras.Model] | None = None,
) -> None:
    """Predict rows with a trained model and leave the predictions, in the rows' order, in the job's folder.

    Args:
        name: the model's name.
        rows: where the rows come from when the program runs alone; a job finds their snapshot in its folder.
        target: the name of the predicted column.
        batch_size: rows that the network sees at a time.
        build_model: see `sqlflow_elastic.models.artifact.load_artifact`.
    """
    with running(name) as run:
        artifact = run.trained_model(build_model)
        snapshot = run.rows(rows, run.folder.snapshot)
        if not snapshot.rows:
            raise DataError("there are no rows to predict")
        shutil.rmtree(run.folder.predictions, ignore_errors=True)
        schema = pa.schema([(target, meaning(artifact, no_outputs(artifact)).type)])
        with SnapshotWriter(str(run.folder.predictions), schema, snapshot.description) as writer:
            for _, _, outputs in outputs_of(run, artifact, snapshot, "predicting", batch_size):
                writer.write(pa.record_batch([meaning(artifact, outputs)], schema=schema))
        run.done(f"predicted {snapshot.rows:,} rows", run.folder.predictions)
