"""The job of a statement, as other sessions see it: from the first row that is read to the last one that is written."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.errors import JobCancelled, StoreUnavailable
from sqlflow_elastic.jobs import job_folder
from sqlflow_elastic.jobs.records import CANCEL, Stage, forget_job
from sqlflow_elastic.jobs.request import JobRequest
from sqlflow_elastic.jobs.state import JobState, state_url
from sqlflow_elastic.session.context import Context

_WATCH_SECONDS = 5.0
_AGAIN_SECONDS = 0.5


@contextmanager
def statement_job(context: Context, request: JobRequest) -> Iterator[JobFolder]:
    """The folder of a statement's job, inside which its statement runs.

    From the beginning SHOW JOBS of every session knows the job, and KILL JOB stops the statement; at the end, in
    whatever way, its state says how it ended.

    Raises:
        StorageError, StoreUnavailable: the folder or the state cannot be written.
        JobCancelled: KILL JOB was called, or the statement was stopped.
    """

    def forgotten(job: str) -> None:
        if context.state_store is not None:
            forget_job(context.state_store, job)

    with (
        job_folder(context.jobs_folder, forgotten) as folder,
        JobState(state_url(folder, context.state_store)) as state,
    ):
        try:
            with _killable(state, context.cancelled) as killed:
                state.begin(request)
                try:
                    yield folder
                except JobCancelled as error:
                    if killed.is_set():
                        raise JobCancelled(f"the job {folder.path.name} was ended by KILL JOB") from error
                    raise
        except BaseException as error:
            _tell(state, *_end(error))
            raise
        _tell(state, Stage.SUCCEEDED, "")


def _end(error: BaseException) -> tuple[Stage, str]:
    """How a job ended that met an error, and what to say of it."""
    if isinstance(error, JobCancelled):
        return Stage.CANCELLED, str(error)
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        return Stage.CANCELLED, "the statement was stopped"
    return Stage.FAILED, str(error) or type(error).__name__


def _tell(state: JobState, stage: Stage, message: str) -> None:
    # Where it cannot be written (a full disk), the job counts as lost; what its statement says is more important.
    with contextlib.suppress(StoreUnavailable):
        state.set(stage, message)


@contextmanager
def _killable(state: JobState, cancelled: threading.Event) -> Iterator[threading.Event]:
    """Sets ``cancelled`` when KILL JOB asks for that, and the event it gives, too."""
    killed, closed = threading.Event(), threading.Event()
    watch = state.store.watch(CANCEL)

    def run() -> None:
        while not closed.is_set():
            try:
                changes = watch.next(_WATCH_SECONDS)
            except StoreUnavailable:
                closed.wait(_AGAIN_SECONDS)
                continue
            except ValueError:  # closed meanwhile
                return
            if any(not change.deleted for change in changes):
                killed.set()
                cancelled.set()

    thread = threading.Thread(target=run, name="sqlflow-elastic-kill-job")
    thread.start()
    try:
        yield killed
    finally:
        closed.set()
        watch.close()
        thread.join()
