"""A server and who talks to it: members of worlds, members of other worlds, and strangers."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqlflow_elastic.elastic.comm import WorldBroken, address
from sqlflow_elastic.elastic.comm.base import Place
from sqlflow_elastic.elastic.comm.handshake import CHALLENGE_BYTES, HELLO_BYTES
from sqlflow_elastic.elastic.tables import server as server_module
from sqlflow_elastic.elastic.tables.client import Session
from sqlflow_elastic.elastic.tables.link import Link
from sqlflow_elastic.elastic.tables.manifests import complete_steps
from sqlflow_elastic.elastic.tables.wire import Header, Kind, message
from sqlflow_elastic.errors import JobError
from tests.elastic.tables.servers import SECONDS, TOKEN, Servers, running
from tests.elastic.tables.specs import table

SPECS = [table()]
IDS = [np.array([3, 40, 7])]


def step(session: Session, by: float = 1.0) -> None:
    session.want(IDS)
    session.push([np.full_like(rows, by) for rows in session.rows()], [(0.1, 0)])
    session.applied()


def dial(servers: Servers, name: str, place: Place) -> Link:
    return Link.dial(name, servers[name].address, TOKEN, place, SECONDS, SECONDS)


def said(link: Link) -> Header:
    return link.next(time.monotonic() + SECONDS)[0]


def stranger(servers: Servers, name: str) -> socket.socket:
    family, where = address.parse(servers[name].address)
    connection = socket.socket(family)
    connection.settimeout(SECONDS)
    connection.connect(where)
    assert len(connection.recv(CHALLENGE_BYTES)) == CHALLENGE_BYTES
    return connection


def closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_stranger_is_dropped_and_delays_nobody(tmp_path: Path) -> None:
    with (
        running(tmp_path, "ps-0") as servers,
        servers.enter(SPECS) as session,
        stranger(servers, "ps-0") as silent,
        stranger(servers, "ps-0") as liar,
    ):
        liar.sendall(bytes(HELLO_BYTES))
        assert closed(liar)
        step(session)
        silent.sendall(b"x")
        step(session)


def test_of_strangers_only_so_many_are_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_STRANGERS", 3)
    with running(tmp_path, "ps-0") as servers, servers.enter(SPECS) as session:
        first, *others = [stranger(servers, "ps-0") for _ in range(4)]
        assert closed(first)
        step(session)
        for connection in (first, *others):
            connection.close()


def test_a_silent_stranger_is_not_heard_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "STRANGER_SECONDS", 0.0)
    with running(tmp_path, "ps-0") as servers, stranger(servers, "ps-0") as silent:
        assert closed(silent)


@pytest.mark.parametrize(
    "nonsense",
    [
        message(Kind.WANT, 1, [np.array([2**40], np.int64)]),
        message(Kind.WANT, 1, [np.array([1], np.int64), np.array([10**6], np.int32)]),
        message(Kind.WANT, 7, [np.array([0], np.int64)]),
        message(Kind.PUSH, 1, [np.array([0.1]), np.array([0])]),
        message(Kind.SNAPSHOT, 5),
        message(Kind.READY, 0),
        [memoryview(b"\xff" * 24)],
    ],
    ids=[
        "more ids than came",
        "an unknown id",
        "a far step",
        "rows nobody asked for",
        "a far snapshot",
        "odd",
        "noise",
    ],
)
def test_a_member_that_makes_no_sense_ends_its_world_and_not_the_server(
    tmp_path: Path, nonsense: list[memoryview]
) -> None:
    with running(tmp_path, "ps-0") as servers:
        with servers.enter(SPECS, size=2) as other, closing(dial(servers, "ps-0", Place(1, 1, 2, ""))) as link:
            link.send(message(Kind.ENTER, 0, [json.dumps({"root": False}).encode()]))
            assert said(link).kind is Kind.READY
            link.send(nonsense)
            other.want(IDS)
            with pytest.raises(WorldBroken):
                step(other)
        with servers.enter(SPECS, version=2) as session:
            step(session)


def test_members_may_save_after_one_has_left_but_take_no_more_steps(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers, servers.enter(SPECS, size=2) as stays:
        with servers.enter(SPECS, rank=1, size=2) as leaves:
            for member in (stays, leaves):
                member.want(IDS)
                member.push([np.ones_like(rows) for rows in member.rows()], [(0.1, 0)])
            stays.applied()
            leaves.applied()
        for _ in range(2):  # after the first answer the server has seen the other one go
            stays.peek(IDS)
        stays.snapshot(1)
        stays.want(IDS)
        with pytest.raises(WorldBroken):
            stays.rows()
    assert complete_steps(tmp_path) == {1}


def test_who_waits_for_one_that_leaves_sees_it_at_once(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers, servers.enter(SPECS, size=2) as stays:
        with servers.enter(SPECS, rank=1, size=2):
            stays.want(IDS)
            stays.push([np.ones_like(rows) for rows in stays.rows()], [(0.1, 0)])
            stays.peek(IDS)
        with pytest.raises(WorldBroken, match="closed"):
            stays.applied()


@pytest.mark.parametrize(
    "words", [{"root": True}, {"worker": "a"}, {"worker": "a", "specs": [], "servers": ["ps-0"]}, []]
)
def test_who_says_too_little_on_entering_is_dropped(tmp_path: Path, words: Any) -> None:
    with running(tmp_path, "ps-0") as servers:
        with closing(dial(servers, "ps-0", Place(1, 0, 1, ""))) as link:
            link.send(message(Kind.ENTER, 0, [json.dumps(words).encode()]))
            with pytest.raises(WorldBroken):
                said(link)
        with servers.enter(SPECS, version=2) as session:
            step(session)


def test_members_of_a_world_that_is_over_are_refused(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers, servers.enter(SPECS, version=3) as session:
        for root in (True, False):
            with pytest.raises(WorldBroken, match="over"):
                servers.enter(SPECS, version=2, root=root)
        step(session)


def test_a_later_world_ends_the_one_that_is_under_way(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers, servers.enter(SPECS) as session:
        step(session)
        with servers.enter(SPECS, version=2, step=1) as later:
            with pytest.raises(WorldBroken):
                step(session)
            step(later)


def test_members_wait_for_the_root_though_it_first_comes_alone(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers, ThreadPoolExecutor(1) as threads:
        with closing(dial(servers, "ps-0", Place(1, 1, 2, ""))) as link:
            link.send(message(Kind.ENTER, 0, [json.dumps({"root": False}).encode()]))
            with servers.enter(SPECS) as alone:
                alone.snapshot(0)
            assert list(link.read()) == []
            with servers.enter(SPECS, size=2):
                assert said(link).kind is Kind.READY
        other = threads.submit(servers.enter, SPECS, version=2, rank=1, size=2)
        with servers.enter(SPECS, version=2, size=2), other.result(SECONDS):
            pass


def test_a_snapshot_that_is_not_there_is_for_the_user_to_know(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers:
        with pytest.raises(JobError, match="ps-0: there is no snapshot of all tables after step 7"):
            servers.enter(SPECS, step=7)
        with servers.enter(SPECS, version=2) as session:
            step(session)


def test_what_a_survivor_has_not_got_is_taken_back_however_many_worlds_begin_before(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers:
        with servers.enter(SPECS) as session:
            step(session, 1.0)
            before = session.peek(IDS)
            step(session, 2.0)
        # The root of a world knows of the step, and dies before others have it from there.
        servers.enter(SPECS, version=2, step=2).close()
        with servers.enter(SPECS, version=3, step=1) as session:
            np.testing.assert_array_equal(session.peek(IDS)[0], before[0])


def test_a_step_that_was_taken_back_is_in_no_snapshot(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers:
        with servers.enter(SPECS) as session:
            step(session)
            before = session.peek(IDS)
            session.snapshot(1)
            step(session, 2.0)
            session.snapshot(2)
        with servers.enter(SPECS, version=2, step=1) as session:
            session.snapshot(1)
        servers.stop("ps-0")
        servers.start("ps-0")
        with servers.enter(SPECS, version=3, step=1) as session:
            np.testing.assert_array_equal(session.peek(IDS)[0], before[0])


def test_rows_that_cannot_be_read_leave_nothing_that_passes_for_them(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers:
        with servers.enter(SPECS) as session:
            step(session)
            before = session.peek(IDS)
            session.snapshot(1)
        servers.start("ps-1")
        step_folder = next(tmp_path.glob("step-*1"))
        aside = step_folder.rename(tmp_path / "aside")
        with pytest.raises(JobError):
            servers.enter(SPECS, version=2, step=1)
        aside.rename(step_folder)
        servers.stop("ps-1")
        with servers.enter(SPECS, version=3, step=1) as session:
            np.testing.assert_array_equal(session.peek(IDS)[0], before[0])


def test_a_slow_reader_holds_up_nobody_else(tmp_path: Path) -> None:
    spec = table((200_000,))
    many = [np.arange(200_000)]
    with (
        running(tmp_path, "ps-0") as servers,
        closing(dial(servers, "ps-0", Place(1, 1, 2, ""))) as slow,
        servers.enter([spec], size=2) as quick,
    ):
        slow.send(message(Kind.ENTER, 0, [json.dumps({"root": False}).encode()]))
        assert said(slow).kind is Kind.READY
        count, ids = np.array([len(many[0])], np.int64), many[0].astype(np.int32)
        for number in range(5):  # far more than the kernel holds; nobody takes it
            slow.send(message(Kind.PEEK, number, [count, ids]))
        assert quick.peek(many)[0].shape == (200_000, 4)
        for number in range(5):
            header = said(slow)
            assert (header.kind, header.step) == (Kind.PEEKED, number)


def test_a_server_that_is_closed_ends_all_sessions(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers, servers.enter(SPECS) as session:
        server = servers["ps-0"]
        servers.stop("ps-0")
        server.close()
        with pytest.raises(WorldBroken):
            step(session)
