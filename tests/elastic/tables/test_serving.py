"""The steps of a world at one server: in whatever order members speak, rows are those of steps one after the other."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables.serving import Applied, OutOfStepError, Rows, Steps
from sqlflow_elastic.elastic.tables.snapshots import Snapshots
from sqlflow_elastic.elastic.tables.store import TableStore
from sqlflow_elastic.elastic.tables.table import Table
from sqlflow_elastic.models.tables.spec import TableSpec
from tests.elastic.tables.specs import SGD, table

SPECS = [table((4, 3)), table((5,), SGD, name="u")]
SERVER = "ps-0"
RATES = [(0.1, 0), (0.2, 0)]


def ids_of(rank: int, step: int) -> list[NDArray[np.int64]]:
    """What a member looks up in a step; few different ids, so that they meet again."""
    rng = np.random.default_rng([rank, step])
    return [rng.choice(spec.rows, rng.integers(0, spec.rows + 1), replace=False) for spec in SPECS]


def gradients_of(rank: int, step: int, rows: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """That depend on the rows, as they do in training."""
    return [np.sin(each + rank + step) for each in rows]


def undisturbed(members: Sequence[int]) -> list[NDArray[Any]]:
    """All rows after one step after the other, each of so many members, without any server."""
    tables = [Table(spec) for spec in SPECS]
    for step, size in enumerate(members, 1):
        positions = [[each.find(ids) for each, ids in zip(tables, ids_of(r, step), strict=True)] for r in range(size)]
        gradients = [
            gradients_of(r, step, [t.read(own) for t, own in zip(tables, positions[r], strict=True)])
            for r in range(size)
        ]
        for i, each in enumerate(tables):
            each.update([p[i] for p in positions], [g[i] for g in gradients], *RATES[i])
    return [each.peek(np.arange(each.spec.rows)) for each in tables]


def stand(store: TableStore, step: int, specs: Sequence[TableSpec] = SPECS) -> None:
    store.stand_at(step, specs, [SERVER], new=step == 0)


def new_store(folder: Path) -> TableStore:
    store = TableStore(SERVER, Snapshots(folder, SERVER))
    stand(store, 0)
    return store


class Member:
    """A member that takes steps in calls: it looks ahead within a call only.

    Attributes:
        done: steps that it knows to be applied.
    """

    def __init__(self, rank: int, steps: Steps, done: int, last: int, calls: Sequence[int]) -> None:
        self.rank, self.done = rank, done
        self._steps, self._last = steps, last
        self._calls = deque(calls)
        self._stop = done
        self._pushed = self._wanted = done
        self._rows: dict[int, list[NDArray[Any]]] = {}
        self._lacking: dict[int, list[NDArray[np.bool_]]] = {}
        self._next_call()

    @property
    def can_speak(self) -> bool:
        """Whether there is something to say now."""
        return self._wanted < min(self._stop, self._pushed + 2) or self._can_push

    @property
    def _can_push(self) -> bool:
        step = self._pushed + 1
        return self.done == self._pushed and step <= self._wanted and not any(map(np.any, self._lacking[step]))

    def speak(self) -> list[Applied | Rows]:
        if self._wanted < min(self._stop, self._pushed + 2):
            return list(self._want())
        step = self._pushed = self._pushed + 1
        early = self._want() if self._wanted < min(self._stop, step + 2) else []
        return [*early, *self._steps.push(self.rank, step, gradients_of(self.rank, step, self._rows[step]), RATES)]

    def hear(self, said: Applied | Rows) -> None:
        if isinstance(said, Applied):
            assert said.step == self.done + 1
            self.done = said.step
            if self.done == self._stop:
                self._next_call()
        elif said.rank == self.rank:
            lacking = self._lacking[said.step]
            chosen = lacking
            if said.early is not None:
                chosen = np.split(said.early, np.cumsum([len(each) for each in lacking])[:-1])
            for i, rows in enumerate(said.rows):
                assert lacking[i][chosen[i]].all(), "twice"
                self._rows[said.step][i][chosen[i]] = rows
            self._lacking[said.step] = [each & ~c for each, c in zip(lacking, chosen, strict=True)]

    def _want(self) -> list[Rows]:
        self._wanted += 1
        ids = ids_of(self.rank, self._wanted)
        self._rows[self._wanted] = [np.full((len(i), s.width), np.nan) for i, s in zip(ids, SPECS, strict=True)]
        self._lacking[self._wanted] = [np.ones(len(each), np.bool_) for each in ids]
        return self._steps.want(self.rank, self._wanted, ids)

    def _next_call(self) -> None:
        self._stop = min(self._last, self.done + (self._calls.popleft() if self._calls else 2))


Calls = st.lists(st.integers(1, 6), max_size=4)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_members_that_speak_in_any_order_and_worlds_that_break_anywhere_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = new_store(tmp_path_factory.mktemp("tables"))
    last = data.draw(st.integers(1, 8), "steps")
    members: list[int] = []
    while store.step < last:
        size = data.draw(st.integers(1, 3), "size")
        begun = store.step
        steps = Steps(store, size)
        world = [Member(rank, steps, begun, last, data.draw(Calls, "calls")) for rank in range(size)]
        waiting: list[deque[Applied | Rows]] = [deque() for _ in world]
        left = data.draw(st.none() | st.integers(0, 60), "messages until it breaks")
        speeds = data.draw(st.lists(st.sampled_from([1, 4, 30]), min_size=size, max_size=size), "speeds")
        chance = random.Random(data.draw(st.integers(0, 2**32), "order"))
        while left != 0 and any(member.done < last for member in world):
            ready = [rank for rank in range(size) if world[rank].can_speak or waiting[rank]]
            rank = chance.choices(ready, [speeds[rank] for rank in ready])[0]
            if world[rank].can_speak and (not waiting[rank] or chance.random() < 0.5):
                for said in world[rank].speak():
                    for queue in waiting:
                        queue.append(said)
            else:
                world[rank].hear(waiting[rank].popleft())
            left = None if left is None else left - 1
        members += [size] * (store.step - len(members))
        # Some of the members go on, from where the furthest of them is.
        survivors = data.draw(st.sets(st.sampled_from(range(size)), min_size=1), "survivors")
        step = max(world[rank].done for rank in survivors)
        assert store.step in (step, step + 1)
        if step < last:
            stand(store, step)
            assert store.step == step
            del members[step:]
    whole = [each.peek(np.arange(each.spec.rows)) for each in store.tables]
    for own, right in zip(whole, undisturbed(members), strict=True):
        np.testing.assert_array_equal(own, right)


def test_a_member_that_asks_late_takes_no_mark_of_a_later_step_away(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    steps = Steps(store, 2)
    one = [np.array([1]), np.array([], np.int64)]
    other = [np.array([2]), np.array([], np.int64)]

    def push(rank: int, step: int) -> list[Applied | Rows]:
        return steps.push(rank, step, [np.ones((1, 4)), np.zeros((0, 4))], RATES)

    steps.want(0, 1, other)
    steps.want(0, 2, other)
    push(0, 1)
    steps.want(0, 3, one)  # for which step 4 has to wait
    steps.want(1, 1, one)
    steps.want(1, 2, other)
    push(1, 1)
    steps.want(1, 3, other)
    push(0, 2)
    steps.want(0, 4, one)
    assert [said for said in push(1, 2) if isinstance(said, Rows) and said.step == 4] == []


def test_rows_that_the_next_step_leaves_alone_go_out_early(tmp_path: Path) -> None:
    steps = Steps(new_store(tmp_path), 1)
    none = np.array([], np.int64)
    steps.want(0, 1, [np.array([0]), none])
    steps.want(0, 2, [np.array([1, 2]), none])
    steps.want(0, 3, [np.array([2, 3]), none])
    applied, due, early = steps.push(0, 1, [np.ones((1, 4)), np.zeros((0, 4))], RATES)
    assert applied == Applied(1)
    assert isinstance(due, Rows)
    assert due.step == 2
    assert due.early is None
    assert not due.late
    assert isinstance(early, Rows)
    assert early.step == 3
    assert early.early is not None
    assert early.early.tolist() == [False, True]
    _, rest = steps.push(0, 2, [np.ones((2, 4)), np.zeros((0, 4))], RATES)
    assert isinstance(rest, Rows)
    assert rest.step == 3
    assert rest.late
    assert len(rest.rows[0]) == 1


@pytest.mark.parametrize("step", [0, 4])
def test_rows_for_another_step_are_not_to_be_had(tmp_path: Path, step: int) -> None:
    with pytest.raises(OutOfStepError):
        Steps(new_store(tmp_path), 1).want(0, step, ids_of(0, 1))


def test_what_is_out_of_step_changes_nothing(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    steps = Steps(store, 2)
    ids = [np.array([1]), np.array([0])]
    gradients = [np.ones((1, 4)), np.ones((1, 4))]
    steps.want(0, 1, ids)
    with pytest.raises(OutOfStepError):
        steps.want(0, 1, ids)
    with pytest.raises(OutOfStepError):
        steps.push(1, 1, gradients, RATES)  # it wanted nothing
    with pytest.raises(OutOfStepError):
        steps.push(0, 2, gradients, RATES)
    with pytest.raises(OutOfStepError):
        steps.push(0, 1, [gradients[0], np.ones((2, 4))], RATES)
    assert steps.push(0, 1, gradients, RATES) == []
    with pytest.raises(OutOfStepError):
        steps.push(0, 1, gradients, RATES)
    assert store.step == 0
