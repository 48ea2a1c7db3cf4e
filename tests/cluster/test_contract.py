"""The contract of `cluster.base`, with real processes and signals: one suite over all clusters."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from sqlflow_elastic.cluster import CLUSTER_VARIABLE, AlreadyStarted, Phase, Role, Status, Watch, connect
from sqlflow_elastic.errors import JobError
from tests.cluster.runner import DEAF, HOLD, SECONDS, SLOTS, Runner, gone
from tests.waiting import wait_until


def seen(watch: Watch, enough: Callable[[list[Status]], bool]) -> list[Status]:
    """What the watch tells until it is enough."""
    deadline = time.monotonic() + SECONDS
    statuses: list[Status] = []
    while not enough(statuses):
        assert time.monotonic() < deadline, statuses
        statuses += watch.next(0.1)
    return statuses


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
    process = runner.start("import os; os.write(int(os.environ['CHANNEL']), b'word')", descriptors={"CHANNEL": theirs})
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
    process = runner.running(DEAF)
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


def test_a_program_gets_its_arguments(runner: Runner) -> None:
    process = runner.start("import sys; print(sys.argv[1:])", arguments=("--rank", "two words"))
    assert process.wait(SECONDS) == 0
    assert runner.log() == "['--rank', 'two words']\n"


def test_a_module_runs_as_python_does_it(runner: Runner) -> None:
    (runner.folder / "data.json").write_text("[1,  2]")
    process = runner.start("", program=None, module="json.tool", arguments=("--compact", "data.json"))
    assert process.wait(SECONDS) == 0
    assert runner.log() == "[1,2]\n"


def test_the_users_folder_does_not_stand_in_for_a_module(runner: Runner) -> None:
    (runner.folder / "calendar.py").write_text("raise SystemExit('not this one')")
    assert runner.start("", program=None, module="calendar", arguments=("2026",)).wait(SECONDS) == 0


def test_what_comes_in_the_environment_is_never_shown(runner: Runner) -> None:
    runner.start("pass", environment={"TOKEN": "secret"}).wait(SECONDS)
    assert "secret" not in repr(runner.spec)


def test_more_than_a_message_holds_is_an_error(runner: Runner) -> None:
    with pytest.raises(JobError, match=r"no process could be started: .* bytes are too much"):
        runner.start("pass", environment={"LONG": "x" * 100_000})
    assert runner.start("pass").wait(SECONDS) == 0


def test_more_descriptors_than_go_with_a_message_are_an_error(runner: Runner) -> None:
    with pytest.raises(JobError, match="at most 15 descriptors"):
        runner.start("pass", descriptors={f"CHANNEL{number}": 1 for number in range(16)})


def test_a_log_that_cannot_be_written_is_told(runner: Runner) -> None:
    process = runner.start("pass", job="job", name="mute", log=runner.folder / "missing" / "log")
    with pytest.raises(JobError, match=r"no process could be started: .*No such file or directory: .*missing/log"):
        process.wait(SECONDS)
    status = runner.status("job", "mute")
    assert (status.phase, status.exit_code) == (Phase.ENDED, None)
    assert "No such file" in str(status.failure)
    assert runner.cluster.free() == SLOTS


def test_a_process_is_known_until_its_job_is_forgotten(runner: Runner) -> None:
    runner.start("raise SystemExit(3)", job="job", name="first", role=Role.WORKER).wait(SECONDS)
    runner.running(HOLD, job="job", name="second", role=Role.MASTER, slots=0)
    first, second = runner.cluster.list("job")
    assert (first.name, first.role, first.phase, first.exit_code) == ("first", Role.WORKER, Phase.ENDED, 3)
    assert (second.name, second.role, second.phase, second.exit_code) == ("second", Role.MASTER, Phase.RUNNING, None)
    assert runner.cluster.list() == [first, second]
    assert runner.cluster.list("another") == []
    runner.cluster.forget("job")
    assert runner.cluster.list() == []
    assert second.pid is not None
    assert gone(second.pid)


def test_a_forgotten_job_starts_nothing_more(runner: Runner) -> None:
    runner.cluster.forget("job")
    with pytest.raises(JobError, match="the job is over"):
        runner.start("pass", job="job", name="late")
    runner.cluster.forget("job")


def test_an_anonymous_process_is_not_known_after_its_end(runner: Runner) -> None:
    process = runner.running(HOLD)
    [status] = runner.cluster.list("")
    assert status.pid == runner.pid(process)
    process.kill()
    assert process.wait(SECONDS) == -signal.SIGKILL
    assert runner.cluster.list("") == []
    with pytest.raises(ValueError, match="anonymous"):
        runner.cluster.forget("")


def test_a_name_is_used_once_in_a_job(runner: Runner) -> None:
    runner.start("pass", job="job", name="worker-0").wait(SECONDS)
    with pytest.raises(AlreadyStarted):
        runner.start("pass", job="job", name="worker-0")
    assert runner.start("pass", job="other", name="worker-0").wait(SECONDS) == 0
    assert len(runner.cluster.list("job")) == 1


def test_a_process_of_a_job_lives_on_without_its_handle(runner: Runner) -> None:
    process = runner.running(HOLD, job="job", name="worker-0")
    pid = runner.pid(process)
    del process
    assert runner.start("pass").wait(SECONDS) == 0
    assert runner.status("job", "worker-0").phase is Phase.RUNNING
    assert not gone(pid)


def test_terminate_by_name_asks_first(runner: Runner) -> None:
    runner.running(HOLD, job="job", name="listens")
    runner.cluster.terminate("job", "listens", grace=SECONDS)
    assert runner.ended("job", "listens").exit_code == -signal.SIGTERM


def test_terminate_by_name_kills_what_does_not_listen(runner: Runner) -> None:
    process = runner.running(DEAF, job="job", name="deaf")
    runner.cluster.terminate("job", "deaf", grace=1000)
    runner.cluster.terminate("job", "deaf", grace=0.1)
    assert process.wait(SECONDS) == -signal.SIGKILL
    assert runner.ended("job", "deaf").exit_code == -signal.SIGKILL
    assert gone(runner.pid(process))


def test_kill_by_name(runner: Runner) -> None:
    runner.running(DEAF, job="job", name="one")
    runner.cluster.kill("job", "one")
    assert runner.ended("job", "one").exit_code == -signal.SIGKILL
    runner.cluster.kill("job", "one")
    runner.cluster.kill("job", "nobody")
    runner.cluster.terminate("nothing", "nobody")


def test_a_watch_begins_with_what_is(runner: Runner) -> None:
    runner.start("pass", job="job", name="over").wait(SECONDS)
    runner.running(HOLD, job="job", name="runs")
    with runner.cluster.watch("job") as watch:
        assert watch.next(SECONDS) == runner.cluster.list("job")
        assert watch.next(0) == []
    with runner.cluster.watch("another") as watch:
        assert watch.next(SECONDS) == []


def test_a_watch_tells_each_change(runner: Runner) -> None:
    with runner.cluster.watch("job") as watch, runner.cluster.watch() as all_jobs:
        assert watch.next(SECONDS) == []
        process = runner.running(HOLD, job="job", name="worker-0", role=Role.WORKER)
        runner.start("pass", job="another").wait(SECONDS)
        process.kill()
        statuses = seen(watch, lambda statuses: any(status.phase is Phase.ENDED for status in statuses))
        assert [status.phase for status in statuses] == [Phase.PENDING, Phase.RUNNING, Phase.ENDED]
        assert statuses[-1] == runner.status("job", "worker-0")
        assert statuses[-1].exit_code == -signal.SIGKILL
        assert {status.job for status in statuses} == {"job"}
        seen(all_jobs, lambda statuses: {status.job for status in statuses} == {"job", "another"})


def test_a_watch_can_be_selected(runner: Runner) -> None:
    with runner.cluster.watch() as watch:
        watch.next(SECONDS)
        assert select.select([watch], [], [], 0)[0] == []
        runner.start("pass")
        assert select.select([watch], [], [], SECONDS)[0] == [watch]


def test_a_watch_tells_the_end_of_what_is_forgotten(runner: Runner) -> None:
    runner.running(HOLD, job="job", name="runs")
    with runner.cluster.watch("job") as watch:
        watch.next(SECONDS)
        runner.cluster.forget("job")
        [status] = seen(watch, bool)
        assert (status.name, status.phase) == ("runs", Phase.ENDED)


def test_a_watch_of_many_processes_is_told_whole(runner: Runner) -> None:
    runner.running(HOLD, slots=SLOTS, job="holder")
    names = {f"{number:03}-{'x' * 150}" for number in range(300)}
    with runner.cluster.watch("job") as watch:
        watch.next(SECONDS)
        for name in names:
            runner.start("pass", job="job", name=name)
        seen(watch, lambda statuses: {status.name for status in statuses} == names)
    with runner.cluster.watch("job") as late:
        assert {status.name for status in late.next(SECONDS)} == names


MASTER = f"""
    import os, signal
    from pathlib import Path
    from sqlflow_elastic.cluster import ProcessSpec, Role, connect
    folder = Path.cwd()
    (folder / "worker.py").write_text("import signal; print('works', flush=True); signal.pause()")
    with connect(os.environ["{CLUSTER_VARIABLE}"]) as cluster:
        cluster.start(ProcessSpec(folder / "worker.py", folder / "worker.log", folder,
                                  job="job", name="worker-0", role=Role.WORKER))
        print("master", flush=True)
        signal.pause()
