"""The servers of the tests: there for a command, gone after it, whatever ends it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from tests.services import MYSQL_VARIABLE, POSTGRESQL_VARIABLE
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
#: Says what it was given, then waits to be told its exit code.
COMMAND = f"""
import json, os, sys
print(json.dumps([os.environ[{MYSQL_VARIABLE!r}], os.environ[{POSTGRESQL_VARIABLE!r}]]), flush=True)
sys.exit(int(sys.stdin.readline() or 1))
"""


def begin() -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A run with both servers up, and the servers' processes."""
    before = {process.pid for process in psutil.process_iter()}
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.services", "run", "--", sys.executable, "-c", COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert run.stdout is not None
    ports = {int(url.rpartition(":")[2].partition("/")[0]) for url in json.loads(run.stdout.readline())}
    servers = [process for process in psutil.process_iter() if process.pid not in before and ports & ports_of(process)]
    assert len(servers) >= 2
    return run, servers


def ports_of(process: psutil.Process) -> set[int]:
    try:
        return {place.laddr.port for place in process.net_connections("tcp") if place.status == psutil.CONN_LISTEN}
    except psutil.Error:
        return set()


def gone(servers: list[psutil.Process]) -> bool:
    return not any(server.is_running() and server.status() != psutil.STATUS_ZOMBIE for server in servers)


def folders(servers: list[psutil.Process]) -> list[Path]:
    """What the servers were given; they work in their data folders inside."""
    return [Path(server.cwd()).parent for server in servers]


def test_a_command_runs_beside_the_servers_and_gives_its_exit_code() -> None:
    run, servers = begin()
    places = folders(servers)
    run.communicate("7\n", timeout=30)
    assert run.returncode == 7
    assert gone(servers)
    assert not any(place.exists() for place in places)


def test_a_signal_stops_everything() -> None:
    run, servers = begin()
    places = folders(servers)
    run.send_signal(signal.SIGTERM)
    assert run.wait(30) == 128 + signal.SIGTERM
    run.communicate()
    assert gone(servers)
    assert not any(place.exists() for place in places)


def test_no_server_outlives_a_killed_run() -> None:
    run, servers = begin()
    places = folders(servers)
    run.kill()
    run.communicate()
    wait_until(lambda: gone(servers), 10)
    for place in places:
        shutil.rmtree(place)


def test_wrong_usage_says_how() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.services", "run"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stderr) == (2, "usage: python -m tests.services run -- COMMAND…\n")
