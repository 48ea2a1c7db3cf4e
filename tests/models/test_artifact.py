import json
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pytest

from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.models.artifact import load_artifact, read_features, save_artifact
from sqlflow_elastic.models.features import (
    CategoryId,
    ClassLabel,
    Column,
    Cross,
    Dense,
    Embedding,
    Encoder,
    FeatureInputs,
    Indicator,
)
from sqlflow_elastic.models.features.statistics import learn
from tests.models.features.rows import fields_of

BATCH = pa.record_batch(
    {"age": [20.0, None, 60.0], "城市": ["a", "b", None], "ids": ["1,2", None, "0"], "y": ["no", "yes", "no"]}
)
FIELDS = fields_of({"age": "float", "城市": "text", "ids": "text", "y": "text"})
COLUMNS: dict[str, list[Column]] = {
    "wide": [Indicator("城市"), Cross(["城市", CategoryId("ids", 9)], 20)],
    "deep": [Dense("age"), Embedding("城市", 3), Embedding(CategoryId("ids", 9), 2, "mean")],
}
LABEL = ClassLabel("y")
STATISTICS = learn([c for group in COLUMNS.values() for c in group], FIELDS, LABEL, [BATCH])


class Plain(keras.layers.Layer):  # type: ignore[misc]
    """A user's layer that Keras is not told of and that does not describe its arguments."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function
        self._inner = keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self._function(self._inner(inputs))


class Network(keras.Model):  # type: ignore[misc]
    """A user's subclassed model over the dense features."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self._hidden = keras.layers.Dense(units)
        self._out = keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self._out(self._hidden(inputs))


def encoder() -> Encoder:
    return Encoder(COLUMNS, FIELDS, STATISTICS, LABEL)


def wide_and_deep() -> keras.Model:
    inputs = FeatureInputs(encoder())
    x = keras.layers.Dense(4, activation="relu")(inputs.dense("deep"))
    return inputs.model(keras.layers.Add()([keras.layers.Dense(1)(x), inputs.linear("wide", 1)]))


def saved(path: Path, model: keras.Model, extra: Any = None) -> Path:
    save_artifact(
        path, columns=COLUMNS, fields=FIELDS, label=LABEL, statistics=STATISTICS, model=model, extra=extra or {}
    )
    return path


def test_round_trip(tmp_path: Path) -> None:
    model = wide_and_deep()
    artifact = load_artifact(saved(tmp_path / "model", model, {"name": "男", "metrics": [0.5]}))
    assert artifact.extra == {"name": "男", "metrics": [0.5]}
    assert artifact.columns == {name: tuple(group) for name, group in COLUMNS.items()}
    assert (artifact.fields, artifact.label, artifact.statistics) == (tuple(FIELDS), LABEL, STATISTICS)
    expected = model(encoder().encode(BATCH)).numpy()
    np.testing.assert_array_equal(artifact.model(artifact.encoder.encode(BATCH)).numpy(), expected)
    assert artifact.encoder.decode_label(np.array([1, 0])).to_pylist() == ["yes", "no"]
    assert read_features(tmp_path / "model") == artifact.features
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_weights_go_into_a_network_built_again(tmp_path: Path) -> None:
    model = wide_and_deep()
    path = saved(tmp_path / "model", model)
    again = wide_and_deep()
    load_artifact(path).load_weights_into(again)
    arrays = encoder().encode(BATCH)
    np.testing.assert_array_equal(again(arrays).numpy(), model(arrays).numpy())


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", wide_and_deep())
    inputs = FeatureInputs(encoder())
    other = inputs.model(keras.layers.Dense(7)(inputs.dense("deep")))
    with pytest.raises(ModelStoreError, match="the stored weights do not fit this network"):
        load_artifact(path).load_weights_into(other)


@pytest.mark.parametrize("make", [lambda: Network(3), lambda: Plain(keras.ops.tanh), lambda: keras.layers.Lambda(abs)])
def test_networks_that_keras_cannot_build_from_a_file_keep_their_weights(tmp_path: Path, make: Any) -> None:
    def build() -> keras.Model:
        inputs = FeatureInputs(encoder())
        return inputs.model(keras.layers.Dense(2)(make()(inputs.dense("deep"))))

    model, again = build(), build()
    artifact = load_artifact(saved(tmp_path / "model", model))
    with pytest.raises(ModelStoreError, match="the network cannot be built from the stored model alone"):
        artifact.model  # noqa: B018
    artifact.load_weights_into(again)
    arrays = encoder().encode(BATCH)
    np.testing.assert_array_equal(again(arrays).numpy(), model(arrays).numpy())


def test_a_subclassed_model_as_the_whole_network(tmp_path: Path) -> None:
    class Whole(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._dense = keras.layers.Dense(1)

        def call(self, arrays: Any) -> Any:
            return self._dense(arrays["numbers"])

    arrays = encoder().encode(BATCH)
    model, again = Whole(), Whole()
    expected = model(arrays).numpy()
    again(arrays)
    load_artifact(saved(tmp_path / "model", model)).load_weights_into(again)
    np.testing.assert_array_equal(again(arrays).numpy(), expected)


def test_saving_replaces_the_file_whole_or_not_at_all(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", wide_and_deep(), {"version": 1})
    with pytest.raises(TypeError, match="not JSON serializable"):
        saved(path, wide_and_deep(), {"version": object()})
    assert load_artifact(path).extra == {"version": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("content", [None, b"", b"no zip at all"])
def test_damaged_files(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "model").write_bytes(content)
    with pytest.raises(ModelStoreError, match="the model's file is missing or damaged"):
        load_artifact(tmp_path / "model")


def test_a_damaged_network(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", wide_and_deep())
    content = bytearray(path.read_bytes())
    content[content.index(b"network.keras") + 2000] ^= 255
    path.write_bytes(content)
    with pytest.raises(ModelStoreError, match="missing or damaged"):
        load_artifact(path).model  # noqa: B018


def test_a_file_without_its_parts_or_of_a_newer_format(tmp_path: Path) -> None:
    for features, message in (
        ("{}", "missing or damaged"),
        (json.dumps({"format": 99}), "written by a newer version .format 99, known is 1"),
    ):
        with zipfile.ZipFile(tmp_path / "model", "w") as archive:
            archive.writestr("features.json", features)
            archive.writestr("extra.json", "{}")
        with pytest.raises(ModelStoreError, match=message):
            read_features(tmp_path / "model")
