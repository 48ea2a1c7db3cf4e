"""The folders of jobs: made new, made small when the job has ended, kept for a while."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.errors import StorageError, why

#: How many folders of jobs that have ended stay.
KEEP = 20


@contextmanager
def job_folder(root: Path, forgotten: Callable[[str], None] = lambda job: None) -> Iterator[JobFolder]:
    """A new folder ``root/j-DATE-TIME-xxxxx`` for one job, with an empty one for its logs, for its owner only.

    It stays when the job ends, in whatever way, without what is bulky: see `JobFolder.shrink`. The oldest ones go when
    there are more than `KEEP`; ``forgotten`` is called with the name of each.

    Raises: StorageError: it cannot be made, or the machine did not take what was written into it.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        _prune(root, forgotten)
        folder, lock = _make(root)
    except OSError as error:
        message = f"the jobs' folder {root} cannot be used: {why(error)}; the setting work_dir names another"
        raise StorageError(message) from error
    try:
        yield folder
    except OSError as error:
        if (refused := StorageError.of(error, f"the job's folder {folder.path} cannot be written")) is None:
            raise
        raise refused from error
    finally:
        folder.shrink()
        os.close(lock)


def job_folders(root: Path) -> list[JobFolder]:
    """The folders there are, newest first. Raises: StorageError: the root cannot be read."""
    try:
        return [JobFolder(path) for path in _oldest_first(root)[::-1]]
    except FileNotFoundError:  # no job was run yet
        return []
    except OSError as error:
        raise StorageError(f"the jobs' folder {root} cannot be read: {why(error)}") from error


def in_use(folder: JobFolder) -> bool:
    """Whether the job's session lives."""
    try:
        lock = _lock(folder, fcntl.LOCK_SH)  # shared: two who look do not take each other for the session
    except OSError:
        return False
    if lock is not None:
        os.close(lock)
    return lock is None


def _make(root: Path) -> tuple[JobFolder, int]:
    """A new folder and its lock. Somebody who looks whether it is in use may be quicker: then another one."""
    while True:
        folder = JobFolder(root / _new_name())
        try:
            folder.path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        if (lock := _lock(folder)) is None:
            shutil.rmtree(folder.path, ignore_errors=True)
            continue
        folder.logs.mkdir()
        return folder, lock


def _new_name() -> str:
    """The name of a job that begins now. Names of one machine sort by time, to the millisecond."""
    now = time.time()
    return f"{time.strftime('j-%Y%m%d-%H%M%S', time.localtime(now))}-{int(now * 1000) % 1000:03}{secrets.token_hex(1)}"


def _lock(folder: JobFolder, kind: int = fcntl.LOCK_EX) -> int | None:
    """Take the folder's lock, which goes with the process; None if somebody has it."""
    lock = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _oldest_first(root: Path) -> list[Path]:
    """By their names, which begin with the time they were made."""
    return sorted(path for path in root.iterdir() if path.name.startswith("j-") and path.is_dir())


def _prune(root: Path, forgotten: Callable[[str], None]) -> None:
    """Remove the oldest folders but `KEEP`, and what killed sessions left in the others."""
    folders = [JobFolder(path) for path in _oldest_first(root)]
    for place, folder in enumerate(folders):
        try:
            lock = _lock(folder)
        except FileNotFoundError:  # another session is faster
            continue
        if lock is None:
            continue
        if place < len(folders) - KEEP:
            shutil.rmtree(folder.path, ignore_errors=True)
            forgotten(folder.path.name)
        else:
            folder.shrink()
        os.close(lock)
