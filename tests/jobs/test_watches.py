"""What a master sees of its job's processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from sqlflow_elastic.cluster import Cluster, Phase, Role, Status, Watch
from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.membership.master_protocol import MasterEvent, ProcessChanged
from sqlflow_elastic.jobs.master.journal import Journal
from sqlflow_elastic.jobs.master.watches import Watches
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.jobs.state import JobState
from tests.waiting import wait_until

SECONDS = 10.0
REQUEST = JobRequest(JobKind.TRAIN, "many", "", workers=300)


class Once(Watch):
    """Has all to say at once."""

    def __init__(self, statuses: list[Status]) -> None:
        self._statuses = statuses
        self._ready = os.eventfd(1)

    def fileno(self) -> int:
        return self._ready

    def next(self, seconds: float) -> list[Status]:
        os.eventfd_read(self._ready)
        return self._statuses

    def close(self) -> None:
        os.close(self._ready)


class Watched:
    """The part of a cluster that is watched."""

    def __init__(self, statuses: list[Status]) -> None:
        self._statuses = statuses

    def watch(self, job: str) -> Watch:
        return Once(self._statuses)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[JobState]:
    with JobState(str(JobFolder(tmp_path).state)) as state:
        state.begin(REQUEST)
        yield state


def status(name: str, role: Role = Role.WORKER) -> Status:
    return Status("job", name, role, Phase.RUNNING, 1, None, False, 0.0, None)


def test_however_many_workers_there_are_the_machine_hears_of_them_together_and_lookers_on_of_each(
    tmp_path: Path, state: JobState
) -> None:
    names = [f"worker-{index}" for index in range(300)]
    cluster = cast("Cluster", Watched([status("master-1", Role.MASTER), *map(status, names)]))
    journal = Journal(JobFolder(tmp_path), REQUEST, state, None, lambda: None)
    heard: list[tuple[MasterEvent, ...]] = []
    watches = Watches("job", cluster, state, journal, lambda *events: heard.append(events))
    watches.start()
    try:
        wait_until(lambda: state.read(f"workers/{names[-1]}") is not None, SECONDS)
    finally:
        watches.close()
        journal.close()
    assert [[event.name for event in events if isinstance(event, ProcessChanged)] for events in heard] == [names]
    assert {key.removeprefix("workers/") for key in state.read_all() if key.startswith("workers/")} == set(names)
