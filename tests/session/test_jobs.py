"""SHOW JOBS, SHOW JOB and KILL JOB, from a session that runs no job itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlflow_elastic
from sqlflow_elastic import Session
from sqlflow_elastic.config import Config
from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.errors import CompileError, JobCancelled, JobError
from sqlflow_elastic.events import Failed, Message, Result, WorldChanged, to_json
from sqlflow_elastic.jobs.folders import KEEP
from sqlflow_elastic.jobs.records import Stage
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.jobs.state import JobState, state_url
from sqlflow_elastic.session import jobs
from sqlflow_elastic.session.job import statement_job
from tests.services import ETCD_VARIABLE, MYSQL_VARIABLE, POSTGRESQL_VARIABLE
from tests.waiting import wait_until

SECONDS = 30.0
REQUEST = JobRequest(JobKind.TRAIN, "prices", "SELECT * FROM t\nTO TRAIN …", workers=4, batch_size=64, priority=2)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with sqlflow_elastic.connect("duckdb://", work_dir=tmp_path) as session:
        yield session


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Session]:
    """A session of another terminal."""
    with sqlflow_elastic.connect("sqlite://", work_dir=tmp_path) as other:
        yield other


class Job:
    """A job that a session runs in a thread until it is told to end, or stopped unless it is deaf to that."""

    def __init__(self, session: Session, deaf: bool = False) -> None:
        self.error: BaseException | None = None
        self._session, self._deaf = session, deaf
        self._begun, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._begun.wait(SECONDS)

    def _run(self) -> None:
        context = self._session._context
        try:
            with statement_job(context, REQUEST) as self.folder:
                self.id = self.folder.path.name
                self._begun.set()
                while not self._end.wait(0.01):
                    if not self._deaf:
                        stop_if(context.cancelled)
        except JobCancelled as error:
            self.error = error

    def write(self, **keys: Any) -> None:
        with JobState(state_url(self.folder, None)) as state:
            state.write({key.replace("__", "/").replace("_", "-"): value for key, value in keys.items()})

    def end(self) -> None:
        self._end.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


def stop_if(cancelled: threading.Event) -> None:
    if cancelled.is_set():
        raise JobCancelled("the statement was stopped")


@pytest.fixture
def job(session: Session) -> Iterator[Job]:
    job = Job(session)
    yield job
    job.end()


@pytest.fixture
def deaf_job(session: Session) -> Iterator[Job]:
    job = Job(session, deaf=True)
    yield job
    job.end()


def last(session: Session, program: str) -> Any:
    *_, event = session.execute(program)
    return event


def listed(session: Session) -> list[dict[str, Any]]:
    return list(session.sql("SHOW JOBS").to_pylist())


def shown(session: Session, job: str) -> dict[tuple[str, str], str]:
    return {(row["part"], row["item"]): row["detail"] for row in session.sql(f"SHOW JOB {job}").to_pylist()}


def test_without_jobs_the_list_has_its_columns(other: Session) -> None:
    table = other.sql("SHOW JOBS")
    assert table.num_rows == 0
    assert table.schema.names == [
        "id",
        "kind",
        "title",
        "state",
        "workers",
        "progress",
        "samples_per_second",
        "priority",
        "started",
        "seconds",
    ]


def test_a_running_job_is_listed_in_another_session(job: Job, other: Session) -> None:
    with JobState(state_url(job.folder, None)) as state:
        state.running()
    job.write(
        progress={"phase": "training", "step": 812, "steps": 2000, "samples_per_second": 1234.5},
        machine__world={"version": 2, "members": ["worker-0", "worker-2"]},
    )
    (row,) = listed(other)
    assert 0 <= row.pop("seconds") < SECONDS
    assert row.pop("started").startswith(time.strftime("%Y-", time.gmtime()))
    assert row == {
        "id": job.id,
        "kind": "train",
        "title": "prices",
        "state": "running",
        "workers": "2 of 4",
        "progress": "step 812 of 2,000",
        "samples_per_second": 1234.5,
        "priority": 2,
    }


def test_a_job_says_how_it_ended(session: Session, other: Session) -> None:
    context = session._context
    with statement_job(context, REQUEST):
        assert [row["state"] for row in listed(other)] == ["starting"]
    with pytest.raises(JobError), statement_job(context, REQUEST):
        raise JobError("no luck\nand more")
    with pytest.raises(KeyboardInterrupt), statement_job(context, REQUEST):
        raise KeyboardInterrupt
    assert sorted(row["state"] for row in listed(other)) == ["cancelled", "failed", "succeeded"]
    failed = next(row["id"] for row in listed(other) if row["state"] == "failed")
    assert shown(other, failed)["state", "state"] == "failed: no luck\nand more"


def test_what_fails_after_the_job_is_the_statements_end(session: Session, other: Session) -> None:
    with pytest.raises(JobError), statement_job(session._context, REQUEST) as folder:
        with JobState(state_url(folder, None)) as state:
            state.ended(Stage.SUCCEEDED, "")  # and then its model could not be saved
        raise JobError("not saved")
    assert [row["state"] for row in listed(other)] == ["failed"]


def test_a_job_is_shown_with_its_processes_changes_and_logs(job: Job, other: Session) -> None:
    job.write(
        progress={"phase": "training", "step": 9, "steps": 10, "epoch": 1, "epochs": 2, "loss": 0.123456, "eta": 61.7},
        machine__world={"version": 2, "members": ["worker-0"]},
        workers__worker_0={"phase": "running", "pid": 4711, "since": 0, "exit_code": None, "preempted": False},
        workers__worker_1={"phase": "ended", "pid": 4712, "since": 1, "exit_code": -9, "preempted": True},
        workers__worker_2={"phase": "ended", "pid": 4713, "since": 1, "exit_code": 1, "preempted": False},
        workers__ps_0={"phase": "running", "pid": 4714, "since": 2, "exit_code": None, "preempted": False},
        workers__ps_1={"phase": "ended", "pid": 4715, "since": 2, "exit_code": -9, "out_of_memory": True},
        servers={"ps-0": {"memory": 2_500_000, "rows": 1_200}},
        workers__worker_3={"phase": "pending", "pid": None, "since": None, "exit_code": None, "preempted": False},
        metrics="http://127.0.0.1:9000",
    )
    first = WorldChanged(1, ("worker-0", "worker-1"), ("worker-0", "worker-1"), (), "worker-1 joined", 0, 0.0)
    second = WorldChanged(2, ("worker-0",), (), ("worker-1",), "worker-1 was ended by SIGKILL", 5, 0.127)
    lines = [json.dumps({**json.loads(to_json(event)), "at": at}) for event, at in ((first, 0), (second, 60))]
    told = [lines[0], to_json(Message('"WorldChanged"')), "", "no json", lines[1], lines[1][:-20]]
    job.folder.events.write_text("\n".join(told))
    job.folder.log_of("worker-0").write_text("".join(f"line {n}\n" for n in range(5000)))
    job.folder.timeline.touch()
    found = shown(other, job.id)
    assert found["job", job.id] == "train prices"
    assert found["request", "statement"] == REQUEST.statement
    assert found["request", "workers"] == "at most 4; scaling fastest"
    assert found["request", "priority"] == "2"
    assert found["state", "state"] == "starting"
    assert found["state", "world"] == "version 2: worker-0"
    assert found["progress", "training"] == "step 9 of 10"
    assert found["progress", "epoch"] == "1 of 2"
    assert found["progress", "loss"] == "0.1235"
    assert found["progress", "seconds left"] == "62"
    assert found["process", "worker-0"] == "running, process 4711, since 1970-01-01T00:00:00+00:00"
    assert found["process", "worker-1"].startswith("ended by SIGKILL, had to make room, process 4712")
    assert found["process", "worker-2"].startswith("ended with exit code 1, process 4713")
    assert found["process", "worker-3"] == "pending"
    assert found["process", "ps-0"].startswith("running, 1,200 rows in 2.5 MB, process 4714")
    assert found["process", "ps-1"].startswith("ended by SIGKILL, took more memory than it may, process 4715")
    changes = [detail for (part, _), detail in found.items() if part == "world change"]
    assert changes == [
        "1970-01-01T00:00:00+00:00: worker-1 joined; 2 workers begin at step 0",
        "1970-01-01T00:01:00+00:00: worker-1 was ended by SIGKILL; 1 worker goes on at step 5 after 0.13 s",
    ]
    log = found["log", "worker-0"].splitlines()
    assert log == [str(job.folder.log_of("worker-0")), *(f"  line {n}" for n in range(4995, 5000))]
    assert found["file", "folder"] == str(job.folder.path)
    assert found["file", "timeline"] == f"{job.folder.timeline} (for Perfetto)"
    assert ("file", "tensorboard") not in found
    assert found["file", "metrics"] == "http://127.0.0.1:9000 (for Prometheus)"


def test_many_world_changes_are_shown_from_the_last_ones(job: Job, other: Session) -> None:
    event = WorldChanged(1, ("worker-0",), (), (), "somebody left", 1, 0.1)
    job.folder.events.write_text((to_json(event) + "\n") * 60)
    rows = [row for row in other.sql(f"SHOW JOB {job.id}").to_pylist() if row["part"] == "world change"]
    assert rows[0]["detail"] == f"10 earlier ones are in {job.folder.events}"
    assert len(rows) == 51


def test_the_beginning_of_an_id_is_enough_where_it_is_one_jobs(session: Session, other: Session) -> None:
    for end in ("aaaa", "aabb"):
        keep(session, f"j-20260101-000000-{end}")
    assert ("job", "j-20260101-000000-aaaa") in shown(other, "j-20260101-000000-aaa")
    error = last(other, "SHOW JOB j-20260101").error
    assert isinstance(error, CompileError)
    assert error.message == "several jobs begin with 'j-20260101'"
    assert error.hint == "there are j-20260101-000000-aabb, j-20260101-000000-aaaa"


@pytest.mark.parametrize("statement", ["SHOW JOB", "KILL JOB"])
def test_an_unknown_id_is_told_with_the_closest(session: Session, other: Session, statement: str) -> None:
    error = last(other, f"{statement} 'j-1'").error
    assert (error.message, error.hint) == ("there is no job 'j-1'", "SHOW JOBS lists them when there are some")
    for day in range(1, 6):
        keep(session, f"j-2026010{day}-000000-{day}{day}{day}{day}")
    error = last(other, f"{statement} 'j-20260103-000000-3334'").error
    assert isinstance(error, CompileError)
    assert error.hint is not None
    assert error.hint.startswith("there are j-20260103-000000-3333, ")


def keep(session: Session, name: str) -> None:
    """A job that has ended, by that name."""
    with statement_job(session._context, REQUEST) as folder:
        pass
    folder.path.rename(folder.path.with_name(name))


def test_a_damaged_job_is_listed_and_told(session: Session, other: Session, tmp_path: Path) -> None:
    keep(session, "j-20260101-000000-aaaa")
    (tmp_path / "j-20260101-000000-aaaa" / "state.db").write_bytes(b"damaged" * 1000)
    assert [(row["id"], row["state"], row["kind"]) for row in listed(other)] == [
        ("j-20260101-000000-aaaa", "damaged", None)
    ]
    assert last(other, "SHOW JOB j-20260101").error.message == "the state of the job j-20260101-000000-aaaa is damaged"


def test_kill_job_stops_the_statement_of_another_session(job: Job, other: Session) -> None:
    events = list(other.execute(f"KILL JOB {job.id}"))
    assert Message(f"the job {job.id} is asked to end") in events
    result = events[-1]
    assert isinstance(result, Result)
    assert result.text == f"The job {job.id} has ended: cancelled"
    job.end()
    assert str(job.error) == f"the job {job.id} was ended by KILL JOB"
    assert [row["state"] for row in listed(other)] == ["cancelled"]
    error = last(other, f"KILL JOB {job.id}").error
    assert isinstance(error, CompileError)
    assert error.message == f"the job {job.id} has ended: cancelled: the job {job.id} was ended by KILL JOB"


def test_kill_job_stops_a_statement_that_reads(tmp_path: Path, other: Session) -> None:
    """A whole statement in a process of its own, whose SELECT does not come to an end."""
    program = (
        "SELECT range AS x, range / 2 AS y FROM range(1000000000000) TO TRAIN LinearRegressor LABEL y INTO endless"
    )
    code = (
        "import sys, sqlflow_elastic\n"
        "with sqlflow_elastic.connect('duckdb://', work_dir=sys.argv[1]) as session:\n"
        "    print([str(event.error) for event in session.execute(sys.argv[2]) if hasattr(event, 'error')])"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), program], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    with running:
        try:
            wait_until(lambda: other.jobs() != [], SECONDS)
            (job,) = other.jobs()
            assert isinstance(last(other, f"KILL JOB {job}"), Result)
            out, _ = running.communicate(timeout=SECONDS)
        finally:
            running.kill()
    assert out == f"['the job {job} was ended by KILL JOB']\n"


def test_kill_job_does_not_wait_for_ever(deaf_job: Job, other: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "KILL_SECONDS", 0.2)
    error = last(other, f"KILL JOB {deaf_job.id}").error
    assert isinstance(error, JobError)
    assert str(error).startswith(f"the job {deaf_job.id} was asked to end and goes on after ")


def test_waiting_for_a_job_to_end_can_be_stopped(deaf_job: Job, other: Session) -> None:
    events = other.execute(f"KILL JOB {deaf_job.id}")
    while not isinstance(next(events), Message):
        pass
    other.cancel()
    event = next(events)
    assert isinstance(event, Failed)
    assert isinstance(event.error, JobCancelled)


def test_a_lost_job_is_told_and_cannot_be_killed(session: Session, other: Session, tmp_path: Path) -> None:
    keep(session, "j-20260101-000000-aaaa")
    with JobState(state_url(JobFolder(tmp_path / "j-20260101-000000-aaaa"), None)) as state:
        state.write({"status": {"state": "running", "message": "", "since": 1.0, "started": 1.0}})
    (row,) = listed(other)
    assert (row["state"], row["seconds"]) == ("lost", None)
    assert shown(other, "j")["state", "state"] == "lost: its session was killed, and its processes with it"
    assert last(other, "KILL JOB j").error.message == "the job j-20260101-000000-aaaa has ended: lost"


@pytest.mark.parametrize("variable", [MYSQL_VARIABLE, POSTGRESQL_VARIABLE])
def test_the_statements_work_on_every_data_source(job: Job, tmp_path: Path, variable: str) -> None:
    if variable not in os.environ:
        pytest.skip(f"{variable} names no server")
    with sqlflow_elastic.connect(os.environ[variable], work_dir=tmp_path) as there:
        assert [row["id"] for row in listed(there)] == [job.id]
        assert ("job", job.id) in shown(there, job.id)
        assert isinstance(last(there, f"KILL JOB {job.id}"), Result)


def test_machines_that_share_a_store_see_each_others_jobs(tmp_path: Path) -> None:
    if (url := os.environ.get(ETCD_VARIABLE)) is None:
        pytest.skip(f"{ETCD_VARIABLE} names no etcd")
    here, there = (
        Config("sqlite://", str(tmp_path / name), state_store=f"{url.rstrip('/')}/{tmp_path.name}")
        for name in ("here", "there")
    )
    with Session.open(here) as session, Session.open(there) as other:
        job = Job(session)
        try:
            assert [(row["id"], row["state"]) for row in listed(other)] == [(job.id, "starting")]
            assert shown(other, job.id)["file", "folder"] == "on another machine"
            assert isinstance(last(other, f"KILL JOB {job.id}"), Result)
        finally:
            job.end()
        assert [row["state"] for row in listed(other)] == ["cancelled"]
        assert not job.folder.state.exists()
        for _ in range(KEEP + 1):
            with statement_job(session._context, REQUEST):
                pass
        assert job.id not in other.jobs()


def test_listing_jobs_imports_neither_tensorflow_nor_the_compiler(job: Job, tmp_path: Path) -> None:
    code = (
        "import sys, sqlflow_elastic\n"
        "with sqlflow_elastic.connect('duckdb://', work_dir=sys.argv[1]) as session:\n"
        "    id = session.sql('SHOW JOBS')['id'][0].as_py()\n"
        "    session.sql(f'SHOW JOB {id}')\n"
        "    session.sql(f'KILL JOB {id}')\n"
        "heavy = ('tensorflow', 'keras', 'sqlflow_elastic.compiler', 'grpc', 'pyetcd')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, timeout=SECONDS
    )
    assert done.stdout == "[]\n"
