"""A worker's process beside a master that comes late, goes, comes back elsewhere, or never comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlflow_elastic.elastic.folder import JOB_VARIABLE, JobFolder, write_text
from sqlflow_elastic.elastic.member import WORKER_VARIABLE
from sqlflow_elastic.elastic.membership.messages import (
    End,
    Progress,
    Standing,
    Task,
    TaskAccepted,
    TaskDone,
    TaskWanted,
    Welcome,
    Wish,
)
from tests.elastic.scripted_master import SECONDS, TOKEN, Master, master
from tests.waiting import wait_until

#: Does one task of a queue, which ends when the test says so, then waits for another one.
PROGRAM = """
import os, sys, time
from pathlib import Path
from sqlflow_elastic.elastic.running import running

with running("worker") as run:
    for index in run.tasks("work", 2):
        print("begins", index, flush=True)
        while not (run.folder.path / f"end-{index}").exists():
            time.sleep(0.01)
"""


def is_asked_for_work(master: Master) -> None:
    """Wait until the worker wants a task: it says so when there is a stream, or in its Hello."""
    wait_until(lambda: master.hello.wish == Wish("work", 2) or TaskWanted("work", 2) in master.heard, SECONDS)


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    folder = JobFolder(tmp_path)
    write_text(folder.token, TOKEN)
    write_text(folder.program, PROGRAM)
    return folder


@pytest.fixture
def worker(folder: JobFolder) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(folder.program)],
        env={**os.environ, JOB_VARIABLE: str(folder.path), WORKER_VARIABLE: "worker-0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def begins(worker: subprocess.Popen[str], index: int) -> None:
    assert worker.stdout is not None
    assert worker.stdout.readline() == f"begins {index}\n"


def test_it_waits_for_a_master_and_shows_that_it_lives(folder: JobFolder, worker: subprocess.Popen[str]) -> None:
    with master(folder, "worker-0") as present:
        assert present.hello.standing is Standing.WARMING
        present.says(Welcome(0.05))
        wait_until(lambda: sum(isinstance(message, Progress) for message in present.heard) > 3, SECONDS)
        is_asked_for_work(present)


def test_it_does_its_task_without_a_master_and_tells_the_next_one(
    folder: JobFolder, worker: subprocess.Popen[str]
) -> None:
    with master(folder, "worker-0") as first:
        assert first.hello.held == ()
        is_asked_for_work(first)
        first.says(Welcome(0.1), Task("work", 0))
        begins(worker, 0)
    (folder.path / "end-0").touch()
    with master(folder, "worker-0") as second:
        (held,) = second.hello.held
        assert (held.queue, held.index) == ("work", 0)
        if held.done:
            assert second.hello.wish is not None
        else:
            second.hears(TaskDone("work", 0), TaskWanted("work", 2))
        second.says(Welcome(0.1), TaskAccepted("work", 0), Task("work", 1))
        begins(worker, 1)


def test_it_ends_at_once_when_the_job_is_over(folder: JobFolder, worker: subprocess.Popen[str]) -> None:
    with master(folder, "worker-0") as present:
        is_asked_for_work(present)
        present.says(Welcome(0.1), Task("work", 0))
        begins(worker, 0)
        present.says(End())
        assert worker.wait(SECONDS) == 0
        wait_until(lambda: present.lost == ["worker-0"], SECONDS)


def test_it_goes_when_asked_to_with_or_without_a_master(folder: JobFolder, worker: subprocess.Popen[str]) -> None:
    with master(folder, "worker-0") as present:
        is_asked_for_work(present)
        present.says(Welcome(0.1), Task("work", 0))
        begins(worker, 0)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(SECONDS) == 0


def test_its_secret_is_nowhere_to_be_seen(folder: JobFolder, worker: subprocess.Popen[str]) -> None:
    with master(folder, "worker-0") as present:
        is_asked_for_work(present)
        process = Path(f"/proc/{worker.pid}")
        assert TOKEN.encode() not in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        present.says(End())
        assert worker.communicate(timeout=SECONDS)[0] == ""
