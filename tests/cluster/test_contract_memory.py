"""The contract of `cluster.base` on memory: a process with a limit that takes more is killed, and it is told why."""

from __future__ import annotations

import signal

import pytest

from sqlflow_elastic.cluster import Phase, ProcessSpec, Role
from tests.cluster.runner import HOLD, SECONDS, Runner

#: Takes 256 MiB of data of its own.
TAKE = """
    import signal
    taken = bytearray(256 << 20)
    for page in range(0, len(taken), 4096):
        taken[page] = 1
    print("taken", flush=True)
    signal.pause()
"""
#: Takes as much that other processes could share.
SHARE = """
    import mmap, signal
    shared = mmap.mmap(-1, 256 << 20)
    for page in range(0, len(shared), 4096):
        shared[page] = 1
    print("taken", flush=True)
    signal.pause()
"""
LIMIT = 128


def test_who_takes_more_than_it_may_is_killed(runner: Runner) -> None:
    process = runner.start(TAKE, job="job", name="ps-0", role=Role.SERVER, slots=0, memory=LIMIT)
    assert process.wait(SECONDS) == -signal.SIGKILL
    status = runner.ended("job", "ps-0")
    assert (status.role, status.out_of_memory, status.preempted) == (Role.SERVER, True, False)


@pytest.mark.parametrize(("text", "limit"), [(HOLD, LIMIT), (SHARE, LIMIT), (TAKE, 1024), (TAKE, 0)])
def test_who_takes_no_more_than_it_may_runs_on(runner: Runner, text: str, limit: int) -> None:
    process = runner.running(text, job="job", name="fits", memory=limit)
    assert runner.start(TAKE, memory=LIMIT).wait(SECONDS) == -signal.SIGKILL
    status = runner.status("job", "fits")
    assert (status.phase, status.out_of_memory) == (Phase.RUNNING, False)
    assert process.wait(0) is None


def test_who_is_killed_otherwise_had_enough(runner: Runner) -> None:
    runner.running(HOLD, job="job", name="ps-0", memory=LIMIT).kill()
    assert not runner.ended("job", "ps-0").out_of_memory


def test_a_limit_is_no_less_than_nothing(runner: Runner) -> None:
    with pytest.raises(ValueError, match="-1 MiB are less than none"):
        ProcessSpec(runner.folder / "program.py", runner.folder / "log", runner.folder, {}, memory=-1)
