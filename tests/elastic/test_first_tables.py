"""Servers begin with the tables of a trained model, wherever it had them, and with what its own training would draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from sqlflow_elastic.elastic.first_tables import write_first_tables
from sqlflow_elastic.elastic.served import ServedTables
from sqlflow_elastic.elastic.tables.manifests import complete_steps
from sqlflow_elastic.elastic.tables.merging import merged
from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.models.artifact import load_artifact
from sqlflow_elastic.models.large_tables import folder_of
from sqlflow_elastic.models.local_tables import bags_of
from sqlflow_elastic.models.tables.spec import TableSpec
from sqlflow_elastic.models.trained_tables import TrainedTables
from tests.elastic.tables.servers import running
from tests.models import tabled


def specs_of(served: tuple[str, ...], optimizer: str, seed: int) -> list[TableSpec]:
    """The tables of a training that has these layers on servers."""
    model = tabled.build(served, seed)
    tables = ServedTables.of(model, [(keras.optimizers.get(optimizer), model.trainable_variables)])
    assert tables is not None
    return list(tables.specs)


def artifact_of(folder: Path, served: tuple[str, ...]) -> Any:
    tabled.save(folder / "model.artifact", served)
    return load_artifact(folder / "model.artifact")


@pytest.mark.parametrize("then", [tabled.LAYERS, tabled.LAYERS[:1]], ids=len)
@pytest.mark.parametrize("before", [(), tabled.LAYERS[1:], tabled.LAYERS], ids=len)
def test_servers_begin_with_them(tmp_path: Path, before: tuple[str, ...], then: tuple[str, ...]) -> None:
    artifact = artifact_of(tmp_path, before)
    trained = TrainedTables(artifact)
    specs = specs_of(then, "ftrl", tabled.SEED + 1 if trained.seed is None else trained.seed)
    write_first_tables(tmp_path / "tables", specs, trained)
    right = bags_of(tabled.with_local_tables(artifact.model))
    with running(tmp_path / "tables", "ps-0", "ps-1") as servers, servers.enter(specs, new=False) as session:
        rows = session.peek([np.arange(spec.rows) for spec in specs])
        for spec, whole in zip(specs, rows, strict=True):
            for each, base in zip(spec.ranges, spec.bases[:-1], strict=True):
                (part,) = each.parts
                np.testing.assert_array_equal(whole[base : base + each.rows], right[part.stream].table.numpy())
        slots = servers["ps-0"].store.tables[0].whole(np.arange(3, dtype=np.int32))[:, specs[0].width :]
        np.testing.assert_allclose(slots[:, : specs[0].width], 0.1)
        assert not slots[:, specs[0].width :].any()


def test_only_what_was_trained_is_written(tmp_path: Path) -> None:
    trained = TrainedTables(artifact_of(tmp_path, tabled.LAYERS))
    specs = specs_of(tabled.LAYERS, "sgd", tabled.SEED)
    write_first_tables(tmp_path / "tables", specs, trained)
    counts = [sum(len(ids) for ids, _ in merged(tmp_path / "tables", 0, i, spec)) for i, spec in enumerate(specs)]
    assert counts == [-(-spec.rows // 3) for spec in specs]
    layers = [(part.stream, each.rows) for spec in specs for each in spec.ranges for part in each.parts]
    assert sum(trained.count(stream, rows) for stream, rows in layers) == sum(counts)


def test_what_a_training_has_saved_is_not_written_over(tmp_path: Path) -> None:
    trained = TrainedTables(artifact_of(tmp_path, tabled.LAYERS))
    specs = specs_of(tabled.LAYERS, "sgd", tabled.SEED)
    with running(tmp_path / "tables", "ps-0") as servers, servers.enter(specs, step=0) as session:
        session.snapshot(0)
    write_first_tables(tmp_path / "tables", specs, trained)
    assert all(not list(merged(tmp_path / "tables", 0, i, spec)) for i, spec in enumerate(specs))


def test_a_damaged_table_is_told_and_nothing_is_there_to_begin_with(tmp_path: Path) -> None:
    trained = TrainedTables(artifact_of(tmp_path, tabled.LAYERS))
    file = folder_of(tmp_path / "model.artifact") / "0.table"
    data = bytearray(file.read_bytes())
    data[8] ^= 1
    file.write_bytes(data)
    with pytest.raises(ModelStoreError, match="a checksum is wrong"):
        write_first_tables(tmp_path / "tables", specs_of(tabled.LAYERS, "sgd", tabled.SEED), trained)
    assert not complete_steps(tmp_path / "tables")
