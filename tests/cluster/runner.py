"""Pieces of program text, run on a cluster."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from sqlflow_elastic.cluster import Cluster, Phase, Process, ProcessSpec, Status
from tests.waiting import wait_until

SECONDS = 30.0
#: Of a cluster on which the contract is tested.
SLOTS = 4

HOLD = """
    import signal
    print("running", flush=True)
    signal.pause()
"""

DEAF = """
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("running", flush=True)
    while True:
        signal.pause()
"""


class Runner:
    """Starts pieces of program text on a cluster, each with a log of its own."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.started = 0

    def start(self, text: str, **fields: Any) -> Process:
        """Start a program; ``fields`` are those of its `ProcessSpec`."""
        self.started += 1
        program = self.folder / f"program{self.started}.py"
        program.write_text(textwrap.dedent(text))
        spec = ProcessSpec(program, self.folder / f"log{self.started}", self.folder, {"GREETING": "hello"})
        self.spec = replace(spec, **fields)
        return self.cluster.start(self.spec)

    def running(self, text: str, **fields: Any) -> Process:
        """Start a program and wait until it printed its first line."""
        process = self.start(text, **fields)
        wait_until(lambda: "\n" in self.log(), SECONDS)
        return process

    def pid(self, process: Process) -> int:
        """Its number, as soon as it has one."""
        wait_until(lambda: process.wait(0) is not None or process.pid is not None, SECONDS)
        assert process.pid is not None
        return process.pid

    def log(self) -> str:
        """The log of the last program."""
        return self.spec.log.read_text() if self.spec.log.exists() else ""

    def status(self, job: str, name: str) -> Status:
        """What the cluster knows of a process."""
        [status] = [status for status in self.cluster.list(job) if status.name == name]
        return status

    def ended(self, job: str, name: str) -> Status:
        """Its status, as soon as it has ended."""
        wait_until(lambda: self.status(job, name).phase is Phase.ENDED, SECONDS)
        return self.status(job, name)


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
