"""Trained tables in files: read row by row, and what was never trained as it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.models.large_tables import (
    drop_tables,
    folder_of,
    lend_tables,
    open_tables,
    store_tables,
    write_tables,
)
from sqlflow_elastic.models.tables.initial import first_rows
from sqlflow_elastic.models.tables.table_file import TableFile, write_table_file
from tests.elastic.tables.specs import table

SPEC = table((500, 500), dtype="float32")
IDS = np.arange(0, 1000, 7)


def trained() -> NDArray[Any]:
    return np.random.default_rng(0).normal(size=(len(IDS), 4)).astype(np.float32)


def chunks() -> list[tuple[NDArray[Any], NDArray[Any]]]:
    return [(IDS[start : start + 20], trained()[start : start + 20]) for start in range(0, len(IDS), 20)]


def test_rows_come_back_and_others_as_they_begin(tmp_path: Path) -> None:
    path = tmp_path / "t.table"
    assert write_table_file(path, SPEC, chunks()) == len(IDS)
    file = TableFile(path)
    assert (file.spec, file.count) == (SPEC, len(IDS))
    asked = np.array([0, 7, 993, 8, 999, 994, 7])
    rows = file.rows(asked)
    whole = dict(zip(IDS.tolist(), trained(), strict=True))
    for id_, row in zip(asked.tolist(), rows, strict=True):
        np.testing.assert_array_equal(row, whole.get(id_, first_rows(SPEC, np.array([id_]))[0]))
    file.check()
    assert list(tmp_path.iterdir()) == [path]


def test_a_table_that_nobody_trained_is_read_too(tmp_path: Path) -> None:
    write_table_file(tmp_path / "t", SPEC, [])
    np.testing.assert_array_equal(TableFile(tmp_path / "t").rows(IDS), first_rows(SPEC, IDS))


def test_it_may_stand_inside_of_another_file(tmp_path: Path) -> None:
    write_table_file(tmp_path / "t", SPEC, chunks())
    data = (tmp_path / "t").read_bytes()
    (tmp_path / "whole").write_bytes(b"12345" + data + b"behind it")
    file = TableFile(tmp_path / "whole", 5, len(data))
    np.testing.assert_array_equal(file.rows(IDS), trained())


@pytest.mark.parametrize("cut", [0, 10, 200])
def test_a_damaged_one_is_told(tmp_path: Path, cut: int) -> None:
    write_table_file(tmp_path / "t", SPEC, chunks())
    data = (tmp_path / "t").read_bytes()
    (tmp_path / "t").write_bytes(data[:cut])
    with pytest.raises(ModelStoreError, match="missing or damaged"):
        TableFile(tmp_path / "t")


def test_a_changed_byte_is_found_by_a_check(tmp_path: Path) -> None:
    write_table_file(tmp_path / "t", SPEC, chunks())
    data = bytearray((tmp_path / "t").read_bytes())
    data[40] ^= 1
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(ModelStoreError, match="checksum"):
        TableFile(tmp_path / "t").check()


def test_tables_go_to_the_storage_and_are_lent_to_jobs(tmp_path: Path) -> None:
    artifact, storage = tmp_path / "model.artifact", tmp_path / "storage"
    assert open_tables(artifact) is None
    assert store_tables(artifact, storage) == ("", 0)
    write_tables(artifact, [(SPEC, iter(chunks())), (SPEC, iter(chunks()[:1]))])
    kept, size = store_tables(artifact, storage)
    assert Path(kept).parent == storage
    assert size == sum(path.stat().st_size for path in Path(kept).iterdir())
    assert not folder_of(artifact).exists()
    job = tmp_path / "job.artifact"
    lend_tables(kept, job)
    tables = open_tables(job)
    assert tables is not None
    assert [len(rows) for rows in tables.peek([IDS, IDS[:3]])] == [len(IDS), 3]
    drop_tables(kept)
    assert list(storage.iterdir()) == []
    with pytest.raises(ModelStoreError, match="missing"):
        lend_tables(kept, tmp_path / "another.artifact")