"""


def test_the_worker_of_a_master_lives_on_when_the_master_is_killed(runner: Runner) -> None:
    environment = {CLUSTER_VARIABLE: runner.cluster.address}
    master = runner.running(MASTER, job="job", name="master", role=Role.MASTER, slots=0, environment=environment)
    wait_until(lambda: runner.status("job", "worker-0").phase is Phase.RUNNING, SECONDS)
    master.kill()
    assert master.wait(SECONDS) == -signal.SIGKILL
    worker = runner.status("job", "worker-0")
    assert worker.phase is Phase.RUNNING
    assert worker.pid is not None
    assert not gone(worker.pid)
    runner.cluster.forget("job")
    assert gone(worker.pid)


def test_only_who_is_given_the_address_has_it(runner: Runner) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CLUSTER_VARIABLE, "of another cluster")
        assert runner.start(f"import os; print(os.environ.get('{CLUSTER_VARIABLE}'))").wait(SECONDS) == 0
    assert runner.log() == "None\n"


def test_two_masters_do_not_disturb_each_other(runner: Runner) -> None:
    with connect(runner.cluster.address) as one, closing(one.watch()) as watch:
        runner.start("pass", job="job", name="a").wait(SECONDS)
        seen(watch, lambda statuses: any(status.phase is Phase.ENDED for status in statuses))
    assert runner.start("pass", job="job", name="b").wait(SECONDS) == 0
