"""Tens of thousands of simulated jobs, to which everything happens that can happen to jobs."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.elastic.membership.failures import HARD, run

PARTS, HISTORIES = 10, 5_000
#: What each part must have seen, and how often at least: a simulation in which nothing happens proves nothing.
LEAST = {
    "kill": 200,
    "kill at work": 100,
    "killed in the last step": 50,
    "all killed": 15,
    "terminate": 300,
    "preempt": 300,
    "stop": 150,
    "stuck": 25,
    "cut": 700,
    "master": 700,
    "master in a command": 1000,
    "master adopted": 1500,
    "master died before Persist": 200,
    "master died before Send": 300,
    "master died before StartWorker": 15,
    "master died before Tell": 70,
    "master died before EndWorker": 5,
    "master died before CountTasks": 60,
    "master died before EndJob": 10,
    "apart": 100,
    "kept apart": 100,
    "kill server": 90,
    "full server": 15,
    "terminate server": 120,
    "stop server": 30,
    "cut server": 100,
    "servers killed": 3,
    "other number of servers": 120,
    "tables move": 300,
    "tables moved": 300,
    "master died before StartServer": 2,
    "a server was gone": 40,
    "a successor": 50,
    "waits for a server": 500,
    "entered in vain": 10,
    "rows moved": 100,
    "went back": 40,
    "user failure": 3,
    "exit code": 5,
    "cancel": 10,
    "job succeeded": 4500,
    "job failed": 10,
    "job cancelled": 10,
    "from checkpoint": 150,
    "last checkpoint": 100,
    "applied by some": 100,
    "finished alone": 30,
    "state passed on": 2000,
    "stopped together": 2000,
    "ring aborted": 50,
    "killed by the master": 400,
    "WorldChanged": 4000,
    "TaskDone": 10_000,
    "CountTasks": 10_000,
    "steps": 50_000,
}


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_a_job_comes_to_its_right_end(part: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(part * HISTORIES, (part + 1) * HISTORIES):
        seen.update(run(seed))
    assert {what: seen[what] for what, least in LEAST.items() if seen[what] < least} == {}


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.tuples(st.integers(0, 60), st.sampled_from(list(HARD))), max_size=5))
def test_no_short_plan_of_failures_breaks_a_job(seed: int, plan: list[tuple[int, str]]) -> None:
    run(seed, plan)


def test_a_seed_is_a_history() -> None:
    assert [run(seed) for seed in range(50)] == [run(seed) for seed in range(50)]
