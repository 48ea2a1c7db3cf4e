import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pyarrow as pa
import pytest

from sqlflow_elastic.models.artifact import load_artifact, save_artifact
from sqlflow_elastic.models.export import export
from sqlflow_elastic.models.features import (
    Bucket,
    CategoryHash,
    CategoryId,
    ClassLabel,
    Column,
    Cross,
    Dense,
    Embedding,
    Encoder,
    FeatureInputs,
    Indicator,
    Kind,
    Label,
    NumberLabel,
    Sparse,
    TimeParts,
    WeightedCategory,
)
from sqlflow_elastic.models.features.statistics import learn
from tests.models.features.rows import fields_of

KINDS: dict[str, Kind] = {
    "age": "float",
    "城市": "text",
    "ids": "text",
    "kv": "text",
    "csv": "text",
    "user id": "integer",
    "seen": "time",
    "y": "integer",
}
COLUMNS: list[Column] = [
    Dense("age"),
    Indicator("城市"),
    Embedding(CategoryId("ids", 9), 4, "mean"),
    Indicator(WeightedCategory(Sparse("kv", 5, kv_delimiter=":"))),
    Dense("csv", 2),
    Embedding(CategoryHash("user id", 50), 4),
    TimeParts("seen"),
    Embedding(Cross(["城市", Bucket("age", [30])], 100), 4),
    Embedding(Cross(["user id", CategoryId("ids", 9)], 100), 4),
]
BATCH = pa.record_batch(
    {
        "age": [20.0, None, 61.5],
        "城市": ["北京", None, ""],
        "ids": ["1,2", None, "0"],
        "kv": ["0:0.5,4:2", "", None],
        "csv": ["1,2", None, "3,"],
        "user id": [2**60, None, -5],
        "seen": pa.array([1_700_000_000, None, -1], pa.timestamp("s")),
        "y": [0, 2, 1],
    }
)

SERVE = """
import json, sys
sys.modules["sqlflow_elastic"] = None  # the SavedModel needs nothing of it
import numpy as np
import tensorflow as tf

folder = sys.argv[1]
inputs = json.load(open(f"{folder}/model.json"))["inputs"]
rows = json.load(open(f"{folder}/rows.json"))
inputs["age"]["null"] = float(inputs["age"]["null"])
raw = {
    name: tf.constant([input["null"] if value is None else value for value in rows[name]], input["dtype"])
    for name, input in inputs.items()
}
model = tf.saved_model.load(f"{folder}/saved_model")
served = model.signatures["serving_default"](**{inputs[name]["signature_name"]: value for name, value in raw.items()})
np.save(f"{folder}/served.npy", np.stack([model.serve(raw), served["output_0"]]))
"""


@pytest.mark.parametrize(
    ("label", "units"), [(ClassLabel("y"), 3), (ClassLabel("y", [0, 1]), 1), (NumberLabel("y"), 1), (None, 2)]
)
def test_keras_file_equals_the_runtime(tmp_path: Path, label: Label | None, units: int) -> None:
    exported, encoder, network = trained(tmp_path, label, units)
    outputs = network(encoder.encode(BATCH)).numpy()
    expected = outputs
    if isinstance(label, ClassLabel):
        logits = np.concatenate([np.zeros_like(outputs), outputs], axis=1) if units == 1 else outputs
        expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    model = keras.saving.load_model(exported / "model.keras")
    np.testing.assert_allclose(model(encoder.raw_tensors(BATCH)).numpy(), expected, atol=1e-6)


def test_saved_model_needs_nothing_of_this_package(tmp_path: Path) -> None:
    exported, encoder, network = trained(tmp_path, ClassLabel("y"), 3)
    description = json.loads((exported / "model.json").read_text())
    assert description["classes"] == [0, 1, 2]
    assert description["inputs"]["user id"] == {
        "kind": "integer",
        "dtype": "int64",
        "null": -(2**63),
        "signature_name": "user_id",
    }
    rows = BATCH.to_pydict() | {"seen": [1_700_000_000, None, -1]}
    (exported / "rows.json").write_text(json.dumps(rows))
    subprocess.run([sys.executable, "-c", SERVE, str(exported)], check=True, cwd=tmp_path)
    expected = keras.ops.softmax(network(encoder.encode(BATCH))).numpy()
    np.testing.assert_allclose(np.load(exported / "served.npy"), [expected, expected], atol=1e-6)


def trained(folder: Path, label: Label | None, units: int) -> tuple[Path, Encoder, keras.Model]:
    """Export a network over all sorts of columns: the folder, and the artifact's encoder and network."""
    fields = fields_of(KINDS)
    batch = BATCH if not isinstance(label, ClassLabel) or label.classes is None else BATCH.take(pa.array([0, 2]))
    statistics = learn(COLUMNS, fields, label, [batch])
    columns = {"feature_columns": COLUMNS}
    inputs = FeatureInputs(Encoder(columns, fields, statistics, label))
    network = inputs.model(keras.layers.Dense(units)(keras.layers.Dense(8, "relu")(inputs.dense())))
    path = folder / "artifact"
    save_artifact(path, columns=columns, fields=fields, label=label, statistics=statistics, model=network, extra={})
    export(path, folder / "exported")
    artifact = load_artifact(path)
    return folder / "exported", artifact.encoder, artifact.model
