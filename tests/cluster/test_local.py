"""The local cluster against the contract of `cluster.base`, with real processes and signals."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sqlflow_elastic.cluster import LocalCluster, Process, ProcessSpec
from sqlflow_elastic.errors import JobError
from tests.waiting import wait_until

SECONDS = 30.0

HOLD = """
    import signal, sys
    print("running", flush=True)
    signal.pause()
"""


class Runner:
    """Starts pieces of program text on a cluster, each with a log of its own."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.started = 0

    def start(self, text: str, **descriptors: int) -> Process:
        self.started += 1
        program = self.folder / f"program{self.started}.py"
        program.write_text(textwrap.dedent(text))
        self.spec = ProcessSpec(
            program, self.folder / f"log{self.started}", self.folder, {"GREETING": "hello"}, descriptors
        )
        return self.cluster.start(self.spec)

    def running(self, text: str) -> Process:
        """Start a program and wait until it printed its first line."""
        process = self.start(text)
        wait_until(lambda: "\n" in self.log(), SECONDS)
        return process

    def pid(self, process: Process) -> int:
        """Its number, as soon as it has one."""
        wait_until(lambda: process.wait(0) is not None or process.pid is not None, SECONDS)
        assert process.pid is not None
        return process.pid

    def log(self) -> str:
        return self.spec.log.read_text() if self.spec.log.exists() else ""


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with LocalCluster(preload=(), slots=8) as cluster:
        yield Runner(cluster, tmp_path)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_program_runs_as_if_started_from_a_shell(runner: Runner) -> None:
    (runner.folder / "beside.py").write_text("word = 'imported'")
    process = runner.start("""
        import os, sys, beside
        print(__name__, sys.argv, os.environ["GREETING"], os.getcwd(), beside.word, sys.modules["__main__"].__file__)
        print("to stderr", file=sys.stderr)
    """)
    assert process.wait(SECONDS) == 0
    path = str(runner.spec.program)
    assert runner.log() == f"__main__ {[path]} hello {runner.folder} imported {path}\nto stderr\n"


@pytest.mark.parametrize(
    ("program", "exit_code"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("raise SystemExit", 0),
        ("raise SystemExit('no good')", 1),
        ("import signal; signal.raise_signal(signal.SIGINT)", 1),
        ("1 / 0", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import os; os._exit(7)", 7),
    ],
)
def test_the_exit_code_is_told(runner: Runner, program: str, exit_code: int) -> None:
    process = runner.start(program)
    assert process.wait(SECONDS) == exit_code
    assert process.wait(0) == exit_code
    assert process.terminate() == exit_code
    assert gone(runner.pid(process))


def test_a_traceback_shows_the_programs_frames_only(runner: Runner) -> None:
    assert runner.start("def f():\n    return 1 / 0\nf()").wait(SECONDS) == 1
    lines = runner.log().splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert [line for line in lines if "File" in line] == [
        f'  File "{runner.spec.program}", line {line}, in {where}' for line, where in ((3, "<module>"), (2, "f"))
    ]


def test_threads_are_joined_and_exit_functions_called(runner: Runner) -> None:
    process = runner.start("""
        import atexit, concurrent.futures, threading
        go_on = threading.Event()
        def late(word):
            go_on.wait()
            print(word + "\\n", end="")  # in one write: the other thread must not come in between
        threading.Thread(target=late, args=["thread"]).start()
        pool = concurrent.futures.ThreadPoolExecutor(1)
        pool.submit(late, "executor")
        atexit.register(print, "exit", end="")
        go_on.set()
    """)
    assert process.wait(SECONDS) == 0
    assert sorted(runner.log().split()) == ["executor", "exit", "thread"]


def test_a_crash_leaves_its_place_in_the_log(runner: Runner) -> None:
    process = runner.start("import ctypes\nctypes.string_at(0)")
    assert process.wait(SECONDS) == -signal.SIGSEGV
    assert "Segmentation fault" in runner.log()


def test_descriptors_are_handed_over_and_closed_at_the_end(runner: Runner) -> None:
    ours, theirs = os.pipe()
    process = runner.start("import os; os.write(int(os.environ['CHANNEL']), b'word')", CHANNEL=theirs)
    os.close(theirs)
    with os.fdopen(ours, "rb") as channel:
        assert channel.read() == b"word"
    assert process.wait(SECONDS) == 0


def test_processes_run_side_by_side_and_die_alone(runner: Runner) -> None:
    first, second = runner.running(HOLD), runner.running(HOLD)
    first.kill()
    assert first.wait(SECONDS) == -signal.SIGKILL
    assert second.wait(0) is None
    assert not gone(runner.pid(second))


def test_the_end_of_a_process_can_be_selected(runner: Runner) -> None:
    process = runner.running(HOLD)
    runner.pid(process)
    assert select.select([process], [], [], 0)[0] == []
    process.kill()
    assert select.select([process], [], [], SECONDS)[0] == [process]
    assert process.wait(SECONDS) == -signal.SIGKILL


def test_terminate_asks_first(runner: Runner) -> None:
    process = runner.running("""
        import signal, sys
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
        print("running", flush=True)
        signal.pause()
    """)
    assert process.terminate() == 4


def test_terminate_kills_what_does_not_listen(runner: Runner) -> None:
    process = runner.running("""
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("running", flush=True)
        signal.pause()
    """)
    assert process.terminate(grace=0.1) == -signal.SIGKILL
    assert gone(runner.pid(process))


def test_what_a_process_started_goes_with_it(runner: Runner) -> None:
    process = runner.running("""
        import subprocess, sys
        child = subprocess.Popen(["sleep", "1000"])
        print(child.pid, flush=True)
        sys.exit(0)
    """)
    assert process.wait(SECONDS) == 0
    wait_until(lambda: gone(int(runner.log())), SECONDS)


def test_a_handle_that_is_dropped_ends_its_process(runner: Runner) -> None:
    process = runner.running(HOLD)
    pid = runner.pid(process)
    del process
    wait_until(lambda: gone(pid), SECONDS)


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
