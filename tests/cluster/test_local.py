"""What is the local cluster's own: the fork server, the process that holds it, and those who connect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sqlflow_elastic.cluster import LocalCluster
from sqlflow_elastic.errors import JobError
from tests.cluster.runner import HOLD, SECONDS, Runner, gone
from tests.waiting import wait_until


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with LocalCluster(preload=(), slots=8) as cluster:
        yield Runner(cluster, tmp_path)


def test_close_ends_all(tmp_path: Path) -> None:
    with LocalCluster(preload=(), slots=8) as cluster:
        runner = Runner(cluster, tmp_path)
        processes = [runner.running(HOLD) for _ in range(3)]
        pids = [runner.pid(process) for process in processes]
    assert all(map(gone, pids))
    assert [process.wait(SECONDS) for process in processes] == [-signal.SIGKILL] * 3
    cluster.close()


def test_a_holder_killed_leaves_no_orphan(tmp_path: Path) -> None:
    (tmp_path / "hold.py").write_text("import signal; print('running', flush=True); signal.pause()")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
                from pathlib import Path
                from sqlflow_elastic.cluster import LocalCluster, ProcessSpec
                cluster = LocalCluster(preload=())
                folder = Path({str(tmp_path)!r})
                process = cluster.start(ProcessSpec(folder / "hold.py", folder / "log", folder))
                while process.pid is None:
                    process.wait(0.01)
                print(process.pid, flush=True)
                process.wait(None)
            """),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    with holder.stdout:
        pid = int(holder.stdout.readline())
        server = psutil.Process(pid).ppid()
        assert psutil.Process(server).ppid() == holder.pid
        holder.kill()
        holder.wait(SECONDS)
    wait_until(lambda: gone(pid) and gone(server), SECONDS)


def test_a_lost_fork_server_counts_as_a_kill_and_is_replaced(runner: Runner) -> None:
    process = runner.running(HOLD)
    os.kill(psutil.Process(runner.pid(process)).ppid(), signal.SIGKILL)
    assert process.wait(SECONDS) == -signal.SIGKILL
    assert gone(runner.pid(process))
    assert runner.start("pass").wait(SECONDS) == 0


def test_an_import_that_fails_is_told(tmp_path: Path) -> None:
    with LocalCluster(preload=("no_such_module",)) as cluster:
        process = Runner(cluster, tmp_path).start("pass")
        with pytest.raises(JobError, match=r"(?s)no process could be started: .*No module named 'no_such_module'"):
            process.wait(SECONDS)


def test_a_pending_process_is_not_started_after_it_was_ended(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "slow_module.py").write_text(f"open({str(gate)!r}).read()")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        cluster = LocalCluster(preload=("slow_module",))
        with cluster:
            runner = Runner(cluster, tmp_path)
            first = runner.start("print('first')")
            assert first.wait(0) is None
            assert first.pid is None
            assert first.terminate() == -signal.SIGKILL
            last = runner.start("print('last')")
            gate.write_text("")  # the import goes on
            assert last.wait(SECONDS) == 0
    assert not (tmp_path / "log1").exists()
    assert (tmp_path / "log2").read_text() == "last\n"


def test_a_cluster_that_still_imports_closes_at_once(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "slow_module.py").write_text(f"open({str(gate)!r}).read()")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        begun = time.monotonic()
        with LocalCluster(preload=("slow_module",)) as cluster:
            cluster.warm_up()
    assert time.monotonic() - begun < 5


def test_forked_processes_draw_different_numbers(tmp_path: Path) -> None:
    with LocalCluster(preload=("numpy", "random")) as cluster:
        runner = Runner(cluster, tmp_path)
        drawn = set()
        for _ in range(2):
            assert runner.start("import numpy, random; print(numpy.random.rand(), random.random())").wait(SECONDS) == 0
            drawn.update(runner.log().split())
    assert len(drawn) == 4


def test_tensorflow_computes_in_forked_processes(tmp_path: Path) -> None:
    with LocalCluster(preload=("tensorflow", "keras")) as cluster:
        runner = Runner(cluster, tmp_path)
        for jit in (False, True):
            process = runner.start(f"""
                import tensorflow as tf
                double = tf.function(lambda x: tf.reduce_sum(x @ x), jit_compile={jit})
                print(float(double(tf.ones((64, 64)))))
            """)
            assert process.wait(120) == 0, runner.log()
            assert float(runner.log()) == 64.0**3
