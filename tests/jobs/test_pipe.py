"""What a session gets that reads late, slowly or never, and that its job's master waits for it nowhere."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.errors import DataError
from sqlflow_elastic.events import Event, Failed, Message, Metrics, Progress, WorldChanged, from_json, to_json
from sqlflow_elastic.jobs.master.backlog import MOST_SPARE, Backlog, Waiting
from sqlflow_elastic.jobs.pipe import SessionPipe, take_unread

SECONDS = 30.0
WORLD = WorldChanged(1, ("worker-0",), ("worker-0",), (), "worker-0 joined", 0, 0.0)


def waiting(event: Event) -> Waiting:
    return Waiting(event, to_json(event), 0.0)


def training(step: int) -> Metrics:
    return Metrics("train", step, step, {"loss": 0.5})


class Session:
    """A session's end of a pipe, and a master's one.

    Attributes:
        gone: set when the master's end knows that nobody reads any more.
    """

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder
        self.gone = threading.Event()
        self.reading, writing = os.pipe()
        self._ends = [self.reading, writing]
        self._over = False
        self.pipe = SessionPipe(writing, folder, self.gone.set)

    def tell(self, *events: Event) -> None:
        for event in events:
            self.pipe.put(waiting(event))

    def read(self) -> bytes:
        """The master ends; all that was not read before."""
        self.end()
        os.close(self._ends.pop())
        data = b""
        while piece := os.read(self.reading, 1 << 16):
            data += piece
        return data + take_unread(self.folder)

    def end(self) -> None:
        """The master ends."""
        if not self._over:
            self._over = True
            self.pipe.close()

    def leave(self) -> None:
        """The session reads no more."""
        os.close(self._ends.pop(0))

    def close(self) -> None:
        self.end()
        for end in self._ends:
            os.close(end)


def told(data: bytes) -> list[Event]:
    return [from_json(line.decode()) for line in data.splitlines()]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(JobFolder(tmp_path))
    yield session
    session.close()


def test_a_session_that_reads_nothing_until_the_master_has_ended_gets_all_that_counts_in_order(
    session: Session,
) -> None:
    validation = [Metrics("validation", step, step, {"accuracy": 0.9}) for step in range(3)]
    counts = [WORLD, *validation, Message("slow", "warning"), Failed(DataError("row 7: no number"))]
    for part, event in enumerate(counts):
        session.tell(event)
        session.tell(*(training(part * MOST_SPARE + step) for step in range(MOST_SPARE)))
    events = told(session.read())
    trained = [event.step for event in events if isinstance(event, Metrics) and event.split == "train"]
    assert [to_json(event) for event in events if not waiting(event).spare] == [to_json(event) for event in counts]
    assert trained == sorted(trained)
    assert trained[-1] == len(counts) * MOST_SPARE - 1
    assert len(trained) < len(counts) * MOST_SPARE
    assert take_unread(session.folder) == b""


def test_what_a_session_reads_at_once_it_gets_at_once(session: Session) -> None:
    session.tell(Message("hello"))
    assert os.read(session.reading, 1 << 16) == f"{to_json(Message('hello'))}\n".encode()
    session.pipe.beat()
    assert os.read(session.reading, 1 << 16) == b"\n"


def test_a_slow_session_gets_all_through_the_pipe(session: Session) -> None:
    messages = [Message(f"{number} {'x' * 1000}") for number in range(1000)]
    session.tell(*messages)
    data = b""
    while data.count(b"\n") < len(messages):
        data += os.read(session.reading, 1000)
    assert told(data) == messages
    assert session.read() == b""


def test_that_the_session_is_gone_is_known_though_the_pipe_is_full(session: Session) -> None:
    session.tell(*(Message("x" * 1000) for _ in range(1000)))
    assert not session.gone.is_set()
    session.leave()
    assert session.gone.wait(SECONDS)
    session.tell(Message("nobody hears it"))
    session.end()
    assert take_unread(session.folder) == b""


def test_signs_of_life_do_not_pile_up(session: Session) -> None:
    session.tell(*(Message("x" * 1000) for _ in range(1000)))
    for _ in range(1000):
        session.pipe.beat()
    assert b"\n\n" not in session.read()


def test_of_what_waits_for_long_the_whole_way_stays_with_fewer_points() -> None:
    backlog = Backlog()
    for step in range(20 * MOST_SPARE):
        backlog.put(Waiting(training(step), "", 0.0))
        if step % 1000 == 0:
            backlog.put(Waiting(Progress("training", step), "", 0.0))
    backlog.close()
    events = [one.event for one in iter(backlog.take, None)]
    assert len(events) <= MOST_SPARE
    steps = [event.step for event in events if isinstance(event, Metrics)]
    assert steps == sorted(steps)
    assert steps[-1] == 20 * MOST_SPARE - 1
    assert len(steps) > MOST_SPARE // 4
    assert min(steps) < MOST_SPARE
