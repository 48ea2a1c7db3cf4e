"""What is known of a job, in words."""

from __future__ import annotations

import datetime
import json
import os
import signal
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.sizes import bytes_text, count
from sqlflow_elastic.events import WorldChanged
from sqlflow_elastic.jobs.records import JobProcess, JobProgress, JobRecord, Stage

_CHANGES = 50  # the last so many world changes
_LOG_LINES = 5
_LOG_BYTES = 4096

Detail = tuple[str, str, str]


def listed(record: JobRecord, now: float) -> dict[str, Any]:
    """A row of SHOW JOBS; ``now`` in Unix seconds."""
    request, speed = record.request, record.progress.samples_per_second
    return {
        "id": record.id,
        "kind": request.kind.value,
        "title": request.title,
        "state": record.stage.value,
        "workers": workers_text(record),
        "progress": progress_text(record.progress),
        "samples_per_second": None if speed is None else round(speed, 1),
        "priority": request.priority,
        "started": _time(record.started),
        "seconds": _seconds(record, now),
    }


def details(record: JobRecord, now: float) -> list[Detail]:
    """The rows of SHOW JOB: part, item, detail."""
    return [
        *_request(record),
        *_state(record, now),
        *_progress(record.progress, record.stage.ended),
        *(("process", process.name, process_text(process)) for process in record.processes),
        *_changes(record.folder),
        *_logs(record.folder),
        *_files(record),
    ]


def workers_text(record: JobRecord) -> str:
    """``2 of 4`` work for it now; ``at most 4`` did, when it has ended."""
    if record.stage.ended:
        return f"at most {record.request.workers}"
    running = len(record.members) or sum(process.phase == "running" for process in record.processes)
    return f"{running} of {record.request.workers}"


def progress_text(progress: JobProgress) -> str:
    """``training: step 812 of 2,000``; empty where nothing is known."""
    if progress.step is None:
        return progress.phase or ""
    done = f"{progress.step:,}" + (f" of {progress.steps:,}" if progress.steps else "")
    if progress.phase in (None, "training"):
        return f"step {done}"
    return f"{progress.phase} {done}"


def process_text(process: JobProcess) -> str:
    """``running, process 4711, since 2026-01-31T12:00:00+00:00``."""
    said = [process.phase]
    if process.exit_code is not None:
        said = [_ending(process.exit_code)]
    if process.preempted:
        said.append("had to make room")
    if process.out_of_memory:
        said.append("took more memory than it may")
    if process.rows is not None and process.memory is not None:
        said.append(f"{count(process.rows, 'row')} in {bytes_text(process.memory)}")
    if process.pid is not None:
        said.append(f"process {process.pid}")
    if process.since is not None:
        said.append(f"since {_time(process.since)}")
    return ", ".join(said)


def stage_text(stage: Stage, message: str) -> str:
    """``failed: no space left``; the first line of what was said."""
    first = message.partition("\n")[0]
    return f"{stage}: {first}" if first else stage.value


def world_text(event: WorldChanged) -> str:
    """``worker-1 was ended by SIGKILL; 2 workers go on at step 812 after 0.13 s``."""
    number = len(event.members)
    if number == 0:
        go_on = "no worker is left; the job goes on when one comes"
        return f"{event.why}; {go_on}"
    who = "1 worker" if number == 1 else f"{number} workers"
    if event.seconds == 0.0:
        verb = "begins" if number == 1 else "begin"
        return f"{event.why}; {who} {verb} at step {event.step:,}"
    verb = "goes" if number == 1 else "go"
    return f"{event.why}; {who} {verb} on at step {event.step:,} after {event.seconds:.2f} s"


def _request(record: JobRecord) -> Iterator[Detail]:
    request = record.request
    yield "job", record.id, f"{request.kind} {request.title}"
    if request.statement:
        yield "request", "statement", request.statement
    yield "request", "workers", f"at most {request.workers}; scaling {request.scaling}"
    if request.batch_size is not None:
        yield "request", "batch_size", f"{request.batch_size}"
    yield "request", "priority", f"{request.priority}"
    yield "request", "slots", f"{request.slots} for each worker"
    if record.plan is not None:
        yield "strategy", "strategy", strategy_text(record.plan)
        for option in record.plan["options"]:
            yield "strategy", option["strategy"], option_text(option)


