"""Dense variables are updated in one pass each, to the numbers that Keras's own optimizers compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from sqlflow_elastic.elastic.dense_updates import update_dense

STEPS = 5

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.01, beta_1=0.8, epsilon=1e-3),
    "decaying": lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)),
    # No kernel does what these ask for besides.
    "amsgrad": lambda: keras.optimizers.Adam(0.01, amsgrad=True),
    "adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1),
    "decay": lambda: keras.optimizers.Adam(0.01, weight_decay=0.1),
    "clipped": lambda: keras.optimizers.SGD(0.1, clipnorm=0.5),
    "clipped together": lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.5),
    "clipped values": lambda: keras.optimizers.SGD(0.1, clipvalue=0.2),
    "averaged": lambda: keras.optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=2),
    "accumulating": lambda: keras.optimizers.Adam(0.01, gradient_accumulation_steps=2),
    "scaled": lambda: keras.optimizers.Adam(0.01, loss_scale_factor=8.0),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01, momentum=0.5),
}


def variables(dtype: str = "float32", constraint: Any = None) -> list[keras.Variable]:
    rng = np.random.default_rng(0)
    result = [keras.Variable(rng.normal(size=shape), dtype=dtype) for shape in ((3, 4), (4,))]
    for variable in result:
        variable.constraint = constraint
    return result


def states(
    make: Callable[[], Any], apply: Callable[[Any, list[Any], list[Any]], None], xla: bool, **options: Any
) -> Any:
    """All that an optimizer and its variables come to."""
    trained, optimizer = variables(**options), make()
    optimizer.build(trained)

    @tf.function(jit_compile=xla)  # type: ignore[untyped-decorator]
    def step(*gradients: Any) -> None:
        apply(optimizer, list(gradients), trained)

    rng = np.random.default_rng(1)
    for _ in range(STEPS):
        step(*(tf.constant(rng.normal(size=v.shape), v.dtype) for v in trained))
    return [v.numpy() for v in (*trained, *optimizer.variables)]


def keras_own(optimizer: Any, gradients: list[Any], of: list[Any]) -> None:
    optimizer.apply(gradients, of)


def assert_equal(ours: Any, theirs: Any) -> None:
    for one, other in zip(ours, theirs, strict=True):
        # A kernel's 1 - beta comes from a beta of the variable's dtype, Keras's from a double: 1e-5 of it in float32.
        relative, absolute = (1e-12, 1e-12) if one.dtype == np.float64 else (2e-5, 2e-6)
        np.testing.assert_allclose(one, other, rtol=relative, atol=absolute)


@pytest.mark.parametrize("xla", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weights_and_slots_end_as_keras_computes_them(name: str, dtype: str, xla: bool) -> None:
    make = OPTIMIZERS[name]
    assert_equal(states(make, update_dense, xla, dtype=dtype), states(make, keras_own, xla, dtype=dtype))


def test_constraints_hold_after_each_step() -> None:
    make = OPTIMIZERS["sgd"]
    constraint = keras.constraints.NonNeg()
    ours = states(make, update_dense, False, constraint=constraint)
    assert_equal(ours, states(make, keras_own, False, constraint=constraint))
    assert all(weights.min() >= 0 for weights in ours[:2])


@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_an_update_is_one_operation_a_variable(name: str) -> None:
    trained, optimizer = variables(), OPTIMIZERS[name]()
    optimizer.build(trained)
    function = tf.function(lambda *gradients: update_dense(optimizer, list(gradients), trained))
    graph = function.get_concrete_function(*(tf.TensorSpec(v.shape, v.dtype) for v in trained)).graph
    assert sum(operation.type.startswith("ResourceApply") for operation in graph.get_operations()) == len(trained)
    assert sum(operation.type.startswith("Assign") for operation in graph.get_operations()) == 1


def test_what_somebody_still_reads_does_not_change() -> None:
    trained, optimizer = variables(), keras.optimizers.Adam(0.1)
    optimizer.build(trained)
    read = [variable.value.read_value() for variable in (*trained, *optimizer.variables)]
    held = [np.asarray(memoryview(tensor)) for tensor in read]
    before = [array.copy() for array in held]
    update_dense(optimizer, [tf.ones(v.shape, v.dtype) for v in trained], trained)
    for one, other in zip(held, before, strict=True):
        np.testing.assert_array_equal(one, other)
