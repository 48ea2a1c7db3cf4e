"""How many workers a job takes: measured, not assumed."""

from __future__ import annotations

import pytest

from sqlflow_elastic.elastic.membership.master_protocol import EndWorker
from sqlflow_elastic.elastic.membership.messages import Progress, Release
from sqlflow_elastic.elastic.membership.sizing import Sizing
from sqlflow_elastic.elastic.membership.spec import JobSpec, Scaling
from sqlflow_elastic.events import Message
from tests.elastic.membership.job import Job

A, B = "worker-0", "worker-1"


def sizing(limit: int, batch: int = 64) -> Sizing:
    return Sizing(JobSpec("job", limit, batch))


def speed(samples: float, *, measured: float = 5.0, settled: bool = True, eta: float = 600.0) -> Progress:
    return Progress(1, 100, samples, 0.0, measured, settled, eta)


def found(limit: int, speeds: dict[int, float]) -> tuple[int, list[int]]:
    """The size that stays, and the sizes that were tried on the way, where there is room for all."""
    decided = sizing(limit)
    tried = [decided.target]
    for _ in range(20):
        decided.measured(decided.target, speed(speeds[decided.target]))
        if decided.target != tried[-1]:
            tried.append(decided.target)
    return decided.target, tried


def test_a_second_worker_that_makes_it_slower_is_given_back() -> None:
    assert found(2, {1: 71_000, 2: 26_000}) == (1, [1, 2, 1])


def test_sizes_double_as_long_as_that_helps() -> None:
    assert found(6, {1: 1000, 2: 1900, 4: 3500, 6: 4500}) == (6, [1, 2, 4, 6])
    assert found(8, {1: 1000, 2: 1900, 4: 2500, 8: 2400}) == (4, [1, 2, 4, 8, 4])


def test_three_percent_is_noise() -> None:
    assert found(2, {1: 1000, 2: 1020})[0] == 1
    assert found(2, {1: 1000, 2: 1040})[0] == 2


def test_the_full_size_is_tried_once_if_the_parts_say_that_it_wins() -> None:
    # Alone 64 ms a step; with two 32 ms + 36 ms of exchange, so 16 workers take 4 ms + 67 ms: hopeless.
    assert found(16, {1: 1000, 2: 64 / 0.068, 16: 64 / 0.071}) == (1, [1, 2, 1])
    # With two 32 ms + 31.5 ms, so 16 workers take 4 ms + 59 ms, which is not 3 % faster than one.
    assert found(16, {1: 1000, 2: 64 / 0.0635}) == (1, [1, 2, 1])
    # With two 32 ms + 30.5 ms, so 8 workers take 8 ms + 53 ms.
    assert found(8, {1: 1000, 2: 64 / 0.0625, 8: 64 / 0.0613}) == (8, [1, 2, 8])
    assert found(8, {1: 1000, 2: 64 / 0.0625, 8: 64 / 0.0633}) == (1, [1, 2, 8, 1])


def test_nothing_is_tried_before_the_speed_is_settled_and_measured() -> None:
    decided = sizing(2)
    assert decided.measured(1, speed(1000, settled=False)) is None
    assert decided.measured(1, speed(1000, measured=0.9)) is None
    assert decided.measured(1, speed(64 * 20, measured=1.4)) is None
    assert decided.target == 1


def test_nothing_is_tried_when_the_rest_is_too_short_to_repay_it() -> None:
    decided = sizing(2)
    said = decided.measured(1, speed(1000, eta=90.0))
    assert said == "1 worker: to try 2 pays from 100 s on, and 90 s are left"
    assert decided.measured(1, speed(1000, eta=80.0)) is None, "once is enough"
    assert decided.target == 1


def test_a_trial_for_which_there_is_no_room_ends_when_it_would_not_repay_any_more() -> None:
    decided = sizing(2)
    decided.measured(1, speed(1000))
    assert decided.target == 2
    assert decided.measured(1, speed(1000, eta=200.0)) is None
    assert decided.measured(1, speed(1000, eta=90.0)) is not None
    assert decided.target == 1


def test_a_world_smaller_than_the_one_to_try_is_judged_as_it_is() -> None:
    decided = sizing(4)
    decided.measured(1, speed(1000))
    decided.measured(2, speed(1900))
    assert decided.target == 4
    assert decided.measured(3, speed(2500, measured=4.0)) is None
    assert decided.measured(3, speed(1800, measured=6.0)) is not None
    assert decided.target == 2


def test_a_new_master_goes_on_with_a_trial() -> None:
    decided = sizing(2)
    decided.measured(1, speed(1000))
    again = Sizing(JobSpec("job", 2, 64), decided.to_json())
    assert again.target == 2
    again.measured(2, speed(900))
    assert again.target == 1


def test_a_new_master_does_not_try_again() -> None:
    decided = sizing(2)
    decided.measured(1, speed(71_000))
    decided.measured(2, speed(26_000))
    again = Sizing(JobSpec("job", 2, 64), decided.to_json())
    assert again.measured(1, speed(71_000)) is None
    assert again.target == 1


@pytest.mark.parametrize(("spec", "target"), [((8, 64, Scaling.ALL), 8), ((8, 3, Scaling.ALL), 3), ((8, None), 8)])
def test_all_takes_all_that_have_something_to_do(spec: tuple[int, int | None], target: int) -> None:
    assert Sizing(JobSpec("job", *spec)).target == target


def test_the_worker_that_began_alone_is_replaced_when_others_stay() -> None:
    job = Job(2, scaling=Scaling.FASTEST)
    job.warms(A)
    job.runs(A, step=-1)
    job.hears(A, speed(1_000))
    job.warms(B)
    job.runs(A, B)
    commands = job.hears(A, Progress(2, 200, 1_800.0, 0.0, 2.0, True, 600.0))
    assert EndWorker(A, kill=False) in commands
    assert job.told[-2:] == [
        Message("2 workers 1,800 samples/s, 1 worker 1,000: 2 workers from now on"),
        Message("worker-0, which uses all cores, makes room for one that takes its share"),
    ]


def test_a_worker_that_does_not_help_is_released_with_the_figures() -> None:
    job = Job(2, scaling=Scaling.FASTEST)
    assert job.started == [A]
    job.warms(A)
    job.runs(A, step=-1)
    job.hears(A, speed(71_000))
    assert job.started == [B]
    job.warms(B)
    job.runs(A, B)
    job.hears(A, Progress(2, 200, 26_000.0, 0.0, 2.0, True, 600.0))
    assert job.sent(B, Release) == Release("2 workers 26,000 samples/s, 1 worker 71,000")
    assert job.prepares[A].planned
    assert set(job.prepares) == {A}
    assert job.told[-1] == Message("2 workers 26,000 samples/s, 1 worker 71,000: 1 worker from now on")
    job.ends(B, 0)
    job.runs(A, step=201)
    assert job.started == []
    assert job.stored["sizing"]["decided"] is True
