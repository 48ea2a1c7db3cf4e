"""What is known of jobs, read from their states: of those that run, here or in another session, or have run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.state import Entry, open_store
from sqlflow_elastic.elastic.state.base import MOST_CHANGES
from sqlflow_elastic.errors import StoreUnavailable
from sqlflow_elastic.jobs.folders import in_use, job_folders
from sqlflow_elastic.jobs.request import JobRequest

#: The key of a job's state with which KILL JOB asks for its end.
CANCEL = "cancel"

#: The key of where it is.
STATUS = "status"

#: Keys of what masters leave for each other lie below this one.
MACHINE = "machine/"

_WORKERS = "workers/"
_WORLD = f"{MACHINE}world"
_PLAN = f"{MACHINE}plan"


class Stage(StrEnum):
    """Where a job is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    #: No worker is left, and the next one is waited for.
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    #: Its session was killed, and its processes with it.
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self not in (Stage.STARTING, Stage.RUNNING, Stage.PAUSED)


@dataclass(frozen=True)
class JobProgress:
    """How far a job has come; None for what is not known, or not of this kind of job.

    Attributes:
        phase: as in `events.Progress`.
        step, steps: done, and to do in all.
        epoch, epochs: counted from 1.
        loss: mean training loss per sample, lately.
        samples_per_second: of all workers together.
        eta: seconds that remain.
    """

    phase: str | None = None
    step: int | None = None
    steps: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    loss: float | None = None
    samples_per_second: float | None = None
    eta: float | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What is known here of the key ``progress``."""
        return cls(**{field.name: data.get(field.name) for field in dataclasses.fields(cls)})


@dataclass(frozen=True)
class JobProcess:
    """A process of a job.

    Attributes:
        name: unique in its job.
        phase: "pending", "running" or "ended".
        pid: None unless it has begun to run.
        exit_code: minus the signal's number if a signal ended it; None before it has ended.
        preempted: whether it had to make room for a more urgent one.
        since: when this last changed, in Unix seconds; None if that is not known.
        out_of_memory: whether it took more memory than it may.
        memory, rows: of a server of tables, when training went on last: bytes that its tables take, and their rows.
    """

    name: str
    phase: str
    pid: int | None = None
    exit_code: int | None = None
    preempted: bool = False
    since: float | None = None
    out_of_memory: bool = False
    memory: int | None = None
    rows: int | None = None

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any], server: Mapping[str, Any]) -> Self:
        """What is known here of the key of a worker, and of a server's own words. Raises: KeyError, TypeError."""
        return cls(
            name,
            data["phase"],
            data.get("pid"),
            data.get("exit_code"),
            bool(data.get("preempted")),
            data.get("since"),
            bool(data.get("out_of_memory")),
            server.get("memory"),
            server.get("rows"),
        )


@dataclass(frozen=True)
class JobRecord:
    """What is known of a job.

    Attributes:
        id: the name of its folder.
        folder: its folder, which may be on another machine.
        request: what was asked.
        stage, message: where it is, and what was said of that.
        started, ended: in Unix seconds; ``ended`` is None before, and if it is not known.
        progress: how far it has come.
        version, members: its world: 0 and nobody if it has none.
        processes: its workers and servers, those that have ended too.
        plan: the strategy of its training, see `elastic.strategy.Plan.to_json`; None if it is not chosen yet.
        metrics: where its figures are served, for Prometheus; None if nowhere.
    """

    id: str
    folder: JobFolder
    request: JobRequest
    stage: Stage
    message: str
    started: float
    ended: float | None
    progress: JobProgress
    version: int
    members: tuple[str, ...]
    processes: tuple[JobProcess, ...]
    plan: Mapping[str, Any] | None
    metrics: str | None


def list_jobs(root: Path, state_store: str | None) -> list[tuple[str, JobRecord | None]]:
    """The jobs there are, newest first: their ids, and what is known of them; None for those whose state is damaged.

    Args:
        root: where the jobs' folders are.
        state_store: URL of the store of their states; None for those in their folders.

    Blocks for some milliseconds with states in folders, for at most `CALL_SECONDS` with another store.

    Raises: StorageError: the folder cannot be read. StoreUnavailable: ``state_store`` cannot be reached.
    """
    states: dict[str, list[Entry] | None] = {}
    if state_store is None:
        states.update((folder.path.name, _embedded(folder)) for folder in job_folders(root))
    else:
        with open_store(state_store) as store:
            states.update(_by_job(store.list("")))
    told = {job: entries for job, entries in states.items() if entries != []}  # else it is just being made
    return [
        (job, None if entries is None else _record(job, JobFolder(root / job), entries))
        for job, entries in sorted(told.items(), reverse=True)
    ]


def stage_of(status: Mapping[str, Any], folder: JobFolder) -> Stage:
    """Where a job is, by what was said of it last. Raises: KeyError, ValueError: that makes no sense."""
    stage = Stage(status["state"])
    lost = not stage.ended and folder.path.exists() and not in_use(folder)
    return Stage.LOST if lost else stage


def forget_job(state_store: str, job: str) -> None:
    """Delete the state of a job whose folder is gone. Raises: StoreUnavailable."""
    with open_store(state_store) as store:
        keys = [entry.key for entry in store.list(f"{job}/")]
        for begin in range(0, len(keys), MOST_CHANGES):
            store.write(dict.fromkeys(keys[begin : begin + MOST_CHANGES]))


def _embedded(folder: JobFolder) -> list[Entry] | None:
    """The state in a folder: nothing where there is none yet, None where it is damaged."""
    if not folder.state.exists():  # opening would make it
        return []
    try:
        with open_store(str(folder.state)) as store:
            return store.list("")
    except StoreUnavailable:
        return None if folder.state.exists() else []


def _by_job(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """The states in a store of many jobs, whose keys begin with their ids."""
    states: dict[str, list[Entry]] = {}
    for entry in entries:
        job, _, key = entry.key.partition("/")
        states.setdefault(job, []).append(dataclasses.replace(entry, key=key))
    return states


def _record(job: str, folder: JobFolder, entries: Iterable[Entry]) -> JobRecord | None:
    """What the entries of a job's state say; None if they make no sense."""
    try:
        values = {entry.key: json.loads(entry.value) for entry in entries}
        status, world = values[STATUS], values.get(_WORLD) or {}
        servers = values.get("servers") or {}
        return JobRecord(
            id=job,
            folder=folder,
            request=JobRequest.from_json(values["request"]),
            stage=stage_of(status, folder),
            message=status.get("message") or "",
            started=status["started"],
            ended=status.get("ended"),
            progress=JobProgress.from_json(values.get("progress") or {}),
            version=world.get("version", 0),
            members=tuple(world.get("members", ())),
            processes=tuple(
                JobProcess.from_json(name, value, servers.get(name, {}))
                for key, value in sorted(values.items())
                if key.startswith(_WORKERS) and (name := key.removeprefix(_WORKERS))
            ),
            plan=json.loads(values[_PLAN]) if values.get(_PLAN) else None,
            metrics=values.get("metrics"),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
