"""Where a job's events and figures go, whoever reads them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.membership.messages import ServerState
from sqlflow_elastic.events import Message, Metrics, Progress, from_json
from sqlflow_elastic.jobs.master.journal import Journal
from sqlflow_elastic.jobs.pipe import take_unread
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.jobs.state import JobState
from tests.waiting import wait_until

SECONDS = 30.0
REQUEST = JobRequest(JobKind.TRAIN, "a model", "")


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path)


@pytest.fixture
def state(folder: JobFolder) -> Iterator[JobState]:
    with JobState(str(folder.state)) as state:
        state.begin(REQUEST)
        yield state


def test_all_but_the_session_hears_on_while_the_session_does_not_read(folder: JobFolder, state: JobState) -> None:
    reading, writing = os.pipe()
    journal = Journal(folder, REQUEST, state, writing, lambda: None)
    for step in range(2000):
        journal.tell(Metrics("train", step, None, {"loss": 0.5}))
    journal.tell(Message("hello"))
    journal.tell(Progress("training", 2000, 2000))
    wait_until(lambda: state.read("progress") is not None, SECONDS)
    assert state.read("progress")["step"] == 2000
    assert [json.loads(line)["text"] for line in folder.events.read_text().splitlines()] == ["hello"]
    journal.close()
    os.close(writing)
    with os.fdopen(reading, "rb") as session:
        events = [from_json(line.decode()) for line in (session.read() + take_unread(folder)).splitlines()]
    assert [event.step for event in events if isinstance(event, Metrics)] == list(range(2000))
    assert events[-2:] == [Message("hello"), Progress("training", 2000, 2000)]


@pytest.mark.parametrize(("kind_of_job", "told"), [(JobKind.PREDICT, (0, 3)), (JobKind.TRAIN, ())])
def test_what_is_done_of_a_queue_is_a_figure_and_of_a_long_one_progress(
    folder: JobFolder, state: JobState, kind_of_job: JobKind, told: tuple[int, ...]
) -> None:
    reading, writing = os.pipe()
    journal = Journal(folder, replace(REQUEST, kind=kind_of_job), state, writing, lambda: None)
    journal.tasks("saving", 1, 1)
    journal.tasks("predicting", 0, 4)
    journal.tasks("predicting", 3, 4)
    with urlopen(f"http://{state.read('metrics')}/metrics", timeout=SECONDS) as answer:
        figures = answer.read().decode()
    journal.close()
    os.close(writing)
    with os.fdopen(reading, "rb") as session:
        events = [from_json(line.decode()) for line in (session.read() + take_unread(folder)).splitlines()]
    assert events == [Progress("predicting", done, 4, unit="parts") for done in told]
    for queue, kind, number in (
        ("saving", "done", 1),
        ("saving", "open", 0),
        ("predicting", "done", 3),
        ("predicting", "open", 1),
    ):
        assert f'queue="{queue}",state="{kind}",title="a model"}} {number}.0\n' in figures


def test_how_servers_are_is_a_figure_while_they_live_and_is_stored_with_the_progress(
    folder: JobFolder, state: JobState
) -> None:
    journal = Journal(folder, REQUEST, state, None, lambda: None)
    journal.server("ps-0", ServerState(100, 10, 3))
    journal.server("ps-1", ServerState(200, 20, 3))
    journal.server_ended("ps-0")
    journal.server("ps-0", ServerState(100, 10, 4))
    journal.tell(Progress("training", 3, 3))
    wait_until(lambda: state.read("progress") is not None, SECONDS)
    assert state.read("servers") == {"ps-1": {"memory": 200, "rows": 20, "step": 3}}
    with urlopen(f"http://{state.read('metrics')}/metrics", timeout=SECONDS) as answer:
        figures = answer.read().decode()
    journal.close()
    assert 'server="ps-1",title="a model"} 200.0\n' in figures
    assert "ps-0" not in figures
