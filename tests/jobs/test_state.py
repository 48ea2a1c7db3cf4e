"""What is said of where a job is in its life, by several at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.state.base import NOTHING_EXPECTED
from sqlflow_elastic.jobs.records import STATUS, Stage
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.jobs.state import JobState

REQUEST = JobRequest(JobKind.TRAIN, "a model", "")

SAYINGS: dict[str, Callable[[JobState], None]] = {
    "paused": lambda state: state.pause(True),
    "no more paused": lambda state: state.pause(False),
    "running": lambda state: state.running(),
    "ended": lambda state: state.ended(Stage.FAILED, "too late"),
}


class Overtaken(JobState):
    """Just before it writes, another process says that the job was cancelled."""

    def __init__(self, url: str, other: JobState) -> None:
        super().__init__(url)
        self._other = other

    def write(self, changes: Mapping[str, Any], expect: Mapping[str, int] = NOTHING_EXPECTED) -> int:
        if self._other.read(STATUS)["state"] != Stage.CANCELLED:
            self._other.set(Stage.CANCELLED, "enough")
        return super().write(changes, expect)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(JobFolder(tmp_path).state)


@pytest.fixture
def state(url: str) -> Iterator[JobState]:
    with JobState(url) as state:
        state.begin(REQUEST)
        yield state


def stage(state: JobState) -> tuple[Stage, str]:
    status = state.read(STATUS)
    return Stage(status["state"]), status["message"]


@pytest.mark.parametrize("say", SAYINGS.values(), ids=SAYINGS)
def test_a_job_that_has_ended_stays_so(state: JobState, say: Callable[[JobState], None]) -> None:
    state.set(Stage.CANCELLED, "enough")
    say(state)
    assert stage(state) == (Stage.CANCELLED, "enough")


@pytest.mark.parametrize("say", SAYINGS.values(), ids=SAYINGS)
def test_also_if_it_ends_while_something_else_is_said(
    url: str, state: JobState, say: Callable[[JobState], None]
) -> None:
    with Overtaken(url, state) as overtaken:
        say(overtaken)
    assert stage(state) == (Stage.CANCELLED, "enough")


def test_the_time_of_the_start_stays_and_the_end_has_one(state: JobState) -> None:
    started = state.read(STATUS)["started"]
    state.running()
    state.begin(REQUEST)
    state.pause(True)
    assert state.read(STATUS).keys() == {"state", "message", "since", "started"}
    state.ended(Stage.SUCCEEDED, "")
    status = state.read(STATUS)
    assert status["started"] == started
    assert status["ended"] == status["since"] >= started
