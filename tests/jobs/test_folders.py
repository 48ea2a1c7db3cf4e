"""A job's folder: what goes and what stays."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.errors import DataError, JobCancelled, JobError, StorageError
from sqlflow_elastic.jobs import job_folder
from sqlflow_elastic.jobs.folders import KEEP, in_use, job_folders

ENDS: list[BaseException | None] = [
    None,
    JobError("failed"),
    RuntimeError("a bug"),
    DataError("wrong"),
    JobCancelled("stopped"),
    KeyboardInterrupt(),
]


def fill(folder: JobFolder) -> None:
    for path in (folder.snapshot, folder.validation, folder.encoded, folder.checkpoints, folder.tensorboard):
        path.mkdir()
        (path / "file").touch()
    folder.trained.parent.mkdir()
    for file in (folder.program, folder.model, folder.trained, folder.summary, folder.token, folder.statistics):
        file.touch()
    for file in (folder.state, folder.log, folder.log_of("worker-0"), folder.events, folder.timeline):
        file.touch()


def test_a_folder_is_the_owners_alone(tmp_path: Path) -> None:
    with job_folder(tmp_path / "new" / "root") as folder:
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        assert list(folder.logs.iterdir()) == []


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_what_people_read_stays_and_what_is_bulky_or_secret_goes(tmp_path: Path, end: BaseException | None) -> None:
    expected: contextlib.AbstractContextManager[object] = (
        contextlib.nullcontext() if end is None else pytest.raises(type(end))
    )
    with expected, job_folder(tmp_path) as folder:
        fill(folder)
        if end is not None:
            raise end
    kept = {"events.jsonl", "lock", "logs", "program.py", "state.db", "tensorboard", "timeline.json"}
    assert {path.name for path in folder.path.iterdir()} == kept
    assert {path.name for path in folder.logs.iterdir()} == {"main.log", "worker-0.log"}
    assert (folder.tensorboard / "file").exists()


def test_old_ones_go_but_never_one_in_use(tmp_path: Path) -> None:
    gone: list[str] = []
    with job_folder(tmp_path) as used:
        old = used.path.rename(tmp_path / "j-20000101-000000-0000")
        kept = []
        for day in range(1, KEEP + 3):
            kept.append(tmp_path / f"j-200101{day:02}-000000-0000")
            kept[-1].mkdir()
        with job_folder(tmp_path, gone.append) as newest:
            pass
        assert sorted(tmp_path.iterdir()) == [old, *kept[2:], newest.path]
        assert gone == [path.name for path in kept[:2]]
        assert [folder.path for folder in job_folders(tmp_path)] == [newest.path, *kept[:1:-1], old]
        old.rename(used.path)


def test_a_folder_is_in_use_while_its_session_lives(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from sqlflow_elastic.jobs import job_folder\n"
        "with job_folder(Path(sys.argv[1])) as folder:\n"
        "    folder.snapshot.mkdir(); print(folder.path, flush=True); sys.stdin.read()"
    )
    session = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with session:
        assert session.stdout is not None
        folder = JobFolder(Path(session.stdout.readline().strip()))
        assert in_use(folder)
        os.kill(session.pid, signal.SIGKILL)
    assert not in_use(folder)
    assert folder.snapshot.exists()
    with job_folder(tmp_path):  # the next job takes away what the killed session left
        assert not folder.snapshot.exists()


def test_a_folder_that_is_gone_is_not_in_use(tmp_path: Path) -> None:
    assert not in_use(JobFolder(tmp_path / "j-20000101-000000-0000"))


def test_a_root_that_is_no_folder_is_told_with_what_names_another(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.touch()
    with pytest.raises(StorageError) as caught, job_folder(root):
        pass
    assert (
        str(caught.value) == f"the jobs' folder {root} cannot be used: File exists; the setting work_dir names another"
    )


def test_a_root_that_nobody_made_yet_has_no_folders(tmp_path: Path) -> None:
    assert job_folders(tmp_path / "none") == []


def test_a_full_disk_is_told_and_the_folder_gives_its_room_back(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "as Arrow words it")
    with pytest.raises(StorageError) as caught, job_folder(tmp_path) as folder:
        fill(folder)
        raise full
    assert str(caught.value) == f"the job's folder {folder.path} cannot be written: No space left on device"
    assert not folder.snapshot.exists()


def test_other_errors_of_the_system_are_bugs(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), job_folder(tmp_path) as folder:
        (folder.path / "never written").read_bytes()
