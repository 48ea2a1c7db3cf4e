"""A batch is split by speed where members differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlflow_elastic.elastic.membership.messages import Progress
from sqlflow_elastic.elastic.membership.shares import Shares
from tests.elastic.membership.job import Job

A, B, C = (f"worker-{index}" for index in range(3))


def measured(seconds: dict[str, float], until: float = 20.0) -> Shares:
    shares = Shares()
    for now in range(int(until) + 1):
        for name, cost in seconds.items():
            shares.observe(name, cost, float(now))
    return shares


def test_members_of_about_one_speed_have_equal_shares() -> None:
    assert measured({A: 1.0, B: 1.1}).of((A, B), 64, 20.0) == ()


def test_one_of_half_the_speed_has_half_as_much() -> None:
    assert measured({A: 1.0, B: 2.0}).of((A, B), 60, 20.0) == (40 / 60, 20 / 60)


def test_one_that_is_not_known_has_the_mean() -> None:
    shares = measured({A: 1.0, B: 3.0}).of((A, B, C), 60, 20.0)
    assert shares[0] > shares[2] > shares[1]


def test_what_was_seen_for_a_moment_only_does_not_count() -> None:
    assert measured({A: 1.0, B: 2.0}, until=4.0).of((A, B), 64, 4.0) == ()


@given(st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=20), st.integers(1, 500))
def test_shares_are_whole_samples_at_least_one_each_and_all_of_them(costs: list[float], batch: int) -> None:
    names = [f"worker-{index}" for index in range(len(costs))]
    shares = measured(dict(zip(names, costs, strict=True)), until=6.0).of(names, batch, 6.0)
    if shares:
        samples = [round(share * batch) for share in shares]
        assert [pytest.approx(share * batch) for share in shares] == samples
        assert sum(samples) == batch
        assert min(samples) >= 1


def test_a_master_gives_a_slow_member_less_in_a_planned_change_and_not_too_often() -> None:
    job = Job(2)
    job.world(A, B)
    changes = []
    for _ in range(60):
        version = job.stored["version"]
        job.hears(A, Progress(version, 5, sample_seconds=0.001))
        job.hears(B, Progress(version, 5, sample_seconds=0.003))
        job.waits(0.5)
        if job.prepares:
            changes.append(job.now)
            assert all(prepare.planned for prepare in job.prepares.values())
            assert job.prepares[A].shares == (0.75, 0.25)
            job.runs(A, B, step=5)
    assert len(changes) == 1
    assert changes[0] >= 10.0
