"""Statements about jobs, of this session and of others: SHOW JOBS, SHOW JOB, KILL JOB."""

from __future__ import annotations

import difflib
import os
import socket
import time

import pyarrow as pa

from sqlflow_elastic.errors import CompileError, JobCancelled, JobError
from sqlflow_elastic.events import Message, Rows
from sqlflow_elastic.jobs.records import CANCEL, STATUS, JobRecord, list_jobs, stage_of
from sqlflow_elastic.jobs.state import JobState, state_url
from sqlflow_elastic.language import ast
from sqlflow_elastic.session.context import Context, Outcome, Running, rows_text
from sqlflow_elastic.session.job_text import details, listed, stage_text

#: How long KILL JOB waits for the end of a job.
KILL_SECONDS = 15.0

_LOOK_SECONDS = 0.1
_CLOSEST = 3

_LISTED = pa.schema(
    {
        "id": pa.string(),
        "kind": pa.string(),
        "title": pa.string(),
        "state": pa.string(),
        "workers": pa.string(),
        "progress": pa.string(),
        "samples_per_second": pa.float64(),
        "priority": pa.int64(),
        "started": pa.string(),
        "seconds": pa.float64(),
    }
)


def show_jobs(context: Context) -> Running:
    """All jobs there are, one a row, newest first."""
    jobs = list_jobs(context.jobs_folder, context.state_store)
    now = time.time()
    rows = [{"id": job, "state": "damaged"} if record is None else listed(record, now) for job, record in jobs]
    yield Rows(pa.RecordBatch.from_pylist(rows, schema=_LISTED))
    return Outcome(f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}", {"rows": len(jobs)})


def show_job(context: Context, statement: ast.ShowJob, text: str) -> Running:
    """All that is known of a job: columns ``part``, ``item`` and ``detail``, as EXPLAIN has them."""
    rows = details(_find(context, statement, text), time.time())
    parts, items, said = zip(*rows, strict=True)
    yield Rows(pa.record_batch({"part": parts, "item": items, "detail": said}))
    return Outcome(rows_text(len(rows)), {"rows": len(rows)})


def kill_job(context: Context, statement: ast.KillJob, text: str) -> Running:
    """Ask for a job's end, and wait for it.

    Raises: CompileError: there is no such job, or it has ended. JobError: it does not end in time.
    """
    record = _find(context, statement, text)
    if record.stage.ended:
        how = stage_text(record.stage, record.message)
        raise CompileError(f"the job {record.id} has ended: {how}", text, statement.span)
    url = state_url(record.folder, context.state_store)
    with JobState(url) as state, state.store.watch(STATUS) as watch:
        state.write({CANCEL: {"by": f"process {os.getpid()} on {socket.gethostname()}", "at": time.time()}})
        yield Message(f"the job {record.id} is asked to end")
        deadline = time.monotonic() + KILL_SECONDS
        while not (stage := stage_of(state.read(STATUS), record.folder)).ended:
            if context.cancelled.is_set():
                raise JobCancelled("the statement was stopped; the job has been asked to end all the same")
            if time.monotonic() > deadline:
                message = f"the job {record.id} was asked to end and goes on after {KILL_SECONDS:.0f} s"
                raise JobError(f"{message}; SHOW JOB {record.id} tells where it is")
            watch.next(_LOOK_SECONDS)
    return Outcome(f"The job {record.id} has ended: {stage}", {"job": record.id, "state": stage.value})


def _find(context: Context, statement: ast.ShowJob | ast.KillJob, text: str) -> JobRecord:
    """The job of an id, or of the beginning of one. Raises: CompileError: there is none, several, a damaged one."""
    jobs = dict(list_jobs(context.jobs_folder, context.state_store))
    asked = statement.job
    found = [asked] if asked in jobs else [job for job in jobs if job.startswith(asked)]
    if not found:
        close = difflib.get_close_matches(asked, jobs, n=_CLOSEST, cutoff=0.5) or list(jobs)[:_CLOSEST]
        hint = f"there are {', '.join(close)}" if close else "SHOW JOBS lists them when there are some"
        raise CompileError(f"there is no job '{asked}'", text, statement.span, hint)
    if len(found) > 1:
        hint = f"there are {', '.join(found[:_CLOSEST])}{', …' if len(found) > _CLOSEST else ''}"
        raise CompileError(f"several jobs begin with '{asked}'", text, statement.span, hint)
    record = jobs[found[0]]
    if record is None:
        where = context.jobs_folder / found[0]
        raise CompileError(
            f"the state of the job {found[0]} is damaged", text, statement.span, f"its folder is {where}"
        )
    return record
