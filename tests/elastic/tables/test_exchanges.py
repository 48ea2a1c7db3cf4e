"""Steps that wait for nobody: applied as they come, and nobody too far ahead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlflow_elastic.elastic.tables.clocks import Clocks
from sqlflow_elastic.elastic.tables.exchanges import Exchanges, Given
from sqlflow_elastic.elastic.tables.serving import OutOfStepError
from sqlflow_elastic.elastic.tables.snapshots import Snapshots
from sqlflow_elastic.elastic.tables.store import TableStore
from tests.elastic.tables.specs import SGD, table

WORKERS = ["a", "b", "c"]
RATES = [(0.5, 0), (0.5, 0)]
SPECS = [table((10,), SGD), table((4,), SGD, name="d", dense=True)]
NONE = np.array([], np.int64)


def new_store(folder: Path) -> TableStore:
    store = TableStore("ps-0", Snapshots(folder, "ps-0"))
    store.stand_alone(SPECS, ["ps-0"])
    return store


def row(number: int) -> list[np.ndarray]:
    return [np.array([number]), NONE]


def ones() -> list[np.ndarray]:
    return [np.ones((1, 4)), np.ones((0, 4))]


def test_whoever_comes_stands_where_the_slowest_is() -> None:
    clocks = Clocks(2)
    for _ in range(3):
        clocks.stepped("a")
    assert clocks.may_go_on("a")  # alone
    clocks.stepped("b")
    for _ in range(4):
        assert clocks.may_go_on("a")
        clocks.stepped("a")
    assert not clocks.may_go_on("a")
    clocks.rests("b")
    assert clocks.may_go_on("a")


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 3), st.lists(st.tuples(st.sampled_from(WORKERS), st.booleans()), max_size=60))
def test_nobody_gets_further_ahead_than_it_may_and_somebody_always_goes_on(
    tmp_path_factory: pytest.TempPathFactory, staleness: int, doings: list[tuple[str, bool]]
) -> None:
    exchanges = Exchanges(new_store(tmp_path_factory.mktemp("tables")), staleness)
    steps: dict[str, int] = {}
    waits: set[str] = set()

    def hear(given: list[Given]) -> None:
        for each in given:
            waits.remove(each.worker)
            if each.worker in steps:
                assert steps[each.worker] - min(steps.values()) <= staleness

    for worker, rests in doings:
        if rests:
            steps.pop(worker, None)
            waits.discard(worker)
            hear(exchanges.rests(worker))
        elif worker not in waits:
            try:
                exchanges.counts(worker)
            except OutOfStepError:
                pass
            else:
                steps[worker] = 1 + steps.get(worker, min(steps.values(), default=0))
                hear(exchanges.apply(worker, ones(), RATES))
            waits.add(worker)
            hear(exchanges.look_up(worker, 1, row(3)))
        assert set(exchanges.held) == waits
        assert not waits or waits < set(steps)


def test_what_one_pushed_the_next_one_gets(tmp_path: Path) -> None:
    exchanges = Exchanges(new_store(tmp_path), None)
    (first,) = exchanges.look_up("a", 1, row(3))
    exchanges.look_up("b", 1, row(3))
    assert exchanges.apply("a", ones(), RATES) == []
    exchanges.apply("b", ones(), RATES)
    (after,) = exchanges.look_up("b", 2, row(3))
    np.testing.assert_array_equal(after.rows[0], first.rows[0] - 0.5 - 0.5)
    assert exchanges.look_up("a", 2, None) == [Given("a", 2, [])]


def test_the_first_who_gives_rows_counts(tmp_path: Path) -> None:
    exchanges = Exchanges(new_store(tmp_path), None)
    ids = [NONE, np.array([0, 2])]
    with pytest.raises(OutOfStepError, match="never given"):
        exchanges.look_up("a", 1, ids)
    exchanges.assign(ids, [np.empty((0, 4)), np.full((2, 4), 7.0)])
    exchanges.assign([NONE, np.array([2, 3])], [np.empty((0, 4)), np.full((2, 4), 8.0)])
    (given,) = exchanges.look_up("a", 1, [NONE, np.array([0, 2, 3])])
    assert given.rows[1][:, 0].tolist() == [7.0, 7.0, 8.0]


def test_gradients_of_nothing_and_of_what_is_kept_back_are_refused(tmp_path: Path) -> None:
    exchanges = Exchanges(new_store(tmp_path), 0)
    with pytest.raises(OutOfStepError):
        exchanges.apply("a", ones(), RATES)
    for worker in ("a", "b"):
        exchanges.look_up(worker, 1, row(1))
    exchanges.apply("b", ones(), RATES)
    exchanges.look_up("b", 2, row(1))
    exchanges.apply("a", ones(), RATES)
    assert exchanges.look_up("a", 2, row(1)) == []
    with pytest.raises(OutOfStepError):
        exchanges.apply("a", ones(), RATES)
    assert [each.worker for each in exchanges.apply("b", ones(), RATES)] == ["a"]
