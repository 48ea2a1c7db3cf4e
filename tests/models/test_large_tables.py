"""Models whose tables are not in their networks: stored, used by jobs, and what is told of damage."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.predictor import Predictor
from sqlflow_elastic.elastic.served import ServedTables
from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.models import large_tables
from sqlflow_elastic.models.artifact import Artifact, load_artifact
from sqlflow_elastic.models.features.inputs import FeatureInputs
from sqlflow_elastic.models.large_tables import folder_of, lend_tables, open_tables, store_tables
from sqlflow_elastic.models.storage import Storage
from tests.models import tabled


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is too large for the database."""
    monkeypatch.setattr(large_tables, "WHOLE_BYTES", 0)


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    path = tmp_path / "output" / "model.artifact"
    path.parent.mkdir()
    tabled.save(path)
    return path


def used(artifact: Path, location: str, storage: Storage, tmp_path: Path) -> Artifact:
    """The model in another job's folder."""
    job = tmp_path / "job" / "model.artifact"
    job.parent.mkdir()
    if location:
        lend_tables(location, artifact, job, storage)
    job.write_bytes(artifact.read_bytes())
    return load_artifact(job, tabled.network)


def outputs(artifact: Artifact) -> NDArray[Any]:
    tables = artifact.tables
    assert tables is not None
    predictor = Predictor(artifact.model, ServedTables.stored(artifact.model, tables.specs), tables)
    return np.concatenate(list(predictor.run(ArrayDataset(artifact.encoder.encode(tabled.BATCH)), 3)))


def expected(artifact: Artifact) -> NDArray[Any]:
    model = tabled.with_local_tables(artifact.model)
    return np.asarray(model(artifact.encoder.encode(tabled.BATCH)))


def test_small_tables_go_into_the_artifact(artifact: Path, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    assert store_tables(artifact, Storage(storage)) == ("", 0)
    assert not storage.exists()
    assert not folder_of(artifact).exists()
    trained = used(artifact, "", Storage(storage), tmp_path)
    np.testing.assert_allclose(outputs(trained), expected(trained), atol=1e-6)
    # Arrays are mapped where they can be read without a copy.
    for file in trained.tables.files:  # type: ignore[union-attr]
        assert all(rows.flags.aligned and ids.flags.aligned for ids, rows in file.chunks(10))
        file.check()


@pytest.mark.usefixtures("large")
def test_large_tables_go_to_the_storage_and_are_lent_to_jobs(artifact: Path, tmp_path: Path) -> None:
    storage = Storage(tmp_path / "storage")
    location, size = store_tables(artifact, storage)
    assert size == sum(path.stat().st_size for path in Path(location).iterdir())
    assert not any(name.startswith("tables/") for name in zipfile.ZipFile(artifact).namelist())
    trained = used(artifact, location, storage, tmp_path)
    # The job keeps its tables though the model is dropped now.
    storage.remove(location)
    assert list((tmp_path / "storage").iterdir()) == []
    np.testing.assert_allclose(outputs(trained), expected(trained), atol=1e-6)


@pytest.mark.usefixtures("large")
def test_tables_are_read_from_a_url(artifact: Path, tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path}/storage/")
    location, _ = store_tables(artifact, storage)
    assert location.startswith(f"file://{tmp_path}/storage/")
    trained = used(artifact, location, storage, tmp_path)
    np.testing.assert_allclose(outputs(trained), expected(trained), atol=1e-6)
    (file,) = folder_of(trained.path).iterdir()
    assert file.stat().st_mode & 0o077 == 0
    storage.remove(location)
    with pytest.raises(ModelStoreError, match=rf"table {location}/0.table is missing or damaged"):
        open_tables(trained.path)
    other = Storage(f"file://{tmp_path}/another")
    with pytest.raises(ModelStoreError, match="not in the setting storage"):
        lend_tables(location, artifact, tmp_path / "x", other)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("where", ["storage", "file://{}/storage"])
def test_a_missing_file_is_told_with_its_place(artifact: Path, tmp_path: Path, where: str) -> None:
    storage = Storage(where.format(tmp_path) if "://" in where else tmp_path / where)
    location, _ = store_tables(artifact, storage)
    (tmp_path / "storage" / Path(location).name / "1.table").unlink()
    with pytest.raises(ModelStoreError, match=rf"missing: {location}/1.table is not there; put it back, or train"):
        lend_tables(location, artifact, tmp_path / "job.artifact", storage)


def test_a_file_of_another_model_is_told(artifact: Path, tmp_path: Path) -> None:
    folder = folder_of(artifact)
    (folder / "0.table").rename(folder / "x")
    (folder / "1.table").rename(folder / "0.table")
    (folder / "x").rename(folder / "1.table")
    with pytest.raises(ModelStoreError, match=r"0.table is missing or damaged \(it is not the one that was stored\)"):
        load_artifact(artifact).tables  # noqa: B018


def test_a_program_finds_the_tables_of_a_file_that_it_is_told_of_by_a_link(artifact: Path, tmp_path: Path) -> None:
    link = tmp_path / "linked.artifact"
    link.symlink_to(artifact)
    trained = load_artifact(link)
    np.testing.assert_allclose(outputs(trained), expected(trained), atol=1e-6)


def test_a_network_that_its_program_builds_gets_rows_too(artifact: Path) -> None:
    trained = load_artifact(artifact, tabled.network)
    with zipfile.ZipFile(artifact) as archive:
        layers = json.loads(archive.read("tables.json"))["layers"]
    assert len(layers) == 3
    network = tabled.network(FeatureInputs(trained.encoder, served=lambda name, rows, size: name in layers))
    trained.load_weights_into(network)
    trained.__dict__["model"] = network
    np.testing.assert_allclose(outputs(trained), expected(trained), atol=1e-6)


def test_a_model_with_all_in_its_network_has_none(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "artifact", "w") as archive:
        archive.writestr("features.json", "{}")
    assert open_tables(tmp_path / "artifact") is None
    assert store_tables(tmp_path / "artifact", Storage(tmp_path / "storage")) == ("", 0)
