"""Tables are updated by rows, to the numbers that Keras's own optimizers compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from sqlflow_elastic.elastic.optimizers import Updates
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.events import Event, Message
from tests.elastic.models import Table

ROWS, SIZE, STEPS = 6, 3, 5

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "decaying": lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
    "centered": lambda: keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    "ftrl": lambda: keras.optimizers.Ftrl(
        0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.1, l2_shrinkage_regularization_strength=0.1
    ),
}


def tables(count: int) -> list[Any]:
    layers = [Table(ROWS, SIZE) for _ in range(count)]
    values = np.random.default_rng(0).normal(size=(ROWS, SIZE)).astype(np.float32)
    for layer in layers:
        layer.build(None)
        layer.table.assign(values)
    return [keras.Sequential([layer]) for layer in layers]


def updates(model: Any, optimizer: Any, emit: Callable[[Event], None] = lambda event: None) -> Updates:
    return Updates(model, [(optimizer, model.trainable_variables)], emit)


@pytest.mark.parametrize("xla", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rows_end_as_keras_computes_them_when_each_is_touched(name: str, xla: bool) -> None:
    by_rows, dense = tables(2)
    ours, keras_own = OPTIMIZERS[name](), OPTIMIZERS[name]()
    keras_own.build(dense.trainable_variables)
    rows = updates(by_rows, ours)

    @tf.function(jit_compile=xla)  # type: ignore[untyped-decorator]
    def step(ids: Any, values: Any) -> None:
        rows.apply([tf.IndexedSlices(values, ids, (ROWS, SIZE))])

    rng = np.random.default_rng(1)
    for _ in range(STEPS):
        # Every row at least once, some more often.
        ids = rng.permutation(np.concatenate([np.arange(ROWS), rng.integers(0, ROWS, 5)])).astype(np.int32)
        values = rng.normal(size=(len(ids), SIZE)).astype(np.float32)
        step(tf.constant(ids), tf.constant(values))
        whole = np.zeros((ROWS, SIZE), np.float32)
        np.add.at(whole, ids, values)
        keras_own.apply([tf.constant(whole)], dense.trainable_variables)
    np.testing.assert_allclose(by_rows.variables[0].value, dense.variables[0].value, rtol=1e-6, atol=1e-6)
    for mine, theirs in zip(ours.variables, keras_own.variables, strict=True):
        np.testing.assert_allclose(mine.value, theirs.value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rows_that_a_batch_does_not_name_stay_as_they_are(name: str) -> None:
    (model,) = tables(1)
    optimizer = OPTIMIZERS[name]()
    rows = updates(model, optimizer)
    state = [model.variables[0], *(v for v in optimizer.variables if v.shape == (ROWS, SIZE))]
    for _ in range(2):
        before = [v.numpy() for v in state]
        rows.apply([tf.IndexedSlices(tf.ones((3, SIZE)), tf.constant([4, 1, 4]), (ROWS, SIZE))])
        for variable, old in zip(state, before, strict=True):
            changed = np.flatnonzero((variable.numpy() != old).any(axis=1))
            assert changed.tolist() == [1, 4]


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.AdamW(0.01),
        lambda: keras.optimizers.Adam(0.01, clipnorm=0.5),
        lambda: keras.optimizers.Lion(),
    ],
    ids=["AdamW", "clipped Adam", "Lion"],
)
def test_an_optimizer_without_a_rule_for_rows_updates_the_whole_table_and_says_so(make: Callable[[], Any]) -> None:
    by_rows, dense = tables(2)
    events: list[Event] = []
    rows, keras_own = updates(by_rows, make(), events.append), make()
    for _ in range(2):
        rows.apply([tf.IndexedSlices(tf.ones((3, SIZE)), tf.constant([4, 1, 4]), (ROWS, SIZE))])
        whole = np.zeros((ROWS, SIZE), np.float32)
        whole[[1, 4]] = [[1] * SIZE, [2] * SIZE]
        keras_own.apply([tf.constant(whole)], dense.trainable_variables)
    np.testing.assert_allclose(by_rows.variables[0].value, dense.variables[0].value, rtol=1e-6)
    assert [type(event) for event in events] == [Message]


def test_every_variable_must_have_one_optimizer() -> None:
    (model,) = tables(1)
    with pytest.raises(JobError, match="has no optimizers; it must have one"):
        Updates(model, [], lambda event: None)
    optimizer = keras.optimizers.SGD()
    with pytest.raises(JobError, match="has 2 optimizers"):
        Updates(model, [(optimizer, model.trainable_variables)] * 2, lambda event: None)
