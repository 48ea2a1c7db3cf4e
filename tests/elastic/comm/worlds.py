"""Worlds of endpoints in this process, a thread a member, with real sockets."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import pytest

from sqlflow_elastic.elastic.comm import Communicator, Endpoint, Place, WireDtype
from sqlflow_elastic.elastic.comm.shared_memory import SharedMemory

TOKEN = b"the token of this job"
SECONDS = 20.0

T = TypeVar("T")
S = TypeVar("S")


def at_once(call: Callable[[S], T], each: Sequence[S]) -> list[T]:
    """Call it for each, all at the same time; the results in order, or the first exception."""
    with ThreadPoolExecutor(max(1, len(each))) as threads:
        return list(threads.map(call, each))


def places(endpoints: Sequence[Endpoint], version: int = 1) -> list[Place]:
    """The endpoints as a world, in their order."""
    size = len(endpoints)
    return [Place(version, rank, size, endpoints[(rank + 1) % size].address) for rank in range(size)]


def connected(endpoints: Sequence[Endpoint], version: int = 1, wire: WireDtype | None = None) -> list[Communicator]:
    """A communicator each."""
    pairs = list(zip(endpoints, places(endpoints, version), strict=True))
    return at_once(lambda pair: pair[0].connect(pair[1], SECONDS, wire), pairs)


@contextmanager
def world(size: int, wire: WireDtype | None = None, step_deadline: float = SECONDS) -> Iterator[list[Communicator]]:
    """A world, closed at the end."""
    with ExitStack() as cleanup:
        endpoints = [cleanup.enter_context(Endpoint(TOKEN, step_deadline=step_deadline)) for _ in range(size)]
        yield [cleanup.enter_context(member) for member in connected(endpoints, wire=wire)]


@contextmanager
def apart() -> Iterator[None]:
    """Within, members of a world have no memory in common, as on machines of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedMemory, "accept", staticmethod(_not_here))
        yield


def _not_here(offer: bytes, size: int) -> SharedMemory:
    raise FileNotFoundError("on another machine")


def descriptors() -> int:
    """Open files and sockets of this process."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no paths are wanted


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Fails if descriptors or threads were left open inside."""
    gc.collect()
    before = (descriptors(), threading.active_count())
    yield
    gc.collect()  # `pytest.raises` keeps frames alive, and these the memory that members have in common
    assert (descriptors(), threading.active_count()) == before
