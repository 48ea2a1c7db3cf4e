"""What is known of jobs: in their folders, and in a store of many jobs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.state import open_store
from sqlflow_elastic.errors import StorageError
from sqlflow_elastic.jobs import job_folder
from sqlflow_elastic.jobs.records import JobProcess, JobProgress, JobRecord, Stage, forget_job, list_jobs
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.jobs.state import state_url
from tests.services import ETCD_VARIABLE

REQUEST = JobRequest(JobKind.TRAIN, "my_model", "SELECT 1 TO TRAIN …", workers=4, batch_size=64, priority=2)
RUNNING = {"state": "running", "message": "", "since": 11.0, "started": 10.0}
ENDED = {"state": "failed", "message": "no luck", "since": 20.0, "started": 10.0, "ended": 20.0}

Write = Callable[..., None]


@pytest.fixture(params=["folders", "etcd"])
def store(request: pytest.FixtureRequest) -> str | None:
    """URL of the store of states; None for those in the jobs' folders."""
    url: str | None = None if request.param == "folders" else request.getfixturevalue("etcd")
    return url


@pytest.fixture
def etcd(tmp_path: Path) -> str:
    """URL of a store of states of several machines."""
    if (url := os.environ.get(ETCD_VARIABLE)) is None:
        pytest.skip(f"{ETCD_VARIABLE} names no etcd")
    return f"{url.rstrip('/')}/{tmp_path.name}"


@pytest.fixture
def write(store: str | None) -> Write:
    """Writes keys of a job's state."""
    return writer(store)


def writer(store: str | None) -> Write:
    def write(folder: JobFolder, **keys: Any) -> None:
        with open_store(state_url(folder, store)) as state:
            state.write({key.replace("__", "/"): json.dumps(value).encode() for key, value in keys.items()})

    return write


def records(root: Path, store: str | None) -> dict[str, JobRecord | None]:
    return dict(list_jobs(root, store))


def test_all_that_a_job_says_of_itself_is_read(tmp_path: Path, store: str | None, write: Write) -> None:
    with job_folder(tmp_path) as folder:
        write(
            folder,
            request=REQUEST.to_json(),
            status=RUNNING,
            progress={"phase": "training", "step": 8, "steps": 10, "loss": 0.5, "samples_per_second": 12.0, "new": 1},
            machine__world={"version": 3, "members": ["worker-0", "worker-2"]},
            workers__worker_0={"phase": "running", "pid": 4711, "since": 10.5, "exit_code": None, "preempted": False},
            workers__worker_1={"phase": "ended", "pid": 4712, "since": 12.0, "exit_code": -9, "preempted": True},
            workers__ps_0={"phase": "ended", "pid": 4713, "since": 9.0, "exit_code": -9, "out_of_memory": True},
            workers__ps_1={"phase": "running", "pid": 4714, "since": 9.5},
            servers={"ps_1": {"memory": 1 << 20, "rows": 30, "step": 8}},
            machine__plan='{"servers": 1}',
            metrics="127.0.0.1:9000",
            machine__version=3,
        )
        assert records(tmp_path, store) == {
            folder.path.name: JobRecord(
                id=folder.path.name,
                folder=folder,
                request=REQUEST,
                stage=Stage.RUNNING,
                message="",
                started=10.0,
                ended=None,
                progress=JobProgress(phase="training", step=8, steps=10, loss=0.5, samples_per_second=12.0),
                version=3,
                members=("worker-0", "worker-2"),
                processes=(
                    JobProcess("ps_0", "ended", 4713, -9, since=9.0, out_of_memory=True),
                    JobProcess("ps_1", "running", 4714, since=9.5, memory=1 << 20, rows=30),
                    JobProcess("worker_0", "running", 4711, since=10.5),
                    JobProcess("worker_1", "ended", 4712, -9, True, 12.0),
                ),
                plan={"servers": 1},
                metrics="127.0.0.1:9000",
            )
        }


def test_a_request_of_before_there_were_servers_is_read() -> None:
    said = REQUEST.to_json()
    for name in ("worker_memory", "ps_slots", "ps_memory"):
        del said[name]
    assert JobRequest.from_json(said) == REQUEST


