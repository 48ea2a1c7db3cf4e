"""Segments are read as they were written, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlflow_elastic.elastic.tables.segments import SegmentError, SegmentWriter, read_segment
from tests.elastic.tables.full_disk import files_of_at_most

PIECES: list[tuple[int, Any, Any]] = [
    (0, np.arange(50), np.ones((50, 8))),
    (1, np.arange(20), np.ones((20, 3), np.float32)),
]


def write(path: Path, pieces: Any = PIECES) -> None:
    with SegmentWriter(path) as writer:
        for piece in pieces:
            writer.add(*piece)


@pytest.mark.parametrize("check", [True, False])
def test_pieces_come_back_in_their_order(tmp_path: Path, check: bool) -> None:
    numbers = np.random.default_rng(0)
    pieces = [
        (table, numbers.integers(0, 2**40, count), numbers.normal(size=(count, width)).astype(dtype))
        for table, count, width, dtype in [(0, 5, 3, "f4"), (1, 7, 1, "f8"), (0, 0, 3, "f4"), (0, 1000, 3, "f4")]
    ]
    write(tmp_path / "a.rows", pieces)
    for table in (0, 1, 2):
        found = list(read_segment(tmp_path / "a.rows", table, check=check))
        expected = [(ids, whole) for each, ids, whole in pieces if each == table]
        assert len(found) == len(expected)
        for (ids, whole), (right_ids, right) in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ids, right_ids)
            np.testing.assert_array_equal(whole, right)
            assert whole.dtype == right.dtype
            assert whole.size == 0 or whole.ctypes.data % 64 == 0


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_changed_bit_is_found_or_is_between_arrays(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("segment") / "a.rows"
    write(path)
    right = path.read_bytes()
    at = data.draw(st.integers(0, 8 * len(right) - 1))
    changed = bytearray(right)
    changed[at // 8] ^= 1 << at % 8
    path.write_bytes(changed)
    for table, _, whole in PIECES:
        try:
            ((ids, found),) = read_segment(path, table)
        except SegmentError:
            continue
        np.testing.assert_array_equal(ids, np.arange(len(whole)))
        np.testing.assert_array_equal(found, whole)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_file_that_was_cut_off_is_found_without_reading_its_rows(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("segment") / "a.rows"
    write(path)
    right = path.read_bytes()
    path.write_bytes(right[: data.draw(st.integers(0, len(right) - 1))])
    with pytest.raises(SegmentError, match=r"a\.rows"):
        list(read_segment(path, 0, check=False))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SegmentError, match=r"a\.rows cannot be read"):
        list(read_segment(tmp_path / "a.rows", 0))


def test_an_unfinished_segment_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no more"), SegmentWriter(tmp_path / "a.rows") as writer:
        writer.add(*PIECES[0])
        raise RuntimeError("no more")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [100, 30_000])
def test_a_full_disk_leaves_no_file(tmp_path: Path, size: int) -> None:
    # What the buffer holds is written when the file is closed: it fails there, or when rows are added.
    with files_of_at_most(size), pytest.raises(OSError, match="too large"):
        write(tmp_path / "a.rows", PIECES if size == 100 else PIECES * 20)
    assert list(tmp_path.iterdir()) == []
