"""A server's process beside a master and workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from sqlflow_elastic.elastic.comm import Place
from sqlflow_elastic.elastic.folder import JOB_VARIABLE, JobFolder, write_text
from sqlflow_elastic.elastic.member import WORKER_VARIABLE
from sqlflow_elastic.elastic.membership.messages import (
    NO_STATE,
    End,
    FromMaster,
    Hello,
    Leaving,
    Progress,
    Release,
    ServerState,
    Standing,
    Welcome,
)
from sqlflow_elastic.elastic.membership.servers import OUT_OF_MEMORY_EXIT
from sqlflow_elastic.elastic.tables.client import enter
from tests.elastic.scripted_master import SECONDS, TOKEN, Master, master
from tests.elastic.tables import specs
from tests.waiting import wait_until

NAME = "ps-0"
MODULE = "sqlflow_elastic.elastic.tables.process"
#: A server whose thread fails as it begins.
FAILS = f"""
import sys
from {MODULE} import TableServer, main

def serve(self):
    raise {{error}}

TableServer.serve = serve
sys.exit(main())
"""

Process: TypeAlias = "subprocess.Popen[str]"


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    folder = JobFolder(tmp_path)
    write_text(folder.token, TOKEN)
    return folder


@pytest.fixture
def run(folder: JobFolder) -> Iterator[Callable[..., Process]]:
    """Runs Python with these arguments as the job's server."""
    processes: list[Process] = []

    def run(*arguments: str) -> Process:
        environment = {**os.environ, JOB_VARIABLE: str(folder.path), WORKER_VARIABLE: NAME}
        command = [sys.executable, "-P", *arguments]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def server(run: Callable[..., Process]) -> Process:
    return run("-m", MODULE)


def states(master: Master) -> list[ServerState]:
    return [message for message in master.heard if isinstance(message, ServerState)]


def test_it_says_where_it_serves_and_shows_that_it_lives(folder: JobFolder, server: Process) -> None:
    with master(folder, NAME) as present:
        host, port = present.hello.address.split(":")
        assert present.hello == Hello(NAME, f"{host}:{port}", Standing.READY, 0, NO_STATE)
        assert host == "127.0.0.1"
        present.says(Welcome(0.05))
        wait_until(lambda: len(states(present)) > 3, SECONDS)
        assert states(present)[0] == ServerState(0, 0, NO_STATE)
        present.hears(Progress(0, NO_STATE))


def test_workers_find_it_there_and_the_master_hears_of_its_rows(folder: JobFolder, server: Process) -> None:
    table = specs.table()
    with master(folder, NAME) as present:
        servers = [(NAME, present.hello.address)]
        present.says(Welcome(0.05))
        place = Place(1, 0, 1, "")
        session = enter(TOKEN.encode(), servers, [table], place, 0, root=True, new=True, seconds=SECONDS)
        with session:
            session.want([np.arange(10)])
            [rows] = session.rows()
            session.push([np.ones_like(rows)], [(0.1, 0)])
            session.applied()
            wait_until(lambda: any((state.rows, state.step) == (10, 1) for state in states(present)), SECONDS)
            assert states(present)[-1].memory > 0


@pytest.mark.parametrize("last", [End(), Release("one server too many")])
def test_it_ends_when_the_master_says_so(folder: JobFolder, server: Process, last: FromMaster) -> None:
    with master(folder, NAME) as present:
        assert not present.hello.leaving
        present.says(last)
        assert server.wait(SECONDS) == 0
        wait_until(lambda: present.lost == [NAME], SECONDS)


def test_asked_to_leave_it_serves_until_it_is_released(folder: JobFolder, server: Process) -> None:
    with master(folder, NAME) as first:
        address = first.hello.address
        server.send_signal(signal.SIGTERM)
        first.hears(Leaving())
    with master(folder, NAME) as second:
        assert second.hello == Hello(NAME, address, Standing.READY, 0, NO_STATE, leaving=True)
        second.says(Welcome(0.05))
        wait_until(lambda: len(states(second)) > 3, SECONDS)
        second.says(Release("asked to leave"))
        assert server.wait(SECONDS) == 0


def test_asked_to_leave_without_a_master_it_tells_the_next_one(folder: JobFolder, server: Process) -> None:
    with master(folder, NAME) as first:
        assert not first.hello.leaving
    server.send_signal(signal.SIGTERM)
    with master(folder, NAME) as second:
        wait_until(lambda: second.hello.leaving or Leaving() in second.heard, SECONDS)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        ("MemoryError('1 GiB')", OUT_OF_MEMORY_EXIT, "out of memory: 1 GiB\n"),
        ("ZeroDivisionError('a bug')", 1, "ZeroDivisionError: a bug\n"),
    ],
)
def test_how_it_fails_is_told(folder: JobFolder, run: Callable[..., Process], error: str, code: int, told: str) -> None:
    process = run("-c", FAILS.format(error=error))
    assert process.communicate(timeout=SECONDS)[1].endswith(told)
    assert process.returncode == code


def test_it_needs_no_tensorflow(run: Callable[..., Process]) -> None:
    code = f"import sys, {MODULE}; sys.exit('tensorflow' in sys.modules)"
    assert run("-c", code).wait(SECONDS) == 0
