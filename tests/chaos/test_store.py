"""The store of a job's state goes away and comes back."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from sqlflow_elastic.cluster import LocalCluster
from sqlflow_elastic.elastic.state import open_store
from tests.chaos.trial import Trial
from tests.services import START_SECONDS, Etcd, await_start


@pytest.fixture
def etcd(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Popen[bytes]]]:
    """An etcd of the test's own: its URL and its process."""
    if not shutil.which("etcd"):
        pytest.skip("etcd is not installed (Debian: etcd-server)")
    folder = Path(tempfile.mkdtemp(prefix="sfe-", dir="/tmp"))
    server = Etcd(folder)
    process = server.serve()
    try:
        await_start(server, process, time.monotonic() + START_SECONDS)
        with open_store(server.url):  # what stays open for all that use etcd in this process is not the test's
            pass
        yield server.url, process
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_world_changes_when_the_store_is_back(
    etcd: tuple[str, Popen[bytes]], cluster: LocalCluster, tmp_path: Path
) -> None:
    url, process = etcd
    with Trial(cluster, tmp_path, state_store=url) as trial:
        trial.until_it_trains(3)
        lost = trial.members[0]
        process.send_signal(signal.SIGSTOP)
        trial.strike_worker(lost)
        trial.until(lambda: any("waits for it" in text for text in trial.warnings), "the master misses the store")
        process.send_signal(signal.SIGCONT)
        trial.until_it_trains(3)
        assert lost not in trial.members
        trial.ends()


def test_a_master_that_dies_while_the_store_is_away_is_followed_when_it_is_back(
    etcd: tuple[str, Popen[bytes]], cluster: LocalCluster, tmp_path: Path
) -> None:
    url, process = etcd
    with Trial(cluster, tmp_path, state_store=url) as trial:
        trial.until_it_trains(3)
        worlds = len(trial.worlds)
        process.send_signal(signal.SIGSTOP)
        first = trial.master
        trial.strike(first)
        trial.until(lambda: trial.master.name != first.name, "another master begins")
        for _ in range(5):
            trial.until_it_gets_on()
        process.send_signal(signal.SIGCONT)
        trial.until_it_trains(3)
        assert len(trial.worlds) == worlds
        trial.ends()
