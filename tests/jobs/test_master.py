"""A job's master as a process: who may talk to it, and what it does about another one."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sqlflow_elastic.cluster import CLUSTER_VARIABLE, LocalCluster, Phase, ProcessSpec, Role
from sqlflow_elastic.elastic.folder import EVENTS_VARIABLE, JOB_VARIABLE, JobFolder, write_text
from sqlflow_elastic.elastic.membership.messages import End, Hello, Needs, Progress, Standing, Told, Welcome
from sqlflow_elastic.elastic.proto import TOKEN_KEY, master_pb2, master_pb2_grpc, wire
from sqlflow_elastic.errors import JobCancelled
from sqlflow_elastic.events import Failed, Message, from_json, to_json
from sqlflow_elastic.jobs import job_folder
from sqlflow_elastic.jobs.master.process import TERM
from sqlflow_elastic.jobs.master.streams import SERVICE
from sqlflow_elastic.jobs.pipe import take_unread
from sqlflow_elastic.jobs.records import CANCEL, STATUS
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.jobs.state import STATE_VARIABLE, JobState
from tests.waiting import wait_until

SECONDS = 30.0
TOKEN = "the job's token"
WAITING = "import signal\nsignal.pause()\n"
NO_SESSION: Mapping[str, int] = {}

REQUEST = JobRequest(JobKind.PREDICT, "nothing", "", workers=1)
#: What a worker says first.
HELLO = Hello("worker-0", "127.0.0.1:1", Standing.WARMING, 0, -1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(("sqlflow_elastic.jobs.master.process",), 4) as cluster:
        yield cluster


class Masters:
    """Masters of one job whose workers never say a word."""

    def __init__(self, folder: JobFolder, cluster: LocalCluster) -> None:
        self.folder = folder
        self.cluster = cluster
        self.state = JobState(str(folder.state))
        self.state.begin(REQUEST)
        write_text(folder.program, WAITING)
        write_text(folder.token, TOKEN)

    def start(self, name: str, descriptors: Mapping[str, int] = NO_SESSION) -> None:
        """Start one, and wait until it serves."""
        before = self._file()
        self.cluster.start(
            ProcessSpec(
                program=None,
                module="sqlflow_elastic.jobs.master",
                log=self.folder.log_of(name),
                directory=Path.cwd(),
                environment={
                    JOB_VARIABLE: str(self.folder.path),
                    STATE_VARIABLE: str(self.folder.state),
                    CLUSTER_VARIABLE: self.cluster.address,
                },
                descriptors=descriptors,
                job=self.folder.path.name,
                name=name,
                role=Role.MASTER,
                slots=0,
            )
        )
        wait_until(lambda: self._file() not in (None, before), SECONDS)

    def _file(self) -> str | None:
        return self.folder.master.read_text() if self.folder.master.exists() else None

    @property
    def address(self) -> str:
        return str(json.loads(self.folder.master.read_text())["address"])

    def exit_code(self, name: str) -> int | None:
        return next(one.exit_code for one in self.cluster.list(self.folder.path.name) if one.name == name)

    def figures(self) -> str:
        """What is served for Prometheus."""
        with urlopen(f"http://{self.state.read('metrics')}/metrics", timeout=SECONDS) as answer:
            return str(answer.read().decode())

    @contextmanager
    def stub(self) -> Iterator[master_pb2_grpc.MasterStub]:
        with grpc.insecure_channel(self.address, [("grpc.enable_http_proxy", 0)]) as channel:
            yield master_pb2_grpc.MasterStub(channel)


@pytest.fixture
def job(cluster: LocalCluster, tmp_path: Path) -> Iterator[Masters]:
    """A job that has no master yet."""
    with job_folder(tmp_path) as folder:
        masters = Masters(folder, cluster)
        yield masters
        cluster.forget(folder.path.name)
        masters.state.close()


@pytest.fixture
def masters(job: Masters) -> Masters:
    job.start("master-1")
    return job


@contextmanager
def saying(*messages: master_pb2.FromWorker) -> Iterator[Iterator[master_pb2.FromWorker]]:
    """What a worker sends: these messages, and nothing more as long as the test looks at the answers."""
    over = threading.Event()

    def send() -> Iterator[master_pb2.FromWorker]:
        yield from messages
        over.wait(SECONDS)

    try:
        yield send()
    finally:
        over.set()


def refusal(masters: Masters, metadata: tuple[tuple[str, str], ...], *messages: master_pb2.FromWorker) -> grpc.RpcError:
    with masters.stub() as stub, saying(*messages) as said, pytest.raises(grpc.RpcError) as caught:
        for _ in stub.Join(said, metadata=metadata, timeout=SECONDS):
            pass
    return caught.value


def test_a_worker_with_the_token_is_welcome(masters: Masters) -> None:
    with masters.stub() as stub, saying(wire.from_worker(HELLO)) as said:
        answers = stub.Join(said, metadata=((TOKEN_KEY, TOKEN),), timeout=SECONDS)
        assert isinstance(wire.master_message(next(answers)), Welcome)
        answers.cancel()


@pytest.mark.parametrize(
    "metadata",
    [(), ((TOKEN_KEY, ""),), ((TOKEN_KEY, "another"),), ((TOKEN_KEY, TOKEN), (TOKEN_KEY, TOKEN))],
    ids=["none", "empty", "wrong", "two"],
)
def test_who_does_not_show_the_token_is_refused(masters: Masters, metadata: tuple[tuple[str, str], ...]) -> None:
    error = refusal(masters, metadata, wire.from_worker(HELLO))
    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert TOKEN not in str(error.details())


@pytest.mark.parametrize(
    "first",
    [
        wire.from_worker(Progress(0, 0)),
        master_pb2.FromWorker(),
        master_pb2.FromWorker(spans=master_pb2.Spans(json="[]")),
    ],
    ids=["another message", "nothing", "spans"],
)
def test_a_stream_that_does_not_begin_with_hello_is_refused(masters: Masters, first: master_pb2.FromWorker) -> None:
    error = refusal(masters, ((TOKEN_KEY, TOKEN),), first)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "a stream begins with Hello"


def test_noise_does_not_disturb_it(masters: Masters) -> None:
    host, _, port = masters.address.rpartition(":")
    for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096)):
        with socket.create_connection((host, int(port)), SECONDS) as connection:
            connection.sendall(noise)
    test_a_worker_with_the_token_is_welcome(masters)


def test_the_health_service_says_that_it_serves(masters: Masters) -> None:
    with grpc.insecure_channel(masters.address, [("grpc.enable_http_proxy", 0)]) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        for service in ("", SERVICE):
            answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=SECONDS)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_second_stream_of_a_worker_ends_the_first(masters: Masters) -> None:
    metadata = ((TOKEN_KEY, TOKEN),)
    with masters.stub() as stub, saying(wire.from_worker(HELLO)) as one, saying(wire.from_worker(HELLO)) as other:
        first = stub.Join(one, metadata=metadata, timeout=SECONDS)
        next(first)
        second = stub.Join(other, metadata=metadata, timeout=SECONDS)
        assert isinstance(wire.master_message(next(second)), Welcome)
        assert list(first) == []
        second.cancel()


def test_the_next_master_deposes_the_one_before(masters: Masters) -> None:
    wait_until(lambda: masters.state.read("machine/names") is not None, SECONDS)
    first_term = masters.state.read(TERM)
    masters.start("master-2")
    assert masters.state.read(TERM) == first_term + 1
    # The first one notices when it has something to decide.
    masters.cluster.kill(masters.folder.path.name, "worker-0")
    wait_until(lambda: masters.exit_code("master-1") is not None, SECONDS)
    assert masters.exit_code("master-1") == 0
    assert "another master has taken over" in masters.folder.log_of("master-1").read_text()
    assert masters.exit_code("master-2") is None
    assert masters.state.read(TERM) == first_term + 1


def fill(descriptor: int) -> None:
    """Write signs of life until the pipe takes no more."""
    os.set_blocking(descriptor, False)
    with suppress(BlockingIOError):
        while True:
            os.write(descriptor, b"\n" * 4096)


def test_a_session_that_does_not_read_holds_nothing_up_and_gets_all_that_counts_in_the_end(job: Masters) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as session:
        fill(writing)
        job.start("master-1", {EVENTS_VARIABLE: writing})
        os.close(writing)
        wait_until(lambda: job.state.read("machine/names") is not None, SECONDS)
        messages = [Message(f"message {number}") for number in range(1000)]
        told = [wire.from_worker(Told(to_json(message))) for message in messages]
        with job.stub() as stub, saying(wire.from_worker(HELLO), *told) as said:
            answers = stub.Join(said, metadata=((TOKEN_KEY, TOKEN),), timeout=SECONDS)
            wait_until(lambda: messages[-1].text in job.folder.events.read_text(), SECONDS)
            job.state.write({CANCEL: {}})
            while not isinstance(wire.master_message(next(answers)), End):
                pass
        job.cluster.kill(job.folder.path.name, "worker-0")
        wait_until(lambda: job.exit_code("master-1") is not None, SECONDS)
        assert job.state.read(STATUS)["state"] == "cancelled"
        *events, last = [
            from_json(line.decode()) for line in (session.read() + take_unread(job.folder)).splitlines() if line
        ]
        assert events == messages
        assert isinstance(last, Failed)
        assert isinstance(last.error, JobCancelled)


def test_servers_are_started_shown_and_ended_with_the_job(masters: Masters) -> None:
    job = masters.folder.path.name
    needy = replace(HELLO, needs=Needs(1, 1000, "{}"))
    with masters.stub() as stub, saying(wire.from_worker(needy)) as said:
        answers = stub.Join(said, metadata=((TOKEN_KEY, TOKEN),), timeout=SECONDS)
        next(answers)
        wait_until(lambda: 'server="ps-0"' in masters.figures(), SECONDS)
        [server] = [status for status in masters.cluster.list(job) if status.role is Role.SERVER]
        assert (server.name, server.phase) == ("ps-0", Phase.RUNNING)
        assert "sqlflow_elastic_server_rows{" in masters.figures()
        masters.state.write({CANCEL: {}})
        wait_until(lambda: masters.exit_code("ps-0") is not None, SECONDS)
        answers.cancel()
    assert masters.exit_code("ps-0") == 0
    masters.cluster.kill(job, "worker-0")
    wait_until(lambda: masters.exit_code("master-1") is not None, SECONDS)
    assert masters.state.read(STATUS)["state"] == "cancelled"


def test_a_server_that_the_cluster_has_no_room_for_ends_the_job(job: Masters) -> None:
    job.state.write({"request": replace(REQUEST, ps_slots=5).to_json()})
    job.start("master-1")
    needy = replace(HELLO, needs=Needs(1, 1000, "{}"))
    with job.stub() as stub, saying(wire.from_worker(needy)) as said:
        answers = stub.Join(said, metadata=((TOKEN_KEY, TOKEN),), timeout=SECONDS)
        while not isinstance(wire.master_message(next(answers)), End):
            pass
    job.cluster.kill(job.folder.path.name, "worker-0")
    wait_until(lambda: job.exit_code("master-1") is not None, SECONDS)
    status = job.state.read(STATUS)
    assert status["state"] == "failed"
    assert "ps-0 could not be started: process ps-0 of job" in status["message"]
    assert "needs 5 slots; there are 4 in all" in status["message"]


def test_its_log_and_its_files_but_one_hold_no_token(masters: Masters) -> None:
    for path in masters.folder.path.rglob("*"):
        if path.is_file() and path != masters.folder.token:
            assert TOKEN.encode() not in path.read_bytes(), path