@pytest.mark.parametrize("name", ["worker_memory", "ps_slots", "ps_memory"])
def test_a_request_for_less_than_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 0, not -1"):
        JobRequest.from_json({**REQUEST.to_json(), name: -1})


def test_the_newest_comes_first(tmp_path: Path, store: str | None, write: Write) -> None:
    ids = ["j-20260101-000000-aaaa", "j-20260301-000000-aaaa", "j-20260201-000000-aaaa"]
    for name in ids:
        (tmp_path / name).mkdir()
        write(JobFolder(tmp_path / name), request=REQUEST.to_json(), status=ENDED)
    assert [job for job, _ in list_jobs(tmp_path, store)] == sorted(ids, reverse=True)


def test_a_job_whose_session_was_killed_is_lost(tmp_path: Path, store: str | None, write: Write) -> None:
    with job_folder(tmp_path) as folder:
        write(folder, request=REQUEST.to_json(), status=RUNNING)
    found = records(tmp_path, store)[folder.path.name]
    assert found is not None
    assert found.stage is Stage.LOST
    assert found.stage.ended


def test_a_job_that_has_ended_is_not_lost(tmp_path: Path, store: str | None, write: Write) -> None:
    with job_folder(tmp_path) as folder:
        write(folder, request=REQUEST.to_json(), status=ENDED)
    found = records(tmp_path, store)[folder.path.name]
    assert found is not None
    assert (found.stage, found.message, found.ended) == (Stage.FAILED, "no luck", 20.0)


@pytest.mark.parametrize("keys", [{"request": {}, "status": RUNNING}, {"request": REQUEST.to_json(), "status": []}])
def test_a_state_that_makes_no_sense_is_damaged(
    tmp_path: Path, store: str | None, write: Write, keys: dict[str, Any]
) -> None:
    with job_folder(tmp_path) as folder:
        write(folder, **keys)
        assert records(tmp_path, store) == {folder.path.name: None}


def test_a_file_that_is_no_state_is_damaged_and_hides_no_other(tmp_path: Path) -> None:
    with job_folder(tmp_path) as folder, job_folder(tmp_path) as other:
        folder.state.write_bytes(b"no database" * 1000)
        with open_store(str(other.state)) as state:
            keys = {"request": REQUEST.to_json(), "status": RUNNING}
            state.write({key: json.dumps(value).encode() for key, value in keys.items()})
        found = records(tmp_path, None)
        assert found[folder.path.name] is None
        assert found[other.path.name] is not None


def test_a_folder_that_is_just_being_made_is_no_job_yet(tmp_path: Path) -> None:
    with job_folder(tmp_path) as folder:
        assert records(tmp_path, None) == {}
        assert not folder.state.exists()


def test_jobs_of_other_machines_are_seen(tmp_path: Path, etcd: str) -> None:
    folder = JobFolder(tmp_path / "elsewhere" / "j-20260101-000000-aaaa")
    writer(etcd)(folder, request=REQUEST.to_json(), status=RUNNING)
    found = records(tmp_path, etcd)[folder.path.name]
    assert found is not None
    assert found.stage is Stage.RUNNING


def test_a_forgotten_job_leaves_nothing_in_the_store(tmp_path: Path, etcd: str) -> None:
    write = writer(etcd)
    kept, gone = JobFolder(tmp_path / "j-1"), JobFolder(tmp_path / "j-10")
    for folder in (kept, gone):
        write(folder, request=REQUEST.to_json(), status=ENDED, **{f"tasks__{n}": n for n in range(100)})
    write(gone, **{f"more__{n}": n for n in range(100)})
    forget_job(etcd, "j-10")
    assert list(records(tmp_path, etcd)) == ["j-1"]
    with open_store(etcd) as state:
        assert len(state.list("")) == 102


def test_a_root_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.touch()
    with pytest.raises(StorageError, match=r"^the jobs' folder .*root cannot be read: Not a directory$"):
        list_jobs(root, None)
