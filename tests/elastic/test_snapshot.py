"""Snapshots: written once, read in pieces, honest about damage."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlflow_elastic.elastic.snapshot import Snapshot, SnapshotWriter
from sqlflow_elastic.errors import DataError

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def rows(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch([list(range(start, stop)), [f"行 {n}" for n in range(start, stop)]], schema=SCHEMA)


def write(folder: Path, *batches: pa.RecordBatch, part_bytes: int = 1 << 28) -> Snapshot:
    with SnapshotWriter(str(folder), SCHEMA, "SELECT n FROM 表", part_bytes) as writer:
        for batch in batches:
            writer.write(batch)
    return Snapshot.open(str(folder))


def numbers(snapshot: Snapshot, start: int = 0, stop: int | None = None) -> list[int]:
    return [n for batch in snapshot.batches(start, stop) for n in batch.column("n").to_pylist()]


@pytest.fixture(scope="module")
def in_parts(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """1,000 rows in batches of 1 to 44 rows, and in several parts."""
    edges = [n * (n + 1) // 2 for n in range(45)]
    batches = [rows(start, stop) for start, stop in zip(edges, [*edges[1:], 1000], strict=False)]
    return write(tmp_path_factory.mktemp("snapshot"), *batches, part_bytes=4096)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    snapshot = write(tmp_path / "new" / "folder", rows(0, 70_000), rows(70_000, 70_001))
    assert (snapshot.rows, snapshot.schema, snapshot.description) == (70_001, SCHEMA, "SELECT n FROM 表")
    assert [batch.num_rows for batch in snapshot.batches()] == [65_536, 4_464, 1]
    assert pa.Table.from_batches(snapshot.batches()) == pa.Table.from_batches([rows(0, 70_001)])


def test_parts_follow_one_another(in_parts: Snapshot) -> None:
    assert len(in_parts.parts) > 3
    assert numbers(in_parts) == list(range(1000))


@settings(max_examples=50, deadline=None)
@given(start=st.integers(0, 1100), stop=st.none() | st.integers(0, 1100))
def test_any_range_of_rows(in_parts: Snapshot, start: int, stop: int | None) -> None:
    assert numbers(in_parts, start, stop) == list(range(1000))[start:stop]


def test_urls_of_local_files(tmp_path: Path) -> None:
    write(tmp_path / "s", rows(0, 3))
    assert numbers(Snapshot.open(f"file://{tmp_path}/s")) == [0, 1, 2]


def test_no_rows(tmp_path: Path) -> None:
    snapshot = write(tmp_path)
    assert (snapshot.rows, snapshot.schema, list(snapshot.batches())) == (0, SCHEMA, [])


def test_the_manifest_can_be_read_by_people(tmp_path: Path) -> None:
    write(tmp_path, rows(0, 3))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["columns"] == [{"name": "n", "type": "int64"}, {"name": "text", "type": "string"}]
    assert manifest["parts"][0]["batches"] == [3]


def test_an_exception_leaves_no_snapshot_and_another_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), SnapshotWriter(str(tmp_path), SCHEMA, "") as writer:
        writer.write(rows(0, 10))
        raise RuntimeError
    with pytest.raises(DataError, match="there is no snapshot"):
        Snapshot.open(str(tmp_path))
    assert numbers(write(tmp_path, rows(5, 7))) == [5, 6]


def test_a_snapshot_is_never_overwritten(tmp_path: Path) -> None:
    write(tmp_path, rows(0, 1))
    with pytest.raises(DataError, match="there is a snapshot already"):
        SnapshotWriter(str(tmp_path), SCHEMA, "")


def test_damage_names_the_file(tmp_path: Path) -> None:
    snapshot = write(tmp_path, rows(0, 1000))
    part = tmp_path / "part-00000.arrow"
    whole = part.read_bytes()

    part.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"part-00000\.arrow is damaged"):
        list(snapshot.batches())
    part.write_bytes(whole[:-200] + bytes(200))
    with pytest.raises(DataError, match=r"part-00000\.arrow is damaged"):
        list(snapshot.batches())
    part.unlink()
    with pytest.raises(DataError, match=r"part-00000\.arrow"):
        list(snapshot.batches())


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 1}'])
def test_a_damaged_manifest_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json cannot be read"):
        Snapshot.open(str(tmp_path))


def test_another_version_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, rows(0, 1))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "version": 99}))
    with pytest.raises(DataError, match="version 99"):
        Snapshot.open(str(tmp_path))


def test_an_unknown_kind_of_storage_is_an_error() -> None:
    with pytest.raises(DataError, match="cannot use the storage nowhere://x"):
        Snapshot.open("nowhere://x")
