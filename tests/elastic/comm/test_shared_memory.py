"""Memory in common: only what was offered is taken, only where it is, and nothing is left of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import Communicator
from sqlflow_elastic.elastic.comm.shared_memory import SharedMemory
from tests.elastic.comm.worlds import at_once, descriptors, nothing_left_behind, world

SIZE = 100_000

_WRITER = """
import sys
from sqlflow_elastic.elastic.comm import Communicator
from sqlflow_elastic.elastic.comm.shared_memory import SharedMemory
SharedMemory.accept(sys.argv[1].encode(), int(sys.argv[2])).keep()[:] = 7
"""


def test_another_process_writes_to_it() -> None:
    memory = SharedMemory.make(SIZE)
    kept = memory.keep()
    assert not kept.any()
    subprocess.run([sys.executable, "-c", _WRITER, memory.offer().decode(), str(SIZE)], check=True)
    memory.close()
    assert (kept == 7).all()


def test_it_lives_as_long_as_somebody_has_it() -> None:
    with nothing_left_behind():
        memory = SharedMemory.make(SIZE)
        other = SharedMemory.accept(memory.offer(), SIZE)
        one, kept = memory.keep(), other.keep()
        memory.close()
        other.close()
        one[:] = 3
        del memory, other, one
        assert (kept == 3).all()
        assert kept.ctypes.data % 64 == 0
        del kept


def test_what_was_closed_is_not_found() -> None:
    memory = SharedMemory.make(SIZE)
    offer = memory.offer()
    memory.close()
    # The file's number may be another file's by now.
    with pytest.raises((OSError, ValueError)):
        SharedMemory.accept(offer, SIZE)


def changed(**facts: Any) -> Callable[[bytes], bytes]:
    return lambda offer: json.dumps(json.loads(offer) | facts).encode()


@pytest.mark.parametrize(
    "change",
    [
        changed(secret="00" * 32),
        changed(secret=""),
        changed(process=2**22),
        changed(file=10_000),
        lambda offer: b"",
        lambda offer: b"[]x",
    ],
    ids=["other secret", "no secret", "no process", "no file", "no offer", "no JSON"],
)
def test_nothing_but_what_was_offered_is_taken(change: Callable[[bytes], bytes]) -> None:
    memory = SharedMemory.make(SIZE)
    before = descriptors()
    with pytest.raises((OSError, ValueError)):
        SharedMemory.accept(change(memory.offer()), SIZE)
    assert descriptors() == before
    memory.close()


def test_a_file_that_is_no_memory_is_not_opened() -> None:
    memory = SharedMemory.make(SIZE)
    with tempfile.TemporaryFile() as file:
        file.write(bytes(2 * SIZE))
        with pytest.raises(ValueError, match="is no shared memory"):
            SharedMemory.accept(changed(file=file.fileno())(memory.offer()), SIZE)
    read, write = os.pipe()  # to open it would block
    with pytest.raises(ValueError, match="is no shared memory"):
        SharedMemory.accept(changed(file=read)(memory.offer()), SIZE)
    os.close(read)
    os.close(write)
    memory.close()


def test_too_little_memory_is_not_taken() -> None:
    memory = SharedMemory.make(SIZE)
    before = descriptors()
    with pytest.raises(ValueError, match="length"):
        SharedMemory.accept(memory.offer(), SIZE + 1)
    assert descriptors() == before
    memory.close()


@pytest.mark.parametrize("stranger", [0, 1, 2])
def test_where_one_member_has_it_not_nobody_uses_it(monkeypatch: pytest.MonkeyPatch, stranger: int) -> None:
    make, accept = SharedMemory.make, SharedMemory.accept
    calls = 0

    def refused(size: int) -> SharedMemory:
        if stranger == 0:
            raise OSError("no memory")
        return make(size)

    def refused_to_one(offer: bytes, size: int) -> SharedMemory:
        nonlocal calls
        calls += 1
        if calls == stranger:
            raise OSError("no such process")
        return accept(offer, size)

    monkeypatch.setattr(SharedMemory, "make", staticmethod(refused))
    monkeypatch.setattr(SharedMemory, "accept", staticmethod(refused_to_one))
    with nothing_left_behind(), world(3) as members:
        vectors = [np.full(SIZE, rank, np.float32) for rank in range(3)]
        for total in (3, 9):
            at_once(lambda member: member.allreduce([vectors[member.place.rank]]), members)
            assert all((vector == total).all() for vector in vectors)


def test_a_member_of_a_world_that_is_over_writes_to_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[NDArray[np.uint8]] = []
    keep = SharedMemory.keep

    def noted(memory: SharedMemory) -> NDArray[np.uint8]:
        kept.append(keep(memory))
        return kept[-1]

    monkeypatch.setattr(SharedMemory, "keep", noted)

    def summed(members: list[Communicator]) -> None:
        vectors = [np.full(SIZE, rank + 1.0) for rank in range(2)]
        at_once(lambda member: member.allreduce([vectors[member.place.rank]]), members)
        assert all((vector == 3.0).all() for vector in vectors)

    with world(2) as members, world(2) as later:
        summed(members)
        of_the_first = list(kept)
        summed(later)
        assert len(of_the_first) == len(kept) / 2 == 2
        for memory in of_the_first:
            memory[:] = 255
        assert not any((memory == 255).all() for memory in kept[2:])
        summed(later)
