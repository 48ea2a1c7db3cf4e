"""A job's state as JSON in its state store: what is asked, how it stands, who computes.

Keys: ``request`` (`JobRequest`), ``status``, ``progress``, ``cancel`` (KILL JOB writes it, the master watches it), and
what the master needs to be followed by another one.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.state import Conflict, StateStore, StoreUnavailable, open_store
from sqlflow_elastic.elastic.state.base import NOTHING_EXPECTED
from sqlflow_elastic.jobs.records import STATUS, Stage
from sqlflow_elastic.jobs.request import JobRequest

#: Environment variable of a master: the URL of its job's state.
STATE_VARIABLE = "SQLFLOW_ELASTIC_STATE"


def state_url(folder: JobFolder, base: str | None) -> str:
    """Where a job's state is: in its folder, or under its id in the store at ``base``."""
    if base is None:
        return str(folder.state)
    parts = urlsplit(base)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{folder.path.name}"))


class JobState:
    """One job's keys.

    Args:
        url: see `state_url`.

    Raises: StoreUnavailable, as every method does.
    """

    def __init__(self, url: str) -> None:
        self.store: StateStore = open_store(url)

    def begin(self, request: JobRequest) -> None:
        """The job is about to start; said again, it keeps the time at which that was said first."""
        self.write({"request": request.to_json(), STATUS: _status(self.read(STATUS), Stage.STARTING, "")})

    def running(self) -> None:
        """Its master lives; a job that has ended stays so."""
        self._unless_ended(Stage.RUNNING, "")

    def pause(self, paused: bool) -> None:
        """No worker runs, or one runs again; a job that has ended stays so."""
        self._unless_ended(Stage.PAUSED if paused else Stage.RUNNING, "")

    def ended(self, stage: Stage, message: str) -> None:
        """The job is over; what was said of that before stays. A store that is away is not waited for."""
        with contextlib.suppress(StoreUnavailable):
            self._unless_ended(stage, message)

    def set(self, stage: Stage, message: str) -> None:
        """Say where the job is in its life, whatever was said of that before."""
        self.write({STATUS: _status(self.read(STATUS), stage, message)})

    def _unless_ended(self, stage: Stage, message: str) -> None:
        """The same, unless the job has ended: also if another thread or process says so at this moment."""
        while True:
            entry = self.store.get(STATUS)
            before, revision = (None, 0) if entry is None else (json.loads(entry.value), entry.revision)
            if before is not None and Stage(before["state"]).ended:
                return
            with contextlib.suppress(Conflict):
                self.write({STATUS: _status(before, stage, message)}, {STATUS: revision})
                return

    def read(self, key: str) -> Any:
        """The value of a key; None if there is none."""
        entry = self.store.get(key)
        return None if entry is None else json.loads(entry.value)

    def read_all(self) -> dict[str, Any]:
        """All keys and values."""
        return {entry.key: json.loads(entry.value) for entry in self.store.list("")}

    def write(self, changes: Mapping[str, Any], expect: Mapping[str, int] = NOTHING_EXPECTED) -> int:
        """Set keys, all or none; None deletes. See `StateStore.write`."""
        encoded = {key: None if value is None else json.dumps(value).encode() for key, value in changes.items()}
        return self.store.write(encoded, expect)

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _status(before: Mapping[str, Any] | None, stage: Stage, message: str) -> dict[str, Any]:
    """What is said of a job from now on; the time at which it started stays."""
    now = time.time()
    status = {"state": stage, "message": message, "since": now, "started": now if before is None else before["started"]}
    return {**status, "ended": now} if stage.ended else status
