"""Networks with all their tables in them, made of such whose tables are in files."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.models import local_tables
from sqlflow_elastic.models.artifact import load_artifact
from sqlflow_elastic.models.export import export
from sqlflow_elastic.models.features import Encoder, FeatureInputs
from sqlflow_elastic.models.large_tables import folder_of
from sqlflow_elastic.models.local_tables import bags_of, fill, network_with_tables, take_weights
from tests.models import tabled

PLACEMENTS = [(), tabled.LAYERS[1:], tabled.LAYERS]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tabled.save(tmp_path / "model.artifact")
    return tmp_path / "model.artifact"


@pytest.mark.parametrize("served", PLACEMENTS, ids=len)
def test_it_is_the_network_that_held_its_tables(tmp_path: Path, served: tuple[str, ...]) -> None:
    tabled.save(tmp_path / "model.artifact", served)
    artifact = load_artifact(tmp_path / "model.artifact")
    expected = tabled.with_local_tables(artifact.model)
    whole = network_with_tables(artifact)
    assert not any(bag.served for bag in bags_of(whole).values())
    for value, right in zip(whole.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(value, right)


@pytest.mark.parametrize("trained", PLACEMENTS, ids=len)
@pytest.mark.parametrize("served", PLACEMENTS, ids=len)
def test_a_network_takes_what_it_holds_wherever_the_trained_one_has_it(
    tmp_path: Path, trained: tuple[str, ...], served: tuple[str, ...]
) -> None:
    tabled.save(tmp_path / "model.artifact", trained)
    artifact = load_artifact(tmp_path / "model.artifact")
    model = tabled.build(served, seed=tabled.SEED + 1)
    take_weights(model, artifact)
    expected = tabled.with_local_tables(artifact.model)
    tables = {id(bag.table) for bag in bags_of(model).values() if bag.served}
    for variable, right in zip(model.variables, expected.variables, strict=True):
        if id(variable) not in tables:
            np.testing.assert_array_equal(variable.numpy(), right.numpy())


def test_a_network_of_other_tables_takes_nothing(path: Path) -> None:
    artifact = load_artifact(path)
    columns = {tabled.INPUT: tabled.COLUMNS[:-1]}
    encoder = Encoder(columns, artifact.fields, artifact.statistics, artifact.label)
    with pytest.raises(ModelStoreError, match="do not fit"):
        take_weights(tabled.network(FeatureInputs(encoder)), artifact)


def test_a_network_that_its_program_builds_gets_them_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = load_artifact(path, tabled.network)
    expected = tabled.with_local_tables(artifact.model)

    def refuse(network: keras.Model) -> None:
        raise NotImplementedError

    monkeypatch.setattr(keras.saving, "serialize_keras_object", refuse)
    for value, right in zip(network_with_tables(artifact).get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(value, right)


def test_rows_that_were_never_trained_are_those_of_the_training_that_it_was(path: Path) -> None:
    artifact = load_artifact(path)
    other = tabled.build(served=(), seed=tabled.SEED + 1)
    for file in artifact.tables.files:  # type: ignore[union-attr]
        fill(bags_of(other), file.spec, file.chunks(7))
    right = bags_of(tabled.with_local_tables(artifact.model))
    for stream, bag in bags_of(other).items():
        np.testing.assert_array_equal(bag.table.numpy(), right[stream].table.numpy())


def test_an_export_holds_them(path: Path, tmp_path: Path) -> None:
    export(path, tmp_path / "exported")
    artifact = load_artifact(path)
    logits = tabled.with_local_tables(artifact.model)(artifact.encoder.encode(tabled.BATCH)).numpy()
    expected = np.concatenate([1 / (1 + np.exp(logits)), 1 / (1 + np.exp(-logits))], axis=1)
    model = keras.saving.load_model(tmp_path / "exported" / "model.keras")
    np.testing.assert_allclose(model(artifact.encoder.raw_tensors(tabled.BATCH)).numpy(), expected, atol=1e-6)


def test_tables_that_are_too_large_are_refused_with_what_to_do(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_tables, "MOST_BYTES", 1000)
    with pytest.raises(ModelStoreError, match=r"they take 6,880 bytes, of 1,000 at most.*; predict with TO PREDICT"):
        export(path, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_a_damaged_table_is_not_exported(path: Path, tmp_path: Path) -> None:
    file = folder_of(path) / "0.table"
    data = bytearray(file.read_bytes())
    data[8] ^= 1
    file.write_bytes(data)
    with pytest.raises(ModelStoreError, match=r"0.table is missing or damaged \(a checksum is wrong\)"):
        export(path, tmp_path / "exported")
