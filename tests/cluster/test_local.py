"""What is the local cluster's own: the fork server, the process that holds it, and those who connect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sqlflow_elastic.cluster import LocalCluster, Phase, connect
from sqlflow_elastic.errors import JobError
from tests.cluster.runner import HOLD, SECONDS, Runner, gone
from tests.waiting import wait_until

SLOTS = 8


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with LocalCluster(preload=(), slots=SLOTS) as cluster:
        yield Runner(cluster, tmp_path)


def test_close_ends_all(tmp_path: Path) -> None:
    with LocalCluster(preload=(), slots=SLOTS) as cluster:
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


def test_what_a_process_started_goes_with_a_lost_fork_server_too(runner: Runner) -> None:
    process = runner.running("""
        import signal, subprocess
        child = subprocess.Popen(["sleep", "1000"])
        print(child.pid, flush=True)
        signal.pause()
    """)
    os.kill(psutil.Process(runner.pid(process)).ppid(), signal.SIGKILL)
    assert process.wait(SECONDS) == -signal.SIGKILL
    wait_until(lambda: gone(int(runner.log())), SECONDS)


def test_what_waits_when_the_fork_server_dies_starts_in_the_next_one(runner: Runner) -> None:
    holder = runner.running(HOLD, slots=SLOTS, job="job", name="holder")
    waits = runner.start("print('runs')", job="job", name="waits")
    os.kill(psutil.Process(runner.pid(holder)).ppid(), signal.SIGKILL)
    assert waits.wait(SECONDS) == 0
    assert runner.status("job", "holder").exit_code == -signal.SIGKILL


def test_a_fork_server_that_hangs_does_not_keep_the_cluster_from_answering(runner: Runner) -> None:
    process = runner.running(HOLD, job="job", name="one")
    server = psutil.Process(runner.pid(process)).parent()
    assert server is not None
    server.suspend()
    runner.start("pass", job="job", name="two")
    runner.cluster.terminate("job", "one")
    assert [status.name for status in runner.cluster.list("job")] == ["one", "two"]
    server.resume()
    assert runner.ended("job", "one").exit_code == -signal.SIGTERM
    assert runner.ended("job", "two").exit_code == 0


def test_a_closed_cluster_says_so_and_leaves_no_thread(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    with LocalCluster(preload=(), slots=SLOTS) as cluster:
        connected = connect(cluster.address)
        runner = Runner(cluster, tmp_path)
        runs = runner.running(HOLD, slots=SLOTS, job="job", name="runs")
        waits = runner.start("print('runs')", job="job", name="waits")
        watch = connected.watch("job")
        watch.next(SECONDS)
    assert set(threading.enumerate()) == threads
    assert [process.wait(SECONDS) for process in (runs, waits)] == [-signal.SIGKILL] * 2
    assert {status.name: status.exit_code for status in watch.next(SECONDS)} == {"runs": -9, "waits": -9}
    with watch, pytest.raises(JobError, match="the cluster has ended"):
        watch.next(SECONDS)
    for side in (cluster, connected):
        with pytest.raises(JobError, match="cannot be reached"):
            side.list()
        with pytest.raises(JobError, match="cannot be reached"):
            side.start(runner.spec)
    with pytest.raises(JobError, match="cannot be reached"):
        connect(cluster.address)


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


def test_a_cluster_answers_while_its_fork_server_imports(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "slow_module.py").write_text(f"open({str(gate)!r}).read()")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        with LocalCluster(preload=("slow_module",), slots=SLOTS) as cluster, connect(cluster.address) as master:
            runner = Runner(master, tmp_path)
            late = runner.start("pass", job="job", name="late", slots=SLOTS)
            runner.start("pass", job="job", name="urgent", slots=SLOTS, priority=1)
            assert {status.phase for status in master.list()} == {Phase.PENDING}
            assert master.free() == SLOTS
            gate.write_text("")
            assert late.wait(SECONDS) == 0
            assert runner.status("job", "urgent").phase is Phase.ENDED


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
