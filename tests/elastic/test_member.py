"""A worker's process beside a master that comes late, goes, comes back elsewhere, or never comes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sqlflow_elastic.elastic.folder import JOB_VARIABLE, JobFolder, write_json, write_text
from sqlflow_elastic.elastic.member import WORKER_VARIABLE
from sqlflow_elastic.elastic.membership.messages import (
    End,
    FromMaster,
    FromWorker,
    Hello,
    Progress,
    Standing,
    Task,
    TaskAccepted,
    TaskDone,
    TaskWanted,
    Welcome,
    Wish,
)
from sqlflow_elastic.jobs.master.streams import Streams
from tests.waiting import wait_until

SECONDS = 30.0
TOKEN = "this job's token"

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


class Master:
    """Only its streams: the test says what a master says."""

    def __init__(self, folder: JobFolder) -> None:
        self.heard: list[FromWorker] = []
        self.lost: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._streams = Streams(TOKEN, lambda _, message: self.heard.append(message), self.lost.append, lambda *_: None)
        address = asyncio.run_coroutine_threadsafe(self._streams.serve("127.0.0.1"), self._loop).result(SECONDS)
        write_json(folder.master, {"address": address})

    def says(self, *messages: FromMaster) -> None:
        for message in messages:
            self._loop.call_soon_threadsafe(self._streams.send, "worker-0", message)

    def hears(self, *messages: FromWorker) -> None:
        wait_until(lambda: all(message in self.heard for message in messages), SECONDS)

    @property
    def hello(self) -> Hello:
        wait_until(lambda: any(isinstance(message, Hello) for message in self.heard), SECONDS)
        return next(message for message in self.heard if isinstance(message, Hello))

    def is_asked_for_work(self) -> None:
        """Wait until the worker wants a task: it says so when there is a stream, or in its Hello."""
        wait_until(lambda: self.hello.wish == Wish("work", 2) or TaskWanted("work", 2) in self.heard, SECONDS)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._streams.close(), self._loop).result(SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()


@contextmanager
def master(folder: JobFolder) -> Iterator[Master]:
    made = Master(folder)
    try:
        yield made
    finally:
        made.close()


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
    with master(folder) as present:
        assert present.hello.standing is Standing.WARMING
        present.says(Welcome(0.05))
        wait_until(lambda: sum(isinstance(message, Progress) for message in present.heard) > 3, SECONDS)
        present.is_asked_for_work()


def test_it_does_its_task_without_a_master_and_tells_the_next_one(
    folder: JobFolder, worker: subprocess.Popen[str]
) -> None:
    with master(folder) as first:
        assert first.hello.held == ()
        first.is_asked_for_work()
        first.says(Welcome(0.1), Task("work", 0))
        begins(worker, 0)
    (folder.path / "end-0").touch()
    with master(folder) as second:
        (held,) = second.hello.held
        assert (held.queue, held.index) == ("work", 0)
        if held.done:
            assert second.hello.wish is not None
        else:
            second.hears(TaskDone("work", 0), TaskWanted("work", 2))
        second.says(Welcome(0.1), TaskAccepted("work", 0), Task("work", 1))
        begins(worker, 1)


def test_it_ends_at_once_when_the_job_is_over(folder: JobFolder, worker: subprocess.Popen[str]) -> None:
    with master(folder) as present:
        present.is_asked_for_work()
        present.says(Welcome(0.1), Task("work", 0))
        begins(worker, 0)
        present.says(End())
        assert worker.wait(SECONDS) == 0
        wait_until(lambda: present.lost == ["worker-0"], SECONDS)


def test_it_goes_when_asked_to_with_or_without_a_master(folder: JobFolder, worker: subprocess.Popen[str]) -> None:
    with master(folder) as present:
        present.is_asked_for_work()
        present.says(Welcome(0.1), Task("work", 0))
        begins(worker, 0)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(SECONDS) == 0


def test_its_secret_is_nowhere_to_be_seen(folder: JobFolder, worker: subprocess.Popen[str]) -> None:
    with master(folder) as present:
        present.is_asked_for_work()
        process = Path(f"/proc/{worker.pid}")
        assert TOKEN.encode() not in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        present.says(End())
        assert worker.communicate(timeout=SECONDS)[0] == ""
