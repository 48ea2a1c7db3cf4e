"""A job's process and its events, with small programs that stand for generated ones."""

from __future__ import annotations

import os
import signal
import textwrap
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil
import pytest

from sqlflow_elastic.cluster import LocalCluster
from sqlflow_elastic.errors import DataError, JobCancelled, JobError
from sqlflow_elastic.events import Event, Message, Progress
from sqlflow_elastic.jobs import Job, job_folder
from sqlflow_elastic.jobs.records import Stage
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.jobs.state import JobState
from tests.waiting import wait_until

SECONDS = 30.0
REQUEST = JobRequest(JobKind.PROGRAM, "a program", "")

PREAMBLE = """
import os, signal, sys
from pathlib import Path
from sqlflow_elastic.events import Failed, Message, Progress, to_json
from sqlflow_elastic.errors import DataError

folder = Path(os.environ["SQLFLOW_ELASTIC_JOB"])
starts = folder / "starts"
starts.write_text(starts.read_text() + "|" if starts.exists() else "|")

def tell(event):
    os.write(int(os.environ["SQLFLOW_ELASTIC_EVENTS_FD"]), to_json(event).encode() + b"\\n")
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(preload=()) as cluster:
        yield cluster


class Jobs:
    """Makes jobs whose folders lie in one root."""

    def __init__(self, root: Path, cluster: LocalCluster) -> None:
        self.root = root
        self.cluster = cluster

    def run(self, text: str) -> Generator[Event, None, None]:
        with job_folder(self.root) as folder:
            self.folder = folder
            program = PREAMBLE + textwrap.dedent(text)
            self.job = Job(folder, program, self.cluster, folder.path / "starts", REQUEST)
            yield from self.job.events()
            self.starts = len((folder.path / "starts").read_text())

    def stage(self) -> Stage:
        """What the job's state says of the last job, whose folder is a small one now."""
        assert not (self.folder.path / "starts").exists()
        with JobState(str(self.folder.state)) as state:
            return Stage(state.read("status")["state"])


@pytest.fixture
def jobs(tmp_path: Path, cluster: LocalCluster) -> Jobs:
    return Jobs(tmp_path, cluster)


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_events_come_as_they_are_told(jobs: Jobs) -> None:
    events = list(jobs.run("tell(Progress('training', 1, 2))\nprint('noise')\ntell(Message('中文'))"))
    assert events == [Progress("training", 1, 2), Message("中文")]
    assert jobs.stage() is Stage.SUCCEEDED


def test_events_come_at_once(jobs: Jobs) -> None:
    events = jobs.run("tell(Message(str(os.getpid())))\nsignal.pause()")
    first = next(events)
    assert isinstance(first, Message)
    os.kill(int(first.text), signal.SIGTERM)
    assert isinstance(next(events), Message)
    events.close()


def test_many_events_come_whole_and_in_order(jobs: Jobs) -> None:
    events = list(jobs.run("for i in range(5000): tell(Message(str(i) + 'x' * (i % 300)))"))
    assert events == [Message(str(i) + "x" * (i % 300)) for i in range(5000)]


def test_what_the_channel_did_not_take_is_read_from_the_folder(jobs: Jobs) -> None:
    events = list(
        jobs.run("""
            line = to_json(Message("half")) + "\\n"
            os.write(int(os.environ["SQLFLOW_ELASTIC_EVENTS_FD"]), line[:9].encode())
            (folder / "unread.jsonl").write_text(line[9:] + to_json(Message("whole")) + "\\n")
        """)
    )
    assert events == [Message("half"), Message("whole")]


def test_a_killed_process_is_started_again(jobs: Jobs) -> None:
    events = list(
        jobs.run("""
            if len(starts.read_text()) < 3:
                os.write(int(os.environ["SQLFLOW_ELASTIC_EVENTS_FD"]), b'{"event": "Mess')  # and killed half way
                os.kill(os.getpid(), signal.SIGKILL)
            tell(Message("done"))
        """)
    )
    assert events == [
        Message("the job's process was ended by SIGKILL; it is started again", "warning"),
        Message("the job's process was ended by SIGKILL; it is started again", "warning"),
        Message("done"),
    ]
    assert jobs.starts == 3


def test_a_process_that_is_always_killed_is_given_up(jobs: Jobs) -> None:
    with pytest.raises(
        JobError, match=r"(?s)was ended by SIGSEGV 4 times \(not enough memory\?\)\n.*Segmentation fault"
    ):
        list(jobs.run("import ctypes; ctypes.string_at(0)"))
    assert jobs.folder.log.exists()


def test_a_lost_fork_server_is_replaced_and_the_job_goes_on(jobs: Jobs) -> None:
    events = list(
        jobs.run("""
            if len(starts.read_text()) < 2:
                os.kill(os.getppid(), signal.SIGKILL)
                signal.pause()
            tell(Message("done"))
        """)
    )
    assert [event.text for event in events if isinstance(event, Message)][1:] == ["done"]
    assert jobs.starts == 2


def test_a_job_that_ends_without_its_result_has_failed(jobs: Jobs) -> None:
    with pytest.raises(JobError, match="ended without its result"):
        list(jobs.run("starts.unlink()"))


def test_a_bug_shows_the_logs_last_lines_and_keeps_the_folder(jobs: Jobs) -> None:
    with pytest.raises(JobError) as raised:
        list(jobs.run("for i in range(100): print('line', i)\nraise ValueError('no such thing')"))
    message = str(raised.value)
    assert message.startswith(f"job {jobs.job.id} failed\n")
    assert "  line 99\n  Traceback (most recent call last):\n" in message
    assert "  ValueError: no such thing\n" in message
    assert "line 80\n" not in message
    assert message.endswith(f"\nIts folder is kept: {jobs.folder.path}")
    assert jobs.folder.program.read_text().startswith(PREAMBLE)


def test_an_error_that_was_told_is_that_error(jobs: Jobs) -> None:
    with pytest.raises(DataError, match=r"^field 'age': 'x' is no number$"):
        list(jobs.run("tell(Failed(DataError(\"field 'age': 'x' is no number\")))\nsys.exit(1)"))
    assert jobs.stage() is Stage.FAILED


def test_cancel_ends_the_process(jobs: Jobs) -> None:
    events = jobs.run("tell(Message(str(os.getpid())))\nsignal.pause()")
    first = next(events)
    assert isinstance(first, Message)
    canceller = threading.Timer(0.05, lambda: jobs.job.cancel())
    canceller.start()
    with pytest.raises(JobCancelled):
        next(events)
    canceller.join()
    assert gone(int(first.text))
    assert jobs.stage() is Stage.CANCELLED


def test_closing_ends_the_process(jobs: Jobs) -> None:
    events = jobs.run("tell(Message(str(os.getpid())))\nsignal.pause()")
    first = next(events)
    assert isinstance(first, Message)
    events.close()
    assert gone(int(first.text))
    assert jobs.stage() is Stage.CANCELLED


def test_a_child_that_holds_the_channel_does_not_hold_the_job(jobs: Jobs) -> None:
    list(
        jobs.run("""
        descriptor = int(os.environ["SQLFLOW_ELASTIC_EVENTS_FD"])
        os.set_inheritable(descriptor, True)
        import subprocess
        child = subprocess.Popen(["sleep", "1000"], close_fds=False, start_new_session=True)
        (folder.parent / "child").write_text(str(child.pid))
        tell(Message("done"))
    """)
    )
    child = psutil.Process(int((jobs.root / "child").read_text()))
    child.kill()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, SECONDS)
