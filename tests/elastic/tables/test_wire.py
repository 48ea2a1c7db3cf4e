"""What workers and servers send each other comes back as it was, and nothing else is taken for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlflow_elastic.elastic.tables.wire import HEADER_BYTES, MOST_BYTES, Format, Header, Kind, message, take
from tests.elastic.tables.specs import table

SPECS = [table((30, 50)), table((2**31,), dtype="float32", name="u")]


@given(st.sampled_from(Kind), st.integers(0, 2**32 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(0, MOST_BYTES))
def test_a_header_comes_back(kind: Kind, tag: int, step: int, length: int) -> None:
    header = Header(kind, tag, step, length)
    assert len(header.pack()) == HEADER_BYTES
    assert Header.unpack(header.pack()) == header


def test_what_is_no_header_is_found_out() -> None:
    with pytest.raises(ValueError, match="bytes"):
        Header.unpack(Header(Kind.WANT, 0, 0, MOST_BYTES + 1).pack())
    with pytest.raises(ValueError, match="Kind"):
        Header.unpack(b"\xff" * 4 + bytes(HEADER_BYTES - 4))


@given(st.lists(st.integers(0, 79), max_size=9), st.lists(st.integers(0, 2**31 - 1), max_size=9))
def test_ids_come_back_and_take_four_bytes_where_they_can(small: list[int], large: list[int]) -> None:
    ids = [np.array(each, np.int64) for each in (small, large)]
    header, *parts = message(Kind.WANT, 3, Format(SPECS).ids(ids))
    body = memoryview(b"".join(parts))
    assert Header.unpack(header).length == len(body) == 16 + 4 * len(small) + 8 * len(large)
    again, rest = Format(SPECS).read_ids(body)
    assert [each.tolist() for each in again] == [small, large]
    assert not len(rest)


def test_rows_come_back_where_they_lie() -> None:
    rows = [np.random.default_rng(0).normal(size=(n, 4)).astype(s.dtype) for n, s in zip((3, 2), SPECS, strict=True)]
    body = memoryview(bytearray(b"".join(each.tobytes() for each in rows)))
    again = Format(SPECS).read_rows(body, [3, 2])
    for one, other in zip(again, rows, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    assert np.shares_memory(again[0], np.frombuffer(body, np.uint8))


@pytest.mark.parametrize("counts", [[3, 1], [3, 3], [4, 2], [-1, 2]])
def test_rows_of_other_numbers_are_found_out(counts: list[int]) -> None:
    body = memoryview(bytes(3 * 4 * 8 + 2 * 4 * 4))
    with pytest.raises(ValueError, match="bytes"):
        Format(SPECS).read_rows(body, counts)


@pytest.mark.parametrize("counts", [[1, 0], [-1, 0], [2**62, 0]])
def test_ids_of_other_numbers_are_found_out(counts: list[int]) -> None:
    with pytest.raises(ValueError, match="bytes"):
        Format(SPECS).read_ids(memoryview(np.array(counts, np.int64).tobytes()))


def test_nothing_is_taken_from_nothing() -> None:
    array, rest = take(memoryview(b"abc"), np.dtype(np.float32), 0)
    assert len(array) == 0
    assert bytes(rest) == b"abc"
