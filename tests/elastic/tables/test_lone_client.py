"""Workers that take steps alone, with real servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sqlflow_elastic.elastic.comm import WorldBroken
from sqlflow_elastic.elastic.tables import server as server_module
from sqlflow_elastic.elastic.tables.lone_client import LoneSession, join
from tests.elastic.tables.servers import SECONDS, TOKEN, Servers, running
from tests.elastic.tables.specs import SGD, table

SPECS = [table((40, 30), SGD), table((6,), name="d", dense=True)]
NONE = np.array([], np.int64)
ALL = [np.arange(70), NONE]
RATES = [(0.5, 0), (0.5, 0)]


def joined(
    servers: Servers, worker: str = "worker-0", *, version: int = 1, staleness: int = 2, deadline: float = SECONDS
) -> LoneSession:
    at = [(name, servers[name].address) for name in servers.names]
    return join(TOKEN, at, SPECS, version, worker, staleness, seconds=SECONDS, deadline=deadline)


def ones(count: int) -> list[np.ndarray]:
    return [np.ones((count, 4)), np.ones((0, 4))]


@pytest.mark.parametrize("names", [["ps-0"], ["ps-0", "ps-1", "ps-2"]], ids=len)
def test_steps_are_applied_and_answered_in_the_order_of_ids(tmp_path: Path, names: list[str]) -> None:
    ids = np.random.default_rng(0).permutation(70)[:30]
    with running(tmp_path, *names) as servers, joined(servers) as session:
        before = session.peek(ALL)[0]
        first = session.exchange(want=[ids, NONE])[0]
        np.testing.assert_array_equal(first, before[ids])
        gradients = ids[:, None] * np.ones((30, 4))
        again = session.exchange([gradients, np.ones((0, 4))], RATES, [ids[::-1].copy(), NONE])[0]
        np.testing.assert_array_equal(again, (first - 0.5 * gradients)[::-1])
        nothing = session.exchange(ones(30), RATES)
        assert [each.shape for each in nothing] == [(0, 4), (0, 4)]
        np.testing.assert_array_equal(session.peek([ids, NONE])[0], first - 0.5 * gradients - 0.5)


def test_gradients_of_no_rows_are_a_mistake(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers, joined(servers) as session, pytest.raises(RuntimeError):
        session.exchange(ones(1), RATES)


def test_dense_tables_begin_with_what_the_first_one_says(tmp_path: Path) -> None:
    dense = [NONE, np.arange(6)]
    with running(tmp_path, "ps-0", "ps-1") as servers, joined(servers) as one, joined(servers, "worker-1") as other:
        one.assign(1, dense[1], np.full((6, 4), 3.0))
        np.testing.assert_array_equal(one.exchange(want=dense)[1], 3.0)
        other.assign(1, dense[1], np.full((6, 4), 4.0))
        np.testing.assert_array_equal(other.exchange(want=dense)[1], 3.0)


def test_all_that_workers_push_at_the_same_time_counts(tmp_path: Path) -> None:
    steps, ids = 40, [np.arange(0, 70, 7), NONE]
    with running(tmp_path, "ps-0", "ps-1") as servers, ThreadPoolExecutor(3) as threads:

        def work(number: int) -> None:
            with joined(servers, f"worker-{number}") as session:
                rows = session.exchange(want=ids)
                for _ in range(steps):
                    rows = session.exchange(ones(len(rows[0])), RATES, ids)

        with joined(servers) as session:
            before = session.peek(ids)[0]
            list(threads.map(work, range(1, 4)))
            np.testing.assert_allclose(session.peek(ids)[0], before - 0.5 * 3 * steps)


@pytest.mark.parametrize("end", [LoneSession.idle, LoneSession.close, LoneSession.exchange], ids=lambda f: f.__name__)
def test_one_that_is_ahead_waits_until_the_slowest_goes_on_or_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[LoneSession], object]
) -> None:
    monkeypatch.setattr(server_module, "COMFORT_SECONDS", 0.0)
    ids = [np.array([1]), NONE]
    with (
        running(tmp_path, "ps-0", "ps-1") as servers,
        ThreadPoolExecutor(1) as threads,
        joined(servers, "quick", deadline=1.0) as quick,
        joined(servers, "slow") as slow,
    ):
        for session in (quick, slow):
            session.exchange(want=ids)
        slow.exchange(ones(1), RATES, ids)
        for _ in range(2):
            quick.exchange(ones(1), RATES, ids)
        ahead = threads.submit(quick.exchange, ones(1), RATES, ids)
        # To be kept waiting for longer than the deadline is no reason to give up.
        with pytest.raises(TimeoutError):
            ahead.result(1.3)
        if end is LoneSession.exchange:
            slow.exchange(ones(1), RATES, ids)
        else:
            end(slow)
        assert ahead.result(SECONDS)[0].shape == (1, 4)


def test_a_successor_has_the_rows_of_the_last_snapshot_and_the_others_stay_as_they_are(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0", "ps-1") as servers:
        with joined(servers) as session:
            saved = session.exchange(want=ALL)[0] - 0.5
            session.exchange(ones(70), RATES, ALL)
            session.snapshot(10)
            session.exchange(ones(70), RATES)
            servers.stop("ps-0")
            with pytest.raises(WorldBroken):
                session.exchange(want=ALL)
        at = servers["ps-1"].address
        servers.start("ps-2")
        order = [("ps-2", servers["ps-2"].address), ("ps-1", at)]
        with join(TOKEN, order, SPECS, 2, "worker-0", 2, seconds=SECONDS) as session:
            rows = session.peek(ALL)[0]
            old, new = (rows == saved).all(1), (rows == saved - 0.5).all(1)
            assert (old ^ new).all()
            assert old.any()
            assert new.any()
            assert new.sum() == servers["ps-1"].store.rows
            session.snapshot(20)
            assert session.snapshot_step == 20


def test_who_knows_of_other_servers_is_sent_away(tmp_path: Path) -> None:
    with (
        running(tmp_path, "ps-0") as servers,
        joined(servers, version=1) as early,
        joined(servers, "worker-1", version=2) as session,
    ):
        with pytest.raises(WorldBroken):
            early.exchange(want=ALL)
        with pytest.raises(WorldBroken, match="over"):
            joined(servers, version=1)
        session.exchange(want=ALL)


def test_a_worker_that_comes_again_takes_the_place_of_itself(tmp_path: Path) -> None:
    with running(tmp_path, "ps-0") as servers, joined(servers) as lost:
        lost.exchange(want=ALL)
        with joined(servers) as session:
            session.exchange(want=ALL)
            with pytest.raises(WorldBroken):
                lost.exchange(ones(70), RATES)
            session.exchange(ones(70), RATES)


def test_an_abort_ends_what_is_kept_waiting(tmp_path: Path) -> None:
    ids: Sequence[np.ndarray] = [np.array([1]), NONE]
    with running(tmp_path, "ps-0") as servers, joined(servers, "a", staleness=0) as a, joined(servers, "b") as b:
        for session in (a, b):
            session.exchange(want=ids)
        b.exchange(ones(1), RATES, ids)
        threading.Timer(0.05, a.abort, ["it ends"]).start()
        with pytest.raises(WorldBroken, match="it ends"):
            a.exchange(ones(1), RATES, ids)