def _state(record: JobRecord, now: float) -> Iterator[Detail]:
    said = f"{record.stage}: {record.message}" if record.message else record.stage.value
    if record.stage is Stage.LOST:
        said = "lost: its session was killed, and its processes with it"
    yield "state", "state", said
    yield "state", "workers", workers_text(record)
    yield "state", "started", _time(record.started)
    if record.ended is not None:
        yield "state", "ended", _time(record.ended)
    if (seconds := _seconds(record, now)) is not None:
        yield "state", "seconds", f"{seconds:.1f}"
    if record.members and not record.stage.ended:
        yield "state", "world", f"version {record.version}: {', '.join(record.members)}"


def _progress(progress: JobProgress, ended: bool) -> Iterator[Detail]:
    if text := progress_text(progress):
        yield "progress", progress.phase or "training", text
    if progress.epoch is not None:
        of = f" of {progress.epochs}" if progress.epochs else ""
        yield "progress", "epoch", f"{progress.epoch}{of}"
    if progress.loss is not None:
        yield "progress", "loss", f"{progress.loss:.4g}"
    if progress.samples_per_second is not None:
        yield "progress", "samples_per_second", f"{progress.samples_per_second:,.0f}"
    if progress.eta is not None and not ended:
        yield "progress", "seconds left", f"{progress.eta:.0f}"


def _changes(folder: JobFolder) -> Iterator[Detail]:
    """The last world changes, from what the job told."""
    changes: deque[Detail] = deque(maxlen=_CHANGES)
    found = 0
    try:
        with folder.events.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if '"WorldChanged"' in line and (change := _change(line)) is not None:
                    changes.append(change)
                    found += 1
    except OSError:  # it told nothing yet, or its folder is on another machine
        return
    if found > len(changes):
        yield "world change", "", f"{found - len(changes)} earlier ones are in {folder.events}"
    yield from changes


def _change(line: str) -> Detail | None:
    """A world change; None for a line that is not whole."""
    try:
        data = json.loads(line)
        at = data.pop("at", None)
        if data.pop("event") != "WorldChanged":
            return None
        event = WorldChanged(**data)
        when = "" if at is None else f"{_time(at)}: "
        return "world change", f"{event.version}", when + world_text(event)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _logs(folder: JobFolder) -> Iterator[Detail]:
    for path in sorted(folder.logs.glob("*.log")):
        yield "log", path.stem, "\n".join([str(path), *(f"  {line}" for line in _last_lines(path))])


def _last_lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LOG_BYTES))
            text = file.read(_LOG_BYTES).decode(errors="replace")
    except OSError:
        return []
    return text.rstrip().splitlines()[-_LOG_LINES:]


def _files(record: JobRecord) -> Iterator[Detail]:
    folder = record.folder
    if not folder.path.exists():
        yield "file", "folder", "on another machine"
        return
    yield "file", "folder", str(folder.path)
    for name, path, what in (
        ("timeline", folder.timeline, "for Perfetto"),
        ("tensorboard", folder.tensorboard, "for tensorboard --logdir"),
        ("events", folder.events, "all that was told, as lines of JSON"),
    ):
        if path.exists():
            yield "file", name, f"{path} ({what})"
    if record.metrics is not None and not record.stage.ended:
        yield "file", "metrics", f"{record.metrics} (for Prometheus)"


def _ending(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"ended by signal {-exit_code}"


def _seconds(record: JobRecord, now: float) -> float | None:
    """How long it runs or ran; None if nobody knows."""
    if record.ended is not None:
        return round(record.ended - record.started, 1)
    return None if record.stage.ended else round(now - record.started, 1)


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def strategy_text(plan: Mapping[str, Any]) -> str:
    """``hybrid, tables on 1 server (320 MiB): …``."""
    if not plan.get("servers"):
        return f"{plan['strategy']}: {plan['reason']}"
    servers = "1 server" if plan["servers"] == 1 else f"{plan['servers']} servers"
    what = "all weights" if plan["strategy"] == "ps" else "tables"
    return f"{plan['strategy']}, {what} on {servers} ({plan['server_memory']:,} MiB): {plan['reason']}"


def option_text(option: Mapping[str, Any]) -> str:
    """``1.2 MB and 0.83 ms of a step beside computing; 2.1 GB for a worker``, or why it cannot be."""
    if option["why_not"]:
        return str(option["why_not"])
    step = f"{bytes_text(option['bytes'])} and {option['seconds'] * 1e3:.2f} ms of a step beside computing"
    return f"{step}; {bytes_text(option['worker_memory'])} for a worker"
