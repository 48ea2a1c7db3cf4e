"""`predict`: the call a prediction program ends in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import keras
import pyarrow as pa

from sqlflow_elastic.elastic.outputs import Inference, meaning, no_outputs
from sqlflow_elastic.elastic.running import RowSource, running
from sqlflow_elastic.elastic.snapshot import join_parts, write_part
from sqlflow_elastic.errors import DataError
from sqlflow_elastic.models.features.inputs import FeatureInputs

#: Rows that a worker takes at a time.
TASK_ROWS = 65_536


def predict(
    *,
    name: str,
    rows: RowSource,
    target: str,
    batch_size: int,
    build_model: Callable[[FeatureInputs], keras.Model] | None = None,
) -> None:
    """Predict rows with a trained model and leave the predictions, in the rows' order, in the job's folder.

    The workers of a job share the rows: whoever is free takes the next range. A range whose worker died is done again,
    and takes the place of what was there.

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
        schema = pa.schema([(target, meaning(artifact, no_outputs(artifact)).type)])
        predictions = str(run.folder.predictions)
        ranges = snapshot.ranges(TASK_ROWS)

        inference = Inference(run, artifact, snapshot, "predicting", batch_size)

        def predicted(start: int, stop: int) -> Iterator[pa.RecordBatch]:
            for _, _, outputs in inference.over(start, stop):
                yield pa.record_batch([meaning(artifact, outputs)], schema=schema)

        for index in run.tasks("predicting", len(ranges)):
            write_part(predictions, index, schema, predicted(*ranges[index]))
        for _ in run.tasks("saving", 1):
            join_parts(predictions, len(ranges), schema, snapshot.description)
        run.completed(f"predicted {snapshot.rows:,} rows", run.folder.predictions)
