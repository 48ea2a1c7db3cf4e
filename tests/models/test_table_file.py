"""Trained tables in files: read row by row, and what was never trained as it begins."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pyarrow import fs

from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.models.tables.initial import first_rows
from sqlflow_elastic.models.tables.pieces import PIECE_BYTES, PiecesOf
from sqlflow_elastic.models.tables.spec import TableSpec
from sqlflow_elastic.models.tables.table_file import MappedContent, TableFile, write_table_file
from tests.elastic.tables.specs import table

SPEC = table((500, 500), dtype="float32")
IDS = np.arange(0, 1000, 7)

Opener = Callable[[Path], TableFile]


def numbers(count: int) -> NDArray[Any]:
    return np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)


def chunks(ids: NDArray[np.int64] = IDS, rows: int = 20) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    of = numbers(len(ids))
    return [(ids[start : start + rows], of[start : start + rows]) for start in range(0, len(ids), rows)]


def in_pieces(path: Path) -> TableFile:
    storage = fs.SubTreeFileSystem(str(path.parent), fs.LocalFileSystem())
    return TableFile(PiecesOf(storage, path.name, f"s3://b/{path.name}", path.parent))


@pytest.fixture(params=[TableFile, in_pieces], ids=["mapped", "in pieces"])
def opened(request: pytest.FixtureRequest) -> Opener:
    opener: Opener = request.param
    return opener


def test_rows_come_back_and_others_as_they_begin(tmp_path: Path, opened: Opener) -> None:
    path = tmp_path / "t.table"
    assert write_table_file(path, SPEC, chunks()) == len(IDS)
    file = opened(path)
    assert (file.spec, file.count, file.bytes) == (SPEC, len(IDS), path.stat().st_size)
    asked = np.array([0, 7, 993, 8, 999, 994, 7])
    rows = file.rows(asked)
    whole = dict(zip(IDS.tolist(), numbers(len(IDS)), strict=True))
    for id_, row in zip(asked.tolist(), rows, strict=True):
        np.testing.assert_array_equal(row, whole.get(id_, first_rows(SPEC, np.array([id_]))[0]))
    assert file.rows(np.empty(0, np.int64)).shape == (0, 4)
    file.check()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 9000])
def test_the_ids_of_a_range_are_found(tmp_path: Path, opened: Opener, count: int) -> None:
    spec = table((100_000,), dtype="float32")
    ids = 3 + np.arange(count) * 4
    write_table_file(tmp_path / "t", spec, chunks(ids, 999))
    file = opened(tmp_path / "t")
    for start, stop in [(0, 3), (0, 4), (3, 3), (3, 7), (4, 8), (0, 100_000), (16_383, 16_390), (30_000, 99_999)]:
        np.testing.assert_array_equal(file.ids(start, stop), ids[(ids >= start) & (ids < stop)])


@pytest.mark.parametrize("count", [1, 4095, 4096, 4097, 20_000])
@pytest.mark.parametrize("first", [0, 3])
def test_every_id_is_found_in_files_of_any_length(tmp_path: Path, opened: Opener, count: int, first: int) -> None:
    spec = table((100_000,), dtype="float32")
    ids = first + np.arange(count) * 4
    write_table_file(tmp_path / "t", spec, chunks(ids, 999))
    file = opened(tmp_path / "t")
    np.testing.assert_array_equal(file.rows(ids), numbers(count))
    between = np.array([0, *(ids[[0, -1]] + 1), 99_999])
    between = between[~np.isin(between, ids)]
    np.testing.assert_array_equal(file.rows(between), first_rows(spec, between))
    shuffled = np.random.default_rng(1).permutation(count)
    np.testing.assert_array_equal(file.rows(ids[shuffled]), numbers(count)[shuffled])
    all_ids, all_rows = zip(*file.chunks(1000), strict=True)
    np.testing.assert_array_equal(np.concatenate(all_ids), ids)
    np.testing.assert_array_equal(np.concatenate(all_rows), numbers(count))
    file.check()


def test_a_table_that_nobody_trained_is_read_too(tmp_path: Path, opened: Opener) -> None:
    write_table_file(tmp_path / "t", SPEC, [])
    file = opened(tmp_path / "t")
    np.testing.assert_array_equal(file.rows(IDS), first_rows(SPEC, IDS))
    file.check()


def test_it_may_stand_inside_of_another_file(tmp_path: Path) -> None:
    write_table_file(tmp_path / "t", SPEC, chunks())
    data = (tmp_path / "t").read_bytes()
    (tmp_path / "whole").write_bytes(b"12345" + data + b"behind it")
    file = TableFile(MappedContent(tmp_path / "whole", 5, len(data)))
    np.testing.assert_array_equal(file.rows(IDS), numbers(len(IDS)))


@pytest.mark.parametrize("cut", [0, 10, 200, -1])
def test_a_cut_off_one_is_told(tmp_path: Path, opened: Opener, cut: int) -> None:
    write_table_file(tmp_path / "t", SPEC, chunks())
    (tmp_path / "t").write_bytes((tmp_path / "t").read_bytes()[:cut])
    with pytest.raises(ModelStoreError, match=r"/t is missing or damaged \(.*\); put it back .* train"):
        opened(tmp_path / "t")


def test_one_that_lacks_bytes_in_the_middle_is_told(tmp_path: Path, opened: Opener) -> None:
    write_table_file(tmp_path / "t", SPEC, chunks())
    (tmp_path / "t").write_bytes((tmp_path / "t").read_bytes()[16:])
    with pytest.raises(ModelStoreError, match="too short or too long"):
        opened(tmp_path / "t")


def test_a_missing_one_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelStoreError, match=r"t is missing or damaged"):
        TableFile(tmp_path / "t")


def test_a_changed_byte_is_found_by_a_check(tmp_path: Path, opened: Opener) -> None:
    write_table_file(tmp_path / "t", SPEC, chunks())
    data = bytearray((tmp_path / "t").read_bytes())
    data[40] ^= 1
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(ModelStoreError, match="checksum"):
        opened(tmp_path / "t").check()


def test_files_that_differ_have_different_digests(tmp_path: Path) -> None:
    write_table_file(tmp_path / "a", SPEC, chunks())
    write_table_file(tmp_path / "b", SPEC, chunks(rows=7))
    write_table_file(tmp_path / "c", SPEC, chunks(IDS[:-1]))
    a, b, c = (TableFile(tmp_path / name).digest for name in "abc")
    assert a == b != c


class Counted:
    """A file system that counts what is read."""

    def __init__(self, folder: Path) -> None:
        self.reads: list[int] = []
        self._below = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())

    def get_file_info(self, path: str) -> Any:
        return self._below.get_file_info(path)

    def open_input_file(self, path: str) -> Any:
        file, reads = self._below.open_input_file(path), self.reads

        class File:
            def read_at(self, length: int, start: int) -> bytes:
                reads.append(length)
                data: bytes = file.read_at(length, start)
                return data

        return File()


def large(path: Path, count: int) -> TableSpec:
    """A table of 64 bytes a row, whose ids are even."""
    spec = table((2 * count,), dtype="float64")
    block = np.arange(10_000)
    rows = np.zeros((len(block), 4))

    def of(start: int) -> tuple[NDArray[Any], NDArray[Any]]:
        rows[:, 0] = block + start
        return 2 * (block + start), rows

    write_table_file(path, spec, (of(start) for start in range(0, count, len(block))))
    return spec


def test_only_what_is_needed_is_read_and_only_once(tmp_path: Path) -> None:
    large(tmp_path / "t", 500_000)  # 20 MB
    counted: Any = Counted(tmp_path)
    with tempfile.TemporaryDirectory() as folder:
        file = TableFile(PiecesOf(counted, "t", "t", Path(folder)))
        asked = np.array([2, 400_000, 400_002])
        assert file.rows(asked)[:, 0].tolist() == [1, 200_000, 200_001]
        assert sum(counted.reads) <= 6 * PIECE_BYTES
        before = list(counted.reads)
        file.rows(asked[::-1])
        assert counted.reads == before
        file.rows(np.arange(0, 1_000_000, 2))
        assert sum(counted.reads) == file.bytes
        # Neighbouring pieces are read together.
        assert len(counted.reads) < 12
        assert list(Path(folder).iterdir()) == []
