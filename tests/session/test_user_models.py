"""Networks of the user's own, in a module of the working folder: from training to a SavedModel."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlflow_elastic
from sqlflow_elastic import Session
from sqlflow_elastic.errors import JobError, ModelStoreError

NETS = '''
import keras


class Plain(keras.Model):
    """As Keras asks for it: plain arguments."""

    def __init__(self, units: int = 4, **options):
        super().__init__(**options)
        self.hidden = keras.layers.Dense(units, activation="relu")
        self.last = keras.layers.Dense(3)

    def call(self, features):
        return self.last(self.hidden(features))


class OfColumns(keras.Model):
    """As SQLFlow's users wrote them: columns in, and nothing that says how to make it again."""

    def __init__(self, feature_columns, hidden_units: list[int] = [4], n_classes: int = 2):
        super().__init__()
        assert len(feature_columns) == 2
        self.hidden = [keras.layers.Dense(units, activation="relu") for units in hidden_units]
        self.last = keras.layers.Dense(n_classes)

    def call(self, features):
        for layer in self.hidden:
            features = layer(features)
        return self.last(features)


class Twice(keras.layers.Layer):
    def call(self, features):
        return features * 2.0


def with_a_layer(inputs, units: int = 4) -> keras.Model:
    """A layer that Keras has never heard of."""
    return inputs.model(keras.layers.Dense(3)(Twice()(keras.layers.Dense(units)(inputs.dense()))))


def of_width(inputs, width: int) -> keras.Model:
    return inputs.model(keras.layers.Dense(width)(inputs.dense()))
'''

# In a process that has never seen the network's module, nor this package.
SERVE = """
import json, sys
import tensorflow as tf
rows = json.load(sys.stdin)
model = tf.saved_model.load(sys.argv[1])
print(json.dumps(model.serve({n: tf.constant(v, tf.float64) for n, v in rows.items()}).numpy().argmax(1).tolist()))
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("working")
    (folder / "nets_of_mine.py").write_text(NETS)
    with pytest.MonkeyPatch.context() as patch, sqlflow_elastic.connect("duckdb://", work_dir=folder) as session:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        session.sql("CREATE TABLE t AS SELECT sin(i) AS a, cos(i) AS b, i % 3 AS y FROM range(60) AS r (i)")
        yield session


@pytest.mark.parametrize("name", ["Plain", "OfColumns", "with_a_layer"])
def test_they_train_predict_evaluate_go_on_and_leave(session: Session, tmp_path: Path, name: str) -> None:
    train = f"SELECT * FROM t TO TRAIN nets_of_mine.{name} WITH train.epoch = 2 LABEL y"
    session.sql(f"{train} INTO first; {train} USING first INTO model")
    session.sql("SELECT * FROM t TO PREDICT predicted.p USING model")
    predicted = session.sql("SELECT a, b, p FROM predicted").to_pydict()
    assert len(set(predicted["p"])) > 1
    accuracy = session.sql("SELECT * FROM t TO EVALUATE model LABEL y")["accuracy"][0].as_py()
    assert accuracy == session.sql("SELECT avg((p = y)::INT) FROM predicted")[0][0].as_py()
    session.export("model", tmp_path)
    assert (tmp_path / "model.keras").exists() == (name != "OfColumns")
    rows = json.dumps({field: predicted[field] for field in ("a", "b")})
    served = subprocess.run(
        [sys.executable, "-c", SERVE, tmp_path / "saved_model"],
        input=rows,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
    )
    assert json.loads(served.stdout) == predicted["p"]


@pytest.mark.parametrize(
    ("width", "label", "expected"),
    [
        (7, "y", "the label 'y' of 3 classes takes 3 logits a row: [rows, 3]"),
        (2, "y > 0 AS y", "the label 'y' of 2 classes takes one logit a row: [rows, 1]"),
        (2, "a * b AS y", "the label 'y' takes 1 number a row: [rows, 1]"),
    ],
)
def test_outputs_that_do_not_fit_the_label_are_told(session: Session, width: int, label: str, expected: str) -> None:
    with pytest.raises(JobError) as caught:
        session.sql(
            f"SELECT a, b, {label} FROM t TO TRAIN nets_of_mine.of_width WITH model.width = {width} LABEL y INTO wide"
        )
    assert str(caught.value) == f"the network's outputs are [rows, {width}], and {expected}"
    assert "wide" not in session.models()


def test_exporting_a_model_whose_code_is_gone_is_told(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("SELECT * FROM t TO TRAIN nets_of_mine.Plain WITH train.max_steps = 1 LABEL y INTO lost")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "working" not in path])
    sys.path_importer_cache.clear()
    with pytest.raises(ModelStoreError, match=r"'lost' is a 'nets_of_mine.Plain', and there is no such model any more"):
        session.export("lost", tmp_path)
