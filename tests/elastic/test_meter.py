"""How fast training is, by the seconds it was told."""

from __future__ import annotations

import pytest

from sqlflow_elastic.elastic.meter import Meter
from sqlflow_elastic.elastic.replica import Speeds


def test_the_first_calls_of_a_world_are_not_measured() -> None:
    meter = Meter()
    for _ in range(3):
        meter.add(100, 10.0, 50, 9.0, settled=True)
    assert meter.speeds(1000) == Speeds()
    for _ in range(4):
        meter.add(100, 0.5, 25, 0.25, settled=True)
    speeds = meter.speeds(1000)
    assert speeds.samples_per_second == pytest.approx(200)
    assert speeds.sample_seconds == pytest.approx(0.01)
    assert speeds.measured == pytest.approx(2.0)
    assert speeds.eta == pytest.approx(5.0)
    assert speeds.settled


def test_what_was_measured_while_ways_were_tried_does_not_count_once_one_is_chosen() -> None:
    meter = Meter()
    for _ in range(10):
        meter.add(100, 1.0, 100, 1.0, settled=False)
    assert not meter.speeds(0).settled
    meter.add(100, 0.1, 100, 0.1, settled=True)
    assert meter.speeds(0).samples_per_second == pytest.approx(1000)
    assert meter.speeds(0).settled


def test_a_member_without_samples_has_no_speed_of_its_own() -> None:
    meter = Meter()
    for _ in range(5):
        meter.add(100, 1.0, 0, 0.1, settled=True)
    assert meter.speeds(0).sample_seconds == 0.0
