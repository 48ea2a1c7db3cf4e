"""A job's folder: when it goes and when it stays."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import pytest

from sqlflow_elastic.errors import DataError, JobCancelled, JobError, StorageError
from sqlflow_elastic.jobs import job_folder
from sqlflow_elastic.jobs.folders import KEEP


def test_a_folder_is_the_owners_alone_and_goes_with_success(tmp_path: Path) -> None:
    with job_folder(tmp_path / "new" / "root") as folder:
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        (folder.path / "snapshot").mkdir()
    assert list((tmp_path / "new" / "root").iterdir()) == []


@pytest.mark.parametrize("error", [JobError("failed"), RuntimeError("a bug")])
def test_it_stays_when_somebody_may_look_into_it(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)), job_folder(tmp_path) as folder:
        raise error
    assert list(tmp_path.iterdir()) == [folder.path]


@pytest.mark.parametrize("error", [DataError("wrong"), JobCancelled("stopped"), KeyboardInterrupt()])
def test_it_goes_when_the_reason_is_known(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), job_folder(tmp_path):
        raise error
    assert list(tmp_path.iterdir()) == []


def test_old_ones_go_but_never_one_in_use(tmp_path: Path) -> None:
    with job_folder(tmp_path) as used:
        old = used.path.rename(tmp_path / "j-20000101-000000-0000")
        kept = []
        for day in range(1, KEEP + 3):
            kept.append(tmp_path / f"j-200101{day:02}-000000-0000")
            kept[-1].mkdir()
        with pytest.raises(JobError), job_folder(tmp_path) as newest:
            raise JobError("failed")
        assert sorted(tmp_path.iterdir()) == [old, *kept[2:], newest.path]
        old.rename(used.path)


def test_a_root_that_is_no_folder_is_told_with_what_names_another(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.touch()
    with pytest.raises(StorageError) as caught, job_folder(root):
        pass
    assert (
        str(caught.value) == f"the jobs' folder {root} cannot be used: File exists; the setting work_dir names another"
    )


def test_a_full_disk_is_told_and_the_folder_gives_its_room_back(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "as Arrow words it")
    with pytest.raises(StorageError) as caught, job_folder(tmp_path) as folder:
        raise full
    assert str(caught.value) == f"the job's folder {folder.path} cannot be written: No space left on device"
    assert list(tmp_path.iterdir()) == []


def test_other_errors_of_the_system_are_bugs(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), job_folder(tmp_path) as folder:
        (folder.path / "never written").read_bytes()
    assert list(tmp_path.iterdir()) == [folder.path]
