"""Optimizers at a server: those of Keras where all rows are touched, and `row_updates` where they are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from sqlflow_elastic.elastic.row_optimizers import row_optimizer
from sqlflow_elastic.elastic.row_updates import row_rule, update_rows
from sqlflow_elastic.elastic.tables.compiled import compiled
from sqlflow_elastic.elastic.tables.rules import RowRule
from sqlflow_elastic.elastic.tables.table import Table
from sqlflow_elastic.models.tables.spec import Distribution, Initial, Part, Range, RowOptimizer, TableSpec

ROWS, WIDTH, STEPS = 40, 5, 20

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "adam, fast": lambda: keras.optimizers.Adam(0.1),
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
    optimizer = OPTIMIZERS[name]()
    served = table_for(optimizer, dtype)
    positions = served.find(np.random.default_rng(1).permutation(ROWS))
    variable = keras.Variable(served.read(positions), dtype=dtype)
    optimizer.build([variable])
    for step, gradient in enumerate(gradients(dtype)):
        # Of three workers, which touch all rows together.
        pieces = [positions[:25], positions[10:], positions[25:]]
        parts = [gradient[:25].copy(), np.zeros((30, WIDTH), dtype), gradient[25:]]
        parts[0][10:] /= 2
        parts[1][:15] = gradient[10:25] / 2
        served.update(pieces, parts, float(optimizer.learning_rate), step)
        optimizer.apply([tf.constant(gradient)], [variable])
    np.testing.assert_allclose(served.read(positions), np.asarray(variable.value), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_a_step_does_not_touch_stay_as_those_of_a_worker_do(name: str, dtype: str) -> None:
    optimizer = OPTIMIZERS[name]()
    rule = row_rule(optimizer)
    assert rule is not None
    served = table_for(optimizer, dtype)
    positions = served.find(np.arange(ROWS))
    variable = keras.Variable(served.read(positions), dtype=dtype)
    optimizer.build([variable])
    scratch = tf.Variable(np.zeros(ROWS, np.int32))
    rng = np.random.default_rng(2)
    for step, gradient in enumerate(gradients(dtype)):
        touched = rng.choice(ROWS, 13, replace=False).astype(np.int32)
        served.update([touched], [gradient[touched]], float(optimizer.learning_rate), step)
        slices = tf.IndexedSlices(tf.constant(gradient[touched]), tf.constant(touched))
        update_rows(rule, optimizer, variable, slices, scratch)
        optimizer.iterations.assign_add(1)
    np.testing.assert_allclose(served.read(positions), np.asarray(variable.value), rtol=1e-6, atol=1e-6)


def test_an_optimizer_that_touches_all_rows_has_no_rule() -> None:
    assert row_optimizer(keras.optimizers.Adam(weight_decay=0.1)) is None
    assert row_optimizer(keras.optimizers.SGD(clipnorm=1.0)) is None
    assert row_optimizer(keras.optimizers.Adam(amsgrad=True)) is None
    assert row_optimizer(keras.optimizers.Lion()) is None


def test_a_rate_of_nothing_is_no_error() -> None:
    optimizer = keras.optimizers.Ftrl(0.0)
    served = table_for(optimizer, "float32")
    positions = served.find(np.arange(3))
    variable = keras.Variable(served.read(positions))
    optimizer.build([variable])
    served.update([positions], [np.ones((3, WIDTH), np.float32)], 0.0, 0)
    optimizer.apply([tf.ones((3, WIDTH))], [variable])
    np.testing.assert_array_equal(served.read(positions), np.asarray(variable.value))


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="no rule for rows: lion; there are sgd"):
        RowRule(RowOptimizer("lion", {}, ()), "float32")


def test_functions_are_compiled_where_nothing_can_be_kept() -> None:
    namespace: dict[str, Any] = {}
    exec("def half(x):\n    return 1.0 / x", namespace)  # in no file, so there is no place beside it
    half = compiled(namespace["half"])
    assert half(4.0) == 0.25
    assert half(0.0) == np.inf


def table_for(optimizer: keras.optimizers.Optimizer, dtype: str) -> Table:
    rule = row_optimizer(optimizer)
    assert rule is not None
    part = Part(WIDTH, Initial(Distribution.NORMAL, 0.0, 1.0), 3)
    return Table(TableSpec("t", (Range("r", ROWS, (part,)),), rule, dtype, 1))


def gradients(dtype: str) -> Iterator[NDArray[Any]]:
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        yield rng.normal(size=(ROWS, WIDTH)).astype(dtype)
