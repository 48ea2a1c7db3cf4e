"""The members of a world that are on one machine keep to a share of its cores each.

TensorFlow starts a thread for each core it may use when it runs its first operation, and threads that have nothing to
do spin for a while. Members whose threads are on the same cores hold one another up in every operation: a step takes
more than twice as long as on cores of their own. So a worker that will have company counts its share of the cores only,
and in a world its rank says which they are.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_THREADS = Path("/proc/self/task")


def share(cores: Sequence[int], rank: int, size: int) -> set[int]:
    """The cores of one member: contiguous parts in the order of ranks, one core at least.

    Args:
        cores: that there are, at least one.
        rank, size: its place among the members on them.
    """
    if size >= len(cores):
        return {cores[rank % len(cores)]}
    return set(cores[len(cores) * rank // size : len(cores) * (rank + 1) // size])


def keep_to(cores: set[int]) -> None:
    """Have all threads of this process, and those they start, run on these cores only."""
    for thread in _THREADS.iterdir():
        # It has ended meanwhile; or cores were taken from the machine: then it stays where it is.
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread.name), cores)


@contextmanager
def kept_to(cores: set[int], otherwise: set[int]) -> Iterator[None]:
    """Keep to some cores within, and to others afterwards."""
    keep_to(cores)
    try:
        yield
    finally:
        keep_to(otherwise)
