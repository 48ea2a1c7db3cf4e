"""Who connects to a local cluster cannot disturb it: by nonsense, silence, not listening, or as another user."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlflow_elastic.cluster import LocalCluster, Phase, keeper
from sqlflow_elastic.cluster.channel import MESSAGE_BYTES
from sqlflow_elastic.errors import JobError
from tests.cluster.runner import HOLD, SECONDS, Runner
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(preload=(), slots=2) as cluster:
        yield cluster


@pytest.fixture
def runner(cluster: LocalCluster, tmp_path: Path) -> Iterator[Runner]:
    runner = Runner(cluster, tmp_path)
    yield runner
    assert runner.start("pass").wait(SECONDS) == 0, "it goes on"


def dial(runner: Runner) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(runner.cluster.address.replace("@", "\0"))
    connection.settimeout(SECONDS)
    return connection


def ask(runner: Runner, message: bytes, descriptors: tuple[int, ...] = ()) -> dict[str, Any]:
    with dial(runner) as connection:
        socket.send_fds(connection, [message], descriptors)
        reply: dict[str, Any] = json.loads(connection.recv(MESSAGE_BYTES))
        assert connection.recv(MESSAGE_BYTES) == b"", "it is closed after the reply"
        return reply


def is_answered(runner: Runner) -> bool:
    try:
        runner.cluster.free()
    except JobError:
        return False
    return True


def start(**changes: object) -> bytes:
    """A request to start a process, somehow wrong."""
    fields: dict[str, object] = {
        "do": "start",
        "program": "/program.py",
        "module": None,
        "arguments": [],
        "log": "/log",
        "directory": "/",
        "environment": {},
        "descriptors": [],
        "job": "wrong",
        "name": "name",
        "role": "worker",
        "priority": 0,
        "slots": 1,
        "memory": 0,
    }
    return json.dumps({**fields, **changes}).encode()


@pytest.mark.parametrize(
    "message",
    [
        b"nonsense",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"null",
        b"[" * 60_000,
        b'{"do": "start"}',
        b'{"do": ["watch"]}',
        b'{"do": "watch", "job": 3}',
        b'{"do": "forget"}',
        b'{"do": "kill", "job": "job"}',
        b'{"do": "terminate", "job": "job", "name": "name", "grace": NaN}',
        b'{"do": "terminate", "job": "job", "name": "name", "grace": -1}',
        b'{"do": "terminate", "job": "job", "name": "name", "grace": true}',
        b'{"do": "warm_up"}' + b" " * MESSAGE_BYTES + b"!",
    ],
)
def test_nonsense_is_refused(runner: Runner, message: bytes) -> None:
    if len(message) > MESSAGE_BYTES:
        assert ask(runner, message) == {}, "what is longer is cut"
    else:
        assert "error" in ask(runner, message)


@pytest.mark.parametrize(
    "changes",
    [
        {"program": None},
        {"module": "json.tool"},
        {"program": 1},
        {"slots": -1},
        {"memory": -1},
        {"memory": None},
        {"slots": True},
        {"slots": 10**50},
        {"priority": 1.5},
        {"role": "king"},
        {"name": ""},
        {"name": "x" * 201},
        {"arguments": [1]},
        {"arguments": ["\0"]},
        {"environment": {"A": "\0"}},
        {"environment": {"A": 1}},
        {"descriptors": ["MISSING"]},
    ],
)
def test_a_wrong_request_to_start_is_refused(runner: Runner, changes: dict[str, object]) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert "error" in ask(runner, start(**changes), (theirs.fileno(),))
    assert runner.cluster.list("wrong") == []


def test_a_start_without_a_socket_for_its_handle_is_refused(runner: Runner) -> None:
    assert "error" in ask(runner, start())
    with (runner.folder / "file").open("w") as file:
        assert "error" in ask(runner, start(), (file.fileno(),))


@pytest.mark.parametrize("log", ["/missing/log", "/\0", "/\ud800", "", "/"])
def test_a_log_that_is_none_does_not_end_the_fork_server(runner: Runner, log: str) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert ask(runner, start(log=log, job=""), (theirs.fileno(),)) == {}
        theirs.close()
        ours.settimeout(SECONDS)
        assert b"failure" in ours.recv(MESSAGE_BYTES)


def test_nonsense_from_a_handle_ends_no_process_of_a_job(runner: Runner) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    (runner.folder / "hold.py").write_text("import signal; signal.pause()")
    paths = {"program": str(runner.folder / "hold.py"), "log": str(runner.folder / "log")}
    with ours, theirs:
        assert ask(runner, start(**paths, job="nonsense"), (theirs.fileno(),)) == {}
        wait_until(lambda: runner.status("nonsense", "name").phase is Phase.RUNNING, SECONDS)
        ours.send(b"nonsense")
        theirs.close()
        ours.settimeout(SECONDS)
        assert b"pid" in ours.recv(MESSAGE_BYTES)
        assert ours.recv(MESSAGE_BYTES) == b"", "no more is heard from it"
    assert runner.status("nonsense", "name").phase is Phase.RUNNING
    runner.cluster.forget("nonsense")


def test_a_connection_that_says_nothing_is_closed(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "_SILENT_SECONDS", 0.1)
    with dial(runner) as silent:
        assert silent.recv(MESSAGE_BYTES) == b""


def test_too_many_connections_are_not_taken(runner: Runner) -> None:
    silent = [dial(runner) for _ in range(300)]
    with pytest.raises(JobError, match="the cluster"):
        runner.cluster.list()
    for one in silent:
        one.close()
    wait_until(lambda: is_answered(runner), SECONDS)


def test_who_goes_away_in_the_middle_does_not_disturb(runner: Runner) -> None:
    for message in (b'{"do": "watch"}', b'{"do": "forget", "job": "job"}', b'{"do": "describe"}', b"nonsense"):
        with dial(runner) as connection:
            connection.send(message)


def test_who_watches_without_listening_gets_the_newest_state_when_he_does(runner: Runner) -> None:
    runner.running(HOLD, slots=2, job="holder")
    names = [f"{number:04}-{'x' * 190}" for number in range(700)]
    with runner.cluster.watch("watched") as sleeper:
        for name in names:
            runner.start("pass", job="watched", name=name)
            runner.cluster.kill("watched", name)
        assert sleeper.next(SECONDS) == []
        newest: dict[str, Phase] = {}
        while list(newest.values()) != [Phase.ENDED] * len(names):
            statuses = sleeper.next(SECONDS)
            assert statuses, "some newest state was not told"
            newest.update({status.name: status.phase for status in statuses})
    runner.cluster.forget("holder")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_not_let_in(runner: Runner) -> None:
    process = runner.start(
        """
        import os, socket, sys
        os.setuid(65534)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(sys.argv[1].replace("@", "\\0"))
        connection.settimeout(30)
        try:
            connection.send(b'{"do": "describe"}')
            print(connection.recv(1000))
        except ConnectionError:
            print("closed")
        """,
        arguments=(runner.cluster.address,),
    )
    assert process.wait(SECONDS) == 0
    assert runner.log() in ("b''\n", "closed\n")
