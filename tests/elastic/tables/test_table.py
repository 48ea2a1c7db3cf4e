"""Rows at a server: drawn, taken back, named where they changed, dropped with their shards."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables.sharding import SHARDS, owners, shards_of
from sqlflow_elastic.elastic.tables.table import Table
from sqlflow_elastic.models.tables.initial import first_rows
from sqlflow_elastic.models.tables.spec import Distribution, Initial, Part, Range, TableSpec
from tests.elastic.tables.specs import SGD, table


def test_a_row_begins_the_same_whenever_and_wherever() -> None:
    spec = table()
    one, other = Table(spec), Table(spec)
    ids = np.arange(spec.rows)
    whole = one.read(one.find(ids))
    for each in np.random.default_rng(0).permutation(spec.rows):
        np.testing.assert_array_equal(other.read(other.find(np.array([each])))[0], whole[each])
    np.testing.assert_array_equal(first_rows(spec, ids), whole)
    np.testing.assert_array_equal(Table(spec).peek(ids), whole)
    assert len(np.unique(whole)) == whole.size


@pytest.mark.parametrize("distribution", Distribution)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_servers_draw_what_a_worker_would_draw(distribution: Distribution, dtype: str) -> None:
    parts = [Part(5, Initial(distribution, -0.3, 0.7), 2), Part(1, Initial(Distribution.CONSTANT, 0.5), 3)]
    spec = TableSpec("t", (Range("r", 3_000, tuple(parts)), Range("s", 2_000, tuple(parts[:2]))), SGD, dtype, 5)
    ids = np.random.default_rng(0).permutation(5_000)
    drawn = Table(spec)
    np.testing.assert_array_equal(drawn.read(drawn.find(ids)), first_rows(spec, ids))


def test_an_update_can_be_taken_back() -> None:
    served = Table(table())
    ids = np.array([3, 70, 41])
    positions = served.find(ids)
    before = served.whole(positions)
    undo = served.update([positions[:2], positions[1:]], [np.ones((2, 4)), np.ones((2, 4))], 0.1, 0)
    assert sorted(served.ids_at(undo.positions)) == [3, 41, 70]
    assert not np.array_equal(served.whole(positions), before)
    served.take_changed()
    served.undo(undo)
    np.testing.assert_array_equal(served.whole(positions), before)
    # Whoever has copied the rows since the update has them wrong now.
    assert served.take_changed().tolist() == sorted(undo.positions)


def test_what_has_changed_is_named_once() -> None:
    served = Table(table())
    positions = served.find(np.array([1, 2, 3]))
    assert served.take_changed().tolist() == positions.tolist()
    assert len(served.take_changed()) == 0
    served.update([positions[1:2]], [np.ones((1, 4))], 0.1, 0)
    assert served.take_changed().tolist() == [positions[1]]


def test_rows_of_other_shards_are_dropped() -> None:
    spec = table((400,))
    served = Table(spec)
    ids = np.arange(400)
    positions = served.find(ids)
    served.update([positions], [np.random.default_rng(0).normal(size=(400, 4))], 0.1, 0)
    whole = served.whole(positions)
    mask = np.zeros(SHARDS, np.bool_)
    mask[: SHARDS // 2] = True
    served.keep(mask)
    kept = mask[shards_of(ids)]
    assert len(served) == kept.sum()
    assert (served.where(ids) >= 0).tolist() == kept.tolist()
    np.testing.assert_array_equal(served.whole(served.where(ids[kept])), whole[kept])


def new_rows(spec: TableSpec, ids: NDArray[np.int64]) -> NDArray[Any]:
    served = Table(spec)
    return served.whole(served.find(ids))


def test_rows_that_are_kept_go_on_as_they_were() -> None:
    spec = table((200_000,))
    served = Table(spec)
    ids = np.random.default_rng(0).permutation(150_000)
    positions = served.find(ids)
    served.update([positions[::3]], [np.ones((50_000, 4))], 0.1, 0)
    served.take_changed()
    served.update([positions[::5]], [np.ones((30_000, 4))], 0.1, 1)
    rows, changed = served.whole(positions), set(ids[::5])
    mask = np.random.default_rng(1).random(SHARDS) < 0.4
    served.keep(mask)
    kept = mask[shards_of(ids)]
    # In the order of their first touch, without gaps.
    assert served.where(ids[kept]).tolist() == list(range(len(served)))
    np.testing.assert_array_equal(served.whole(served.where(ids[kept])), rows[kept])
    assert set(served.ids_at(served.take_changed())) == changed & set(ids[kept])
    # A row that was dropped begins again, and so do new ones.
    every = np.arange(200_000)
    fresh = np.concatenate([ids[~kept], every[150_000:]])
    np.testing.assert_array_equal(served.whole(served.find(fresh)), new_rows(spec, fresh))


def test_all_rows_or_none_can_be_kept() -> None:
    served = Table(table((400,)))
    ids = np.arange(400)
    positions = served.find(ids)
    rows = served.whole(positions)
    served.keep(np.ones(SHARDS, np.bool_))
    np.testing.assert_array_equal(served.whole(served.where(ids)), rows)
    served.keep(np.zeros(SHARDS, np.bool_))
    assert len(served) == 0
    assert set(served.where(ids)) == {-1}
    assert len(served.take_changed()) == 0


def test_rows_of_a_dense_table_are_given() -> None:
    served = Table(table((10,), dense=True))
    for _ in range(2):  # asking makes none
        with pytest.raises(ValueError, match="given, not drawn"):
            served.find(np.array([3]))
    whole = np.arange(8.0).reshape(1, 8)
    served.put(np.array([3]), whole)
    np.testing.assert_array_equal(served.whole(served.find(np.array([3]))), whole)
    with pytest.raises(ValueError, match="given, not drawn"):
        served.find(np.array([3, 4]))


def test_looking_at_rows_makes_none() -> None:
    spec = table()
    served = Table(spec)
    positions = served.find(np.array([5, 60]))
    served.update([positions], [np.ones((2, 4))], 0.1, 0)
    ids = np.array([60, 7, 5, 79])
    seen = served.peek(ids)
    assert len(served) == 2
    np.testing.assert_array_equal(seen[[0, 2]], served.read(served.where(ids[[0, 2]])))
    np.testing.assert_array_equal(seen[[1, 3]], first_rows(spec, ids[[1, 3]]))


def test_ids_beyond_the_table_are_refused() -> None:
    served = Table(table((10,)))
    for wrong in (-1, 10):
        with pytest.raises(ValueError, match="not in"):
            served.find(np.array([wrong]))


def test_shards_move_with_their_server_only() -> None:
    names = [f"ps-{i}" for i in range(5)]
    before = np.array(names)[owners(names)]
    more = np.array([*names, "ps-5"])[owners([*names, "ps-5"])]
    assert set(more[before != more]) == {"ps-5"}
    fewer = np.array(names[1:])[owners(names[1:])]
    assert set(before[before != fewer]) == {"ps-0"}
    assert np.bincount(owners(names)).min() > SHARDS / 5 * 0.6


@pytest.mark.parametrize("step", [1, 2, 256, 1000, 2**20])
def test_shards_have_about_as_many_ids_each_whatever_their_pattern(step: int) -> None:
    counts = np.bincount(shards_of(np.arange(0, 100_000 * step, step)), minlength=SHARDS)
    assert counts.max() < 2 * 100_000 / SHARDS
    assert counts.min() > 0.5 * 100_000 / SHARDS


def test_a_spec_travels_as_json() -> None:
    spec = table()
    data: Any = json.loads(json.dumps(spec.to_json()))
    assert TableSpec.from_json(data) == spec
