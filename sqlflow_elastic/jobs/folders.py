"""The folders of jobs: made new, removed when the job is done, kept for a while when it failed."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.errors import JobCancelled, JobError, SQLFlowError, StorageError, why

#: How many folders of failed jobs stay.
KEEP = 20

_LOCK = "lock"  # held while the job's session lives


@contextmanager
def job_folder(root: Path) -> Iterator[JobFolder]:
    """A new, empty folder ``root/j-DATE-TIME-xxxx`` for one job, readable by its owner only.

    It is removed at the end, unless the job failed in a way that somebody may want to look into: a `JobError` or a bug.
    Older folders kept like that go when there are more than `KEEP`.

    Raises: StorageError: it cannot be made, or the machine did not take what was written into it.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        _prune(root)
        path = _make(root)
        lock = _lock(path)
    except OSError as error:
        message = f"the jobs' folder {root} cannot be used: {why(error)}; the setting work_dir names another"
        raise StorageError(message) from error
    try:
        yield JobFolder(path)
    except SQLFlowError as error:
        if isinstance(error, JobCancelled) or not isinstance(error, JobError):
            shutil.rmtree(path)
        raise
    except OSError as error:
        if (refused := StorageError.of(error, f"the job's folder {path} cannot be written")) is None:
            raise
        shutil.rmtree(path)
        raise refused from error
    except (KeyboardInterrupt, GeneratorExit):
        shutil.rmtree(path)
        raise
    else:
        shutil.rmtree(path)
    finally:
        if lock is not None:
            os.close(lock)


def _make(root: Path) -> Path:
    while True:
        path = root / f"{time.strftime('j-%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path


def _lock(path: Path) -> int | None:
    """Take the folder's lock, which goes with the process; None if somebody has it."""
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _prune(root: Path) -> None:
    for path in sorted(root.glob("j-*"))[:-KEEP]:
        try:
            lock = _lock(path)
        except FileNotFoundError:  # another session is faster
            continue
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
