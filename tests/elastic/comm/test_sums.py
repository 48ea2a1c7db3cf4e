"""Sums are right, and equal bit by bit on all members: any length, dtype, size of the world, dtype on the wire."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import Communicator, WireDtype, WorldBroken
from sqlflow_elastic.elastic.comm.schedule import SEGMENT_BYTES, SMALL_BYTES
from tests.elastic.comm.worlds import at_once, nothing_left_behind, world

SIZES = [1, 2, 3, 4, 7]
DTYPES = [np.float32, np.float64, np.int64]
LENGTHS = [0, 1, 2, 5, 1000, SMALL_BYTES // 4, SMALL_BYTES // 4 + 1, SEGMENT_BYTES // 2 + 3, SEGMENT_BYTES + 13]


def data(size: int, length: int, dtype: Any, seed: int = 0) -> list[NDArray[Any]]:
    random = np.random.default_rng(seed)
    return [(random.normal(size=length) * 100).astype(dtype) for _ in range(size)]


def summed(members: list[Communicator], buffers: list[NDArray[Any]], exact: int = 0) -> list[NDArray[Any]]:
    def call(member: Communicator) -> NDArray[Any]:
        buffer = buffers[member.place.rank].copy()
        member.allreduce([buffer], exact=exact)
        return buffer

    results = at_once(call, members)
    assert {result.tobytes() for result in results} == {results[0].tobytes()}
    return results


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_sums_are_numpys_and_the_same_bits_everywhere(size: int, dtype: Any) -> None:
    with world(size) as members:
        for length in LENGTHS:
            buffers = data(size, length, dtype, length)
            (result, *_) = summed(members, buffers)
            if dtype is np.int64:
                np.testing.assert_array_equal(result, np.sum(buffers, axis=0))
            else:
                exact = np.sum(buffers, axis=0, dtype=np.float64)
                np.testing.assert_allclose(result, exact, rtol=0, atol=1000 * size * np.finfo(dtype).eps)


def test_random_lengths_one_after_the_other() -> None:
    random = np.random.default_rng(7)
    with world(3) as members:
        for length in random.integers(0, 200_000, 30):
            buffers = data(3, int(length), np.float32, int(length))
            np.testing.assert_allclose(summed(members, buffers)[0], np.sum(buffers, axis=0), rtol=0, atol=1e-3)


@pytest.mark.parametrize("length", [1000, 300_001])
@pytest.mark.parametrize("wire", list(WireDtype))
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_floats_travel_narrower_and_all_have_the_same_bits(size: int, wire: WireDtype, length: int) -> None:
    relative = {WireDtype.FLOAT32: 2**-23, WireDtype.BFLOAT16: 2**-8, WireDtype.FLOAT16: 2**-11}[wire]
    with world(size, wire) as members:
        for dtype in (np.float32, np.float64):
            buffers = data(size, length, dtype)
            total = np.sum(buffers, axis=0, dtype=np.float64)
            (result, *_) = summed(members, buffers)
            np.testing.assert_allclose(result, total, rtol=0, atol=2000 * size * relative)
            if size > 1 and np.dtype(dtype).itemsize > np.dtype(np.float16).itemsize and relative > np.finfo(dtype).eps:
                assert not np.allclose(result, total, rtol=0, atol=10 * relative)  # it did travel narrower


@pytest.mark.parametrize("length", [100, 300_001])
@pytest.mark.parametrize("size", [2, 3])
def test_exact_elements_travel_as_they_are(size: int, length: int) -> None:
    with world(size, WireDtype.BFLOAT16) as members:
        buffers = data(size, length, np.float32)
        for buffer in buffers:
            buffer[-3:] = [1_234_567, 1025, 1]
        (result, *_) = summed(members, buffers, exact=3)
        assert result[-3:].tolist() == [size * 1_234_567, size * 1025, size]


def test_whole_numbers_are_not_rounded_on_the_wire() -> None:
    with world(2, WireDtype.BFLOAT16) as members:
        buffers = data(2, 50_000, np.int64)
        np.testing.assert_array_equal(summed(members, buffers)[0], np.sum(buffers, axis=0))


@pytest.mark.parametrize("length", [10, 100_000])
@pytest.mark.parametrize("wire", [None, WireDtype.FLOAT16])
def test_infinities_and_nan_come_to_everybody(length: int, wire: WireDtype | None) -> None:
    buffers = data(3, length, np.float32)
    buffers[0][:3] = [np.inf, np.inf, np.nan]
    buffers[1][:3] = [-np.inf, 1, 1]
    with world(3, wire) as members:
        result = summed(members, buffers)[0][:3]
    assert np.isnan(result[0])
    assert np.isposinf(result[1])
    assert np.isnan(result[2])


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    ("buffer", "exact", "error"),
    [
        (np.zeros(4, np.float16), 0, TypeError),
        (np.zeros(4, ">f4"), 0, TypeError),
        ([1.0], 0, TypeError),
        (np.zeros((2, 2), np.float32), 0, ValueError),
        (np.zeros(8, np.float32)[::2], 0, ValueError),
        (np.frombuffer(bytes(8), np.float32), 0, ValueError),
        (np.zeros(4, np.float32), 5, ValueError),
        (np.zeros(4, np.float32), -1, ValueError),
    ],
    ids=["half", "bytes swapped", "list", "matrix", "gaps", "read-only", "too many exact", "negative"],
)
def test_what_is_no_buffer_is_told_and_breaks_nothing(
    size: int, buffer: Any, exact: int, error: type[Exception]
) -> None:
    with world(size) as members:
        with pytest.raises(error):
            members[0].allreduce([buffer], exact=exact)
        assert summed(members, [np.ones(3, np.float32)] * size)[0].tolist() == [size] * 3


@pytest.mark.parametrize("lengths", [(10, 11), (100_000, 100_001), (10, 100_000)])
def test_members_that_are_out_of_step_find_out(lengths: tuple[int, int]) -> None:
    def call(member: Communicator) -> str:
        with pytest.raises(WorldBroken) as broken:
            member.allreduce([np.zeros(lengths[member.place.rank], np.float32)])
        return broken.value.reason

    with nothing_left_behind(), world(2) as members:
        assert any("out of step" in reason for reason in at_once(call, members))


def test_vectors_of_one_length_but_two_dtypes_are_out_of_step() -> None:
    def call(member: Communicator) -> None:
        vector: NDArray[Any] = np.zeros(100, np.float64 if member.place.rank else np.int64)
        with pytest.raises(WorldBroken):
            member.allreduce([vector])

    with world(2) as members:
        at_once(call, members)


def test_another_operation_than_the_others_is_found_out() -> None:
    def call(member: Communicator) -> str:
        with pytest.raises(WorldBroken) as broken:
            if member.place.rank:
                member.allgather(b"x" * 8)
            else:
                member.allreduce([np.zeros(2, np.float32)])
        return broken.value.reason

    with world(2) as members:
        assert any("out of step" in reason for reason in at_once(call, members))
