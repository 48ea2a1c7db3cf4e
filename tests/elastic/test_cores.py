"""Members on one machine keep to cores of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from sqlflow_elastic.elastic.cores import keep_to, kept_to, share


@pytest.fixture
def cores() -> Iterator[set[int]]:
    before = os.sched_getaffinity(0)
    yield before
    keep_to(before)


@pytest.mark.parametrize("size", range(1, 12))
@pytest.mark.parametrize("count", range(1, 9))
def test_every_member_has_a_core_and_every_core_is_used(count: int, size: int) -> None:
    cores = list(range(10, 10 + count))
    shares = [share(cores, rank, size) for rank in range(size)]
    assert all(shares)
    assert set().union(*shares) == set(cores)
    if size <= count:
        assert sum(len(one) for one in shares) == count
        assert max(len(one) for one in shares) - min(len(one) for one in shares) <= 1
    else:
        assert all(len(one) == 1 for one in shares)


def test_all_threads_keep_to_them_and_get_the_others_back(cores: set[int]) -> None:
    one = {min(cores)}
    ready, end = threading.Event(), threading.Event()
    identifier = 0

    def wait() -> None:
        nonlocal identifier
        identifier = threading.get_native_id()
        ready.set()
        end.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        ready.wait()
        with kept_to(one, cores):
            assert os.sched_getaffinity(0) == os.sched_getaffinity(identifier) == one
        assert os.sched_getaffinity(0) == os.sched_getaffinity(identifier) == cores
    finally:
        end.set()
        thread.join()


def test_cores_that_are_gone_change_nothing(cores: set[int]) -> None:
    keep_to({max(cores) + 1000})
    assert os.sched_getaffinity(0) == cores
