"""What processes leave behind, and that it is nothing."""

from __future__ import annotations

import gc
import threading
import uuid
from pathlib import Path

import psutil

from tests.waiting import wait_until

_VARIABLE = "SQLFLOW_ELASTIC_TEST_TRACE"
_SHARED_MEMORY = Path("/dev/shm")
_SECONDS = 15.0


class Traces:
    """Begins before a cluster does; all that this process starts meanwhile carries a mark in its environment.

    Args:
        folder: becomes the folder of temporary files for what is started.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._mark = f"{_VARIABLE}={uuid.uuid4().hex}"
        variable, _, value = self._mark.partition("=")
        self.environment = {variable: value, "TMPDIR": str(folder)}
        self._descriptors = _descriptors()
        self._threads = set(threading.enumerate())
        self._shared = _shared_names()

    def assert_nothing_left(self) -> None:
        """No process (and so none of its sockets), no descriptor or thread of this process, no temporary file."""
        _gone("processes", self.processes)
        _gone("threads", lambda: [thread.name for thread in set(threading.enumerate()) - self._threads])
        _gone("temporary files", lambda: _names(self._folder))
        _gone("files in shared memory", lambda: _shared_names() - self._shared)
        gc.collect()
        _gone("descriptors", lambda: list(_descriptors().items() - self._descriptors.items()))

    def processes(self) -> list[int]:
        """Those of this mark that live, whoever started them."""
        mark = self._mark.encode()
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if mark in _environment(path)]


def _shared_names() -> set[str]:
    """But for what a database beside us shares between its own processes for a moment."""
    return {name for name in _names(_SHARED_MEMORY) if not name.startswith("PostgreSQL.")}


def _gone(what: str, look: object) -> None:
    assert callable(look)
    try:
        wait_until(lambda: not look(), _SECONDS)
    except AssertionError:
        raise AssertionError(f"{what} are left: {look()}") from None


def _environment(process: Path) -> list[bytes]:
    """What a process was started with; nothing if it has ended, or is another user's."""
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _descriptors() -> dict[str, str]:
    """What the descriptors of this process are, by their numbers."""
    found = {}
    for path in Path("/proc/self/fd").iterdir():
        try:
            found[path.name] = str(path.readlink())
        except FileNotFoundError:  # the listing's own
            continue
    return found


def fork_servers() -> list[psutil.Process]:
    """The fork servers of this process's clusters."""
    return [child for child in psutil.Process().children() if "sqlflow_elastic.cluster.forkserver" in child.cmdline()]
