"""Sums are right, and equal bit by bit on all members: any length, dtype, size of the world, dtype on the wire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import Communicator, WireDtype, WorldBroken
from sqlflow_elastic.elastic.comm.schedule import SEGMENT_BYTES, SMALL_BYTES
from tests.elastic.comm.worlds import apart, at_once, nothing_left_behind, world


@pytest.fixture(scope="module", params=["one machine", "apart"], autouse=True)
def machines(request: pytest.FixtureRequest) -> Iterator[None]:
    """Members with memory in common, and without."""
    with nullcontext() if request.param == "one machine" else apart():
        yield


SIZES = [1, 2, 3, 4, 7]
DTYPES = [np.float32, np.float64, np.int64]
LENGTHS = [0, 1, 2, 5, 1000, SMALL_BYTES // 4, SMALL_BYTES // 4 + 1, SEGMENT_BYTES // 2 + 3, SEGMENT_BYTES + 13]


def data(size: int, length: int, dtype: Any, seed: int = 0) -> list[NDArray[Any]]:
    """A vector a member."""
    random = np.random.default_rng(seed)
    return [(random.normal(size=length) * 100).astype(dtype) for _ in range(size)]


def several(size: int, lengths: Sequence[int], dtype: Any) -> list[list[NDArray[Any]]]:
    """Vectors of these lengths for each member."""
    vectors = [data(size, length, dtype, number) for number, length in enumerate(lengths)]
    return [list(own) for own in zip(*vectors, strict=True)]


def all_summed(
    members: list[Communicator], buffers: list[list[NDArray[Any]]], exact: int = 0, aside: bool = False
) -> list[NDArray[Any]]:
    """The sums, which are the same bits at all members; in place, or left aside with the buffers as they were."""

    def call(member: Communicator) -> list[NDArray[Any]]:
        given = [buffer.copy() for buffer in buffers[member.place.rank]]
        if not aside:
            member.allreduce(given, exact=exact)
            return given
        for buffer in given:
            buffer.flags.writeable = False
        into = [np.full_like(buffer, 7) for buffer in given]
        member.allreduce(given, into, exact)
        assert [each.tobytes() for each in given] == [each.tobytes() for each in buffers[member.place.rank]]
        return into

    first, *others = at_once(call, members)
    for other in others:
        assert [each.tobytes() for each in other] == [each.tobytes() for each in first]
    return first


def summed(members: list[Communicator], buffers: list[NDArray[Any]], exact: int = 0) -> NDArray[Any]:
    """The sum of one vector a member."""
    (total,) = all_summed(members, [[buffer] for buffer in buffers], exact)
    return total


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_sums_are_numpys_and_the_same_bits_everywhere(size: int, dtype: Any) -> None:
    with world(size) as members:
        for length in LENGTHS:
            buffers = data(size, length, dtype, length)
            result = summed(members, buffers)
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
            np.testing.assert_allclose(summed(members, buffers), np.sum(buffers, axis=0), rtol=0, atol=1e-3)


#: Of vectors that are summed together: as one they are small, or their borders are around those of segments.
TOGETHER = [
    (3,),
    (0, 0),
    (5, 0, 1),
    (SMALL_BYTES // 8, 0, SMALL_BYTES // 8),
    (SMALL_BYTES // 8, SMALL_BYTES // 8 + 1),
    (0, SEGMENT_BYTES // 4, 1),
    (SEGMENT_BYTES // 4 - 1, 1, SEGMENT_BYTES // 4 + 1, 0),
    (100_000, *[3] * 40, 70_000),
    (1, 2 * SEGMENT_BYTES + 5, 10),
]


@pytest.mark.parametrize("aside", [False, True], ids=["in place", "aside"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_several_vectors_are_summed_at_once(size: int, dtype: Any, aside: bool) -> None:
    with world(size) as members:
        for lengths in TOGETHER:
            buffers = several(size, lengths, dtype)
            for own, result in zip(zip(*buffers, strict=True), all_summed(members, buffers, aside=aside), strict=True):
                if dtype is np.int64:
                    np.testing.assert_array_equal(result, np.sum(own, axis=0))
                else:
                    total = np.sum(own, axis=0, dtype=np.float64)
                    np.testing.assert_allclose(result, total, rtol=0, atol=1000 * size * np.finfo(dtype).eps)


@pytest.mark.parametrize("aside", [False, True], ids=["in place", "aside"])
@pytest.mark.parametrize("lengths", [(10, 0, 7), (20_000, 101, 7), (3, 300_001, 100_000), (300_001, 3)])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_exact_end_of_several_vectors_travels_as_it_is(size: int, lengths: tuple[int, ...], aside: bool) -> None:
    values = [1_234_567, 1025, 1]
    with world(size, WireDtype.BFLOAT16) as members:
        buffers = several(size, lengths, np.float32)
        for own in buffers:
            own[-1][-3:] = values
        results = all_summed(members, buffers, exact=3, aside=aside)
        assert results[-1][-3:].tolist() == [size * value for value in values]
        results[-1], ends = results[-1][:-3], [[*own[:-1], own[-1][:-3]] for own in buffers]
        for own, result in zip(zip(*ends, strict=True), results, strict=True):
            np.testing.assert_allclose(result, np.sum(own, axis=0), rtol=0, atol=2000 * size * 2**-8)


@pytest.mark.parametrize("length", [10, 300_001])
def test_several_vectors_may_all_be_exact(length: int) -> None:
    with world(2, WireDtype.BFLOAT16) as members:
        first, last = all_summed(
            members, [[np.full(3, 1025, np.float32), np.full(length, 1025, np.float32)]] * 2, length
        )
        assert first.tolist() == [2048] * 3  # 1025 is rounded to 1024
        assert last.tolist() == [2050] * length


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_any_vectors_any_way(draws: st.DataObject) -> None:
    size = draws.draw(st.integers(1, 4), "size")
    wire = draws.draw(st.sampled_from([None, *WireDtype]), "wire")
    with world(size, wire) as members:
        for _ in range(4):
            dtype = draws.draw(st.sampled_from(DTYPES), "dtype")
            short, long = st.integers(0, 9), st.integers(0, SEGMENT_BYTES // 3)
            lengths = draws.draw(st.lists(st.one_of(short, long), min_size=1, max_size=6), "lengths")
            exact = draws.draw(st.integers(0, lengths[-1]), "exact")
            # Small whole numbers: their sums have no rounding in any dtype, so the order of adding does not matter.
            buffers = [[np.rint(each / 100).astype(dtype) for each in own] for own in several(size, lengths, dtype)]
            for aside in (False, True):
                results = all_summed(members, buffers, exact, aside)
                for own, result in zip(zip(*buffers, strict=True), results, strict=True):
                    assert result.tolist() == np.sum(own, axis=0).tolist()
            # Others show that all have the same bits, and that it does not matter where the sum goes.
            buffers = several(size, lengths, dtype)
            in_place, aside_ = (all_summed(members, buffers, exact, way) for way in (False, True))
            assert [each.tobytes() for each in in_place] == [each.tobytes() for each in aside_]


def test_some_sums_may_go_aside_and_others_stay_in_place() -> None:
    def call(member: Communicator) -> list[list[float]]:
        first, second = np.full(20_000, 1, np.float32), np.full(3, 2, np.float32)
        aside = np.empty_like(first)
        member.allreduce([first, second], [aside, second])
        return [np.unique(each).tolist() for each in (first, aside, second)]

    with world(3) as members:
        assert at_once(call, members) == [[[1], [3], [6]]] * 3


@pytest.mark.parametrize("length", [1000, 300_001])
@pytest.mark.parametrize("wire", list(WireDtype))
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_floats_travel_narrower_and_all_have_the_same_bits(size: int, wire: WireDtype, length: int) -> None:
    relative = {WireDtype.FLOAT32: 2**-23, WireDtype.BFLOAT16: 2**-8, WireDtype.FLOAT16: 2**-11}[wire]
    with world(size, wire) as members:
        for dtype in (np.float32, np.float64):
            buffers = data(size, length, dtype)
            total = np.sum(buffers, axis=0, dtype=np.float64)
            result = summed(members, buffers)
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
        result = summed(members, buffers, exact=3)
        assert result[-3:].tolist() == [size * 1_234_567, size * 1025, size]


def test_whole_numbers_are_not_rounded_on_the_wire() -> None:
    with world(2, WireDtype.BFLOAT16) as members:
        buffers = data(2, 50_000, np.int64)
        np.testing.assert_array_equal(summed(members, buffers), np.sum(buffers, axis=0))


@pytest.mark.parametrize("length", [10, 100_000])
@pytest.mark.parametrize("wire", [None, WireDtype.FLOAT16])
def test_infinities_and_nan_come_to_everybody(length: int, wire: WireDtype | None) -> None:
    buffers = data(3, length, np.float32)
    buffers[0][:3] = [np.inf, np.inf, np.nan]
    buffers[1][:3] = [-np.inf, 1, 1]
    with world(3, wire) as members:
        result = summed(members, buffers)[:3]
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
        assert summed(members, [np.ones(3, np.float32)] * size).tolist() == [size] * 3


_MEMORY = np.zeros(10, np.float32)
_READ_ONLY = np.frombuffer(bytes(16), np.float32)
_A, _B, _C = _MEMORY[:4], _MEMORY[4:8], _MEMORY[3:7]


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    ("buffers", "into", "error", "told"),
    [
        ([], None, ValueError, "at least one"),
        ([_A, np.zeros(4)], None, TypeError, "one dtype"),
        ([_A, _READ_ONLY], None, ValueError, "writable"),
        ([_A, _C], None, ValueError, "shares memory"),
        ([_A, _A], None, ValueError, "shares memory"),
        ([_A], [], ValueError, "1 buffers"),
        ([_A], [np.zeros(4)], TypeError, "one dtype"),
        ([_A], [np.zeros(5, np.float32)], ValueError, "does not fit"),
        ([_A], [_READ_ONLY], ValueError, "writable"),
        ([_A], [_C], ValueError, "shares memory"),
        ([_A, _B], [_B, _A], ValueError, "shares memory"),
        ([_A, np.zeros(4, np.float32)], [_B, _B], ValueError, "shares memory"),
        ([_A, _A], [_A, _B], ValueError, "shares memory"),
    ],
)
def test_what_are_no_buffers_for_one_sum_is_told_and_breaks_nothing(
    size: int, buffers: Any, into: Any, error: type[Exception], told: str
) -> None:
    with world(size) as members:
        with pytest.raises(error, match=told):
            members[0].allreduce(buffers, into)
        assert summed(members, [np.ones(3, np.float32)] * size).tolist() == [size] * 3


def test_buffers_that_are_only_read_may_share_memory() -> None:
    def call(member: Communicator) -> list[list[float]]:
        into = [np.empty(4, np.float32) for _ in range(3)]
        member.allreduce([_READ_ONLY, _READ_ONLY, _READ_ONLY], into)
        return [each.tolist() for each in into]

    with world(2) as members:
        assert at_once(call, members) == [[[0] * 4] * 3] * 2


@pytest.mark.parametrize("wire", [None, WireDtype.BFLOAT16])
@pytest.mark.parametrize(
    "lengths",
    [
        ((10,), (11,)),
        ((100_000,), (100_001,)),
        ((10,), (100_000,)),
        ((10, 11), (11, 10)),
        ((10, 11), (21,)),
        ((21,), (21, 0)),
        ((100_000, 11), (11, 100_000)),
        ((100_000, 11), (100_011,)),
    ],
)
def test_members_that_are_out_of_step_find_out(
    lengths: tuple[tuple[int, ...], tuple[int, ...]], wire: WireDtype | None
) -> None:
    def call(member: Communicator) -> str:
        with pytest.raises(WorldBroken) as broken:
            member.allreduce([np.zeros(length, np.float32) for length in lengths[member.place.rank]])
        return broken.value.reason

    with nothing_left_behind(), world(2, wire) as members:
        assert any("out of step" in reason for reason in at_once(call, members))


@pytest.mark.parametrize("length", [10, 100_000])
def test_members_with_other_exact_ends_are_out_of_step(length: int) -> None:
    def call(member: Communicator) -> str:
        with pytest.raises(WorldBroken) as broken:
            member.allreduce([np.zeros(length, np.float32)], exact=member.place.rank)
        return broken.value.reason

    with nothing_left_behind(), world(2, WireDtype.BFLOAT16) as members:
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
