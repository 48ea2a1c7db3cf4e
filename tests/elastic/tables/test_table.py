"""Rows at a server: drawn, updated as Keras does, taken back, and no larger than they are many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from sqlflow_elastic.elastic.tables.optimizers import row_optimizer
from sqlflow_elastic.elastic.tables.sharding import SHARDS, owners, shards_of
from sqlflow_elastic.elastic.tables.table import Table
from sqlflow_elastic.models.tables.initial import first_rows
from sqlflow_elastic.models.tables.spec import Distribution, Initial, Part, Range, TableSpec
from tests.elastic.tables.specs import SGD, table

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
    "rmsprop, momentum": lambda: keras.optimizers.RMSprop(0.01, momentum=0.9),
    "rmsprop, centered": lambda: keras.optimizers.RMSprop(0.01, centered=True),
    "rmsprop, all": lambda: keras.optimizers.RMSprop(0.01, momentum=0.9, centered=True),
    "ftrl": lambda: keras.optimizers.Ftrl(0.1),
    "ftrl, regularized": lambda: keras.optimizers.Ftrl(
        0.1,
        l1_regularization_strength=0.01,
        l2_regularization_strength=0.02,
        l2_shrinkage_regularization_strength=0.03,
        beta=0.1,
    ),
    "ftrl, another power": lambda: keras.optimizers.Ftrl(0.1, learning_rate_power=-0.7),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_optimizer_is_the_dense_one_of_keras(name: str, dtype: str) -> None:
    rows, width = 40, 5
    optimizer = OPTIMIZERS[name]()
    rule = row_optimizer(optimizer)
    assert rule is not None
    part = Part(width, Initial(Distribution.NORMAL, 0.0, 1.0), 3)
    served = Table(TableSpec("t", (Range("r", rows, (part,)),), rule, dtype, 1))
    ids = np.random.default_rng(1).permutation(rows)
    positions = served.find(ids)
    variable = keras.Variable(served.read(positions), dtype=dtype)
    optimizer.build([variable])
    rng = np.random.default_rng(0)
    for step in range(20):
        gradient = rng.normal(size=(rows, width)).astype(dtype)
        # Of three workers, which touch all rows together.
        pieces = [positions[:25], positions[10:], positions[25:]]
        gradients = [gradient[:25].copy(), np.zeros((30, width), dtype), gradient[25:]]
        gradients[0][10:] /= 2
        gradients[1][:15] = gradient[10:25] / 2
        served.update(pieces, gradients, float(optimizer.learning_rate), step)
        optimizer.apply([tf.constant(gradient)], [variable])
    np.testing.assert_allclose(served.read(positions), np.asarray(variable.value), rtol=1e-5, atol=1e-6)


def test_an_optimizer_that_touches_all_rows_has_no_rule() -> None:
    assert row_optimizer(keras.optimizers.Adam(weight_decay=0.1)) is None
    assert row_optimizer(keras.optimizers.SGD(clipnorm=1.0)) is None
    assert row_optimizer(keras.optimizers.Adam(amsgrad=True)) is None
    assert row_optimizer(keras.optimizers.Lion()) is None


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


@pytest.mark.parametrize(
    ("distribution", "deviation"),
    [(Distribution.UNIFORM, 2 / 12**0.5), (Distribution.NORMAL, 1.0), (Distribution.TRUNCATED, 0.8796)],
)
def test_numbers_are_distributed_as_they_should_be(distribution: Distribution, deviation: float) -> None:
    low = -1.0 if distribution is Distribution.UNIFORM else 0.0
    part = Part(8, Initial(distribution, low, 1.0), 2)
    numbers = first_rows(TableSpec("t", (Range("r", 20_000, (part,)),), SGD, "float64", 5), np.arange(20_000))
    assert abs(numbers.mean()) < 0.02
    assert abs(numbers.std() - deviation) < 0.01
    if distribution is Distribution.TRUNCATED:
        assert np.abs(numbers).max() < 2.0001
    # Neither columns nor neighbouring rows hang together.
    assert np.abs(np.corrcoef(numbers.T) - np.eye(8)).max() < 0.05
    assert abs(np.corrcoef(numbers[1:].ravel(), numbers[:-1].ravel())[0, 1]) < 0.02
    # As many below each tenth as there should be, for a normal distribution: the deciles of numpy's own.
    if distribution is Distribution.NORMAL:
        deciles = np.quantile(np.random.default_rng(0).normal(size=1_000_000), np.arange(0.1, 1.0, 0.1))
        assert (
            np.abs(np.searchsorted(np.sort(numbers.ravel()), deciles) / numbers.size - np.arange(0.1, 1, 0.1)).max()
            < 0.01
        )


def test_an_update_can_be_taken_back() -> None:
    served = Table(table())
    ids = np.array([3, 70, 41])
    positions = served.find(ids)
    before = served.whole(positions)
    undo = served.update([positions[:2], positions[1:]], [np.ones((2, 4)), np.ones((2, 4))], 0.1, 0)
    assert sorted(served.ids_at(undo.positions)) == [3, 41, 70]
    assert not np.array_equal(served.whole(positions), before)
    served.undo(undo)
    np.testing.assert_array_equal(served.whole(positions), before)


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


def test_ids_beyond_the_table_are_refused() -> None:
    served = Table(table((10,)))
    for wrong in (-1, 10):
        with pytest.raises(ValueError, match="not in"):
            served.find(np.array([wrong]))


def test_memory_is_what_was_touched() -> None:
    part = Part(16, Initial(Distribution.CONSTANT), 0)
    served = Table(TableSpec("t", (Range("r", 50_000_000, (part,)),), SGD, "float32", 0))
    ids = np.random.default_rng(0).integers(0, 50_000_000, 200_000)
    before = resident()
    served.find(np.unique(ids))
    grown = resident() - before
    assert grown < 1.3 * served.memory + (200 << 20)  # pages of the index that any id is in
    assert served.memory < 1 << 30


def resident() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("RssAnon:")[1].split()[0]) << 10


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
