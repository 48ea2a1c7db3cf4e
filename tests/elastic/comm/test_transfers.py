"""Bytes of any length come to whom they are for: gathered from all, or sent from one to some."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import Communicator
from sqlflow_elastic.elastic.comm.base import BytesLike
from sqlflow_elastic.elastic.comm.ring import PIECE_BYTES
from tests.elastic.comm.worlds import at_once, world


def noise(length: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(length)


def gather(members: list[Communicator], blocks: list[bytes]) -> list[list[memoryview]]:
    return at_once(lambda member: member.allgather(blocks[member.place.rank]), members)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_all_get_the_bytes_of_all(size: int) -> None:
    lengths = [0, 1, 3_000_001, 17, 0, 70_000, 5]
    with world(size) as members:
        for turn in range(3):
            blocks = [noise(lengths[(rank + turn) % len(lengths)], rank) for rank in range(size)]
            results = gather(members, blocks)
            assert [[bytes(view) for view in result] for result in results] == [blocks] * size


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytearray(b"abc"),
        memoryview(b"abcd").cast("H"),
        np.float32(3).reshape(()),
        np.zeros((2, 0)),
        np.arange(6.0).reshape(2, 3),
    ],
    ids=["none", "bytearray", "memoryview", "scalar", "empty array", "matrix"],
)
def test_whatever_has_bytes_is_sent(data: BytesLike) -> None:
    flat = data.tobytes() if isinstance(data, np.ndarray) else bytes(data)
    with world(2) as members:
        for result in at_once(lambda member: member.allgather(data), members):
            assert [bytes(view) for view in result] == [flat, flat]


def test_what_has_gaps_is_told_and_breaks_nothing() -> None:
    with world(2) as members:
        with pytest.raises(ValueError, match="contiguous"):
            members[0].allgather(np.zeros((4, 4))[:, :2])
        with pytest.raises(ValueError, match="contiguous"):
            members[0].allgather(memoryview(b"abcdef")[::2])
        assert at_once(lambda member: [bytes(view) for view in member.allgather(b"x")], members) == [[b"x", b"x"]] * 2


def broadcast(members: list[Communicator], payload: list[Any], root: int, receivers: list[int]) -> list[Any]:
    def call(member: Communicator) -> list[NDArray[np.uint8]] | None:
        return member.broadcast(payload if member.place.rank == root else None, root, receivers)

    return at_once(call, members)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_each_receiver_gets_the_roots_buffers_and_nobody_else_gets_any(size: int) -> None:
    payload: list[Any] = [noise(5), b"", np.arange(500_000.0), noise(PIECE_BYTES), noise(PIECE_BYTES + 1)]
    flat = [np.frombuffer(memoryview(data).cast("B") if len(data) else b"", np.uint8) for data in payload]
    with world(size) as members:
        for root in range(size):
            others = [rank for rank in range(size) if rank != root]
            for receivers in itertools.chain.from_iterable(
                itertools.combinations(others, count) for count in range(size)
            ):
                results = broadcast(members, payload, root, list(receivers))
                for rank, result in enumerate(results):
                    if rank in receivers:
                        assert all(np.array_equal(got, sent) for got, sent in zip(result, flat, strict=True))
                    else:
                        assert result is None
        # Nothing is left on the way that a next operation would take for its own.
        assert at_once(lambda member: len(member.allgather(b"x")), members) == [size] * size


@pytest.mark.parametrize("payload", [[], [b""], [b"", b"", b"x"]])
def test_few_or_no_bytes_are_sent_as_well(payload: list[bytes]) -> None:
    with world(3) as members:
        results = broadcast(members, payload, 1, [0, 2])
        assert results[1] is None
        for rank in (0, 2):
            assert [array.tobytes() for array in results[rank]] == payload


def test_a_hundred_megabytes_come_as_they_went() -> None:
    payload = [np.random.default_rng(0).integers(0, 2**62, 6_250_000) for _ in range(2)]
    with world(3) as members:
        results = broadcast(members, payload, 0, [2])
    assert results[0] is None
    assert results[1] is None
    assert all(np.array_equal(got.view(np.int64), sent) for got, sent in zip(results[2], payload, strict=True))


def test_what_was_sent_arrives_though_the_sender_closes_at_once() -> None:
    payload = noise(300_000)
    with world(2) as (root, receiver):
        assert root.broadcast([payload], 0, [1]) is None
        root.close()
        (array,) = receiver.broadcast(None, 0, [1]) or []
        assert array.tobytes() == payload


def test_the_root_among_the_receivers_counts_for_nothing() -> None:
    with world(2) as members:
        results = broadcast(members, [b"abc"], 0, [0, 1])
        assert results[0] is None
        assert results[1][0].tobytes() == b"abc"
        assert broadcast(members, [b"abc"], 0, [0]) == [None, None]


@pytest.mark.parametrize("size", [1, 2])
def test_wrong_arguments_are_told(size: int) -> None:
    with world(size) as members:
        for payload, root, receivers in [(None, 0, [0]), ([b""], 7, [0]), ([b""], 0, [7]), ([b""], 0, [-1])]:
            with pytest.raises(ValueError, match=r"root|members"):
                members[0].broadcast(payload, root, receivers)
        assert at_once(lambda member: len(member.allgather(b"x")), members) == [size] * size
