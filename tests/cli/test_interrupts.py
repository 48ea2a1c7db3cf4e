"""Ctrl-C and kill while a job runs: what is left of it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.cli.command import SECONDS, family, run, start
from tests.waiting import wait_until

TRAIN = "SELECT * FROM points TO TRAIN LinearClassifier WITH train.epoch = {epochs} LABEL above INTO {name}"


@contextmanager
def training(home: Path, points: Path) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """The command in the middle of an endless training, and its job's process."""
    process = start(
        home, "--datasource", f"duckdb:///{points}", "run", "-e", TRAIN.format(epochs=1_000_000, name="endless")
    )
    try:
        wait_until(lambda: bool(list(job_folders(home, "encoded/**/manifest.json"))), SECONDS)
        server = psutil.Process(process.pid).children()[0]
        yield process, server.children()[0]
    finally:
        process.kill()
        process.communicate()


def job_folders(home: Path, inside: str = "") -> list[Path]:
    return list((home / ".local/state/sqlflow-elastic/jobs").glob(f"j-*/{inside}"))


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_or_a_closed_terminal_stops_the_job(tmp_path: Path, points: Path, sent: signal.Signals) -> None:
    with training(tmp_path, points) as (process, _):
        processes = family(process.pid)
        process.send_signal(sent)
        _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "the job was stopped"
    assert not any(one.is_running() for one in processes)
    assert job_folders(tmp_path, "encoded*") == []
    models = run(tmp_path, "--datasource", f"duckdb:///{points}", "--format", "csv", "run", "-e", "SHOW MODELS")
    assert len(models.stdout.splitlines()) == 1


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path, points: Path) -> None:
    with training(tmp_path, points) as (process, job):
        processes = family(process.pid)
        job.suspend()  # so that it does not hear the first
        process.send_signal(signal.SIGINT)
        wait_until(lambda: signal.SIGTERM in pending(job), SECONDS)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=4)  # less than the grace a job has
    assert process.returncode == 130
    wait_until(lambda: not any(one.is_running() for one in processes), SECONDS)


def pending(process: psutil.Process) -> set[int]:
    """The signals that wait for a process."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    mask = int(next(line for line in lines if line.startswith("ShdPnd")).split()[1], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def test_kill_leaves_no_orphan(tmp_path: Path, points: Path) -> None:
    with training(tmp_path, points) as (process, _):
        processes = family(process.pid)
        assert len(processes) == 3  # the fork server, the master and its worker
        process.kill()
        process.communicate(timeout=SECONDS)
    wait_until(lambda: not any(one.is_running() for one in processes), SECONDS)


def test_ctrl_c_ends_a_query(tmp_path: Path) -> None:
    query = "SELECT 1 AS begun; SELECT count(*) FROM range(100000000000) a, range(1000000)"
    process = start(tmp_path, "--datasource", "duckdb://", "--format", "csv", "run", "-e", query)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "the statement was stopped"
