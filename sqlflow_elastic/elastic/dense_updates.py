"""Updates of dense variables: each optimizer's own rule as one operation of TensorFlow's per variable.

Keras writes a rule in some fifteen small operations per variable, and what they cost to start is most of an update of a
model of many variables. TensorFlow has kernels that compute the same in one pass, in place, on the same slots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import tensorflow as tf

_Update: TypeAlias = Callable[[int, Any, tf.Tensor], None]
"""Updates one variable, given its index in the optimizer's slots, itself, and its gradient."""


def update_dense(
    optimizer: keras.optimizers.Optimizer, gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> None:
    """One step of an optimizer, in graph code, its ``iterations`` included.

    Args:
        optimizer: built.
        gradients: of the variables, dense.
        variables: of the optimizer.
    """
    rule = _rule(optimizer, variables)
    if rule is None:
        optimizer.apply(gradients, variables)
        return
    # What all variables of a dtype have in common is computed once.
    updates = {dtype: rule(optimizer, tf.as_dtype(dtype)) for dtype in sorted({v.dtype for v in variables})}
    for gradient, variable in zip(gradients, variables, strict=True):
        index = optimizer._get_variable_index(variable)
        updates[variable.dtype](index, variable.value, tf.cast(gradient, variable.dtype))
    optimizer.iterations.assign_add(1)


def only_reads_gradients(optimizer: keras.optimizers.Optimizer, variables: list[keras.Variable]) -> bool:
    """Whether `update_dense` cannot make a gradient's memory a variable's, as an optimizer of Keras's may."""
    return _rule(optimizer, variables) is not None


def _rule(
    optimizer: keras.optimizers.Optimizer, variables: list[keras.Variable]
) -> Callable[[Any, tf.DType], _Update] | None:
    return None if _does_more(optimizer, variables) else _RULES.get(type(optimizer))


def _does_more(optimizer: keras.optimizers.Optimizer, variables: list[keras.Variable]) -> bool:
    """Whether a step is more than the rule: clipping, decay, means over time, constraints."""
    options = (
        optimizer.weight_decay,
        optimizer.clipnorm,
        optimizer.global_clipnorm,
        optimizer.clipvalue,
        optimizer.use_ema,
        optimizer.loss_scale_factor,
        optimizer.gradient_accumulation_steps,
        getattr(optimizer, "amsgrad", False),
    )
    return any(options) or any(
        variable.constraint is not None or variable.overwrite_with_gradient for variable in variables
    )


def _sgd(opt: Any, dtype: tf.DType) -> _Update:
    learning_rate, momentum = tf.cast(opt.learning_rate, dtype), tf.cast(opt.momentum, dtype)

    def update(index: int, variable: tf.Variable, gradient: tf.Tensor) -> None:
        if not opt.momentum:
            tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=learning_rate, delta=gradient)
            return
        tf.raw_ops.ResourceApplyKerasMomentum(
            var=variable.handle,
            accum=opt.momentums[index].value.handle,
            lr=learning_rate,
            grad=gradient,
            momentum=momentum,
            use_nesterov=opt.nesterov,
        )

    return update


def _adam(opt: Any, dtype: tf.DType) -> _Update:
    learning_rate, epsilon = tf.cast(opt.learning_rate, dtype), tf.constant(opt.epsilon, dtype)
    beta_1, beta_2 = tf.constant(opt.beta_1, dtype), tf.constant(opt.beta_2, dtype)
    step = tf.cast(opt.iterations + 1, dtype)
    # As in Keras, powers are those of a float32, in whatever precision they are computed.
    beta_1_power, beta_2_power = tf.pow(tf.cast(opt.beta_1, dtype), step), tf.pow(tf.cast(opt.beta_2, dtype), step)

    def update(index: int, variable: tf.Variable, gradient: tf.Tensor) -> None:
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=opt._momentums[index].value.handle,
            v=opt._velocities[index].value.handle,
            beta1_power=beta_1_power,
            beta2_power=beta_2_power,
            lr=learning_rate,
            beta1=beta_1,
            beta2=beta_2,
            epsilon=epsilon,
            grad=gradient,
        )

    return update


_RULES: dict[type[keras.optimizers.Optimizer], Callable[[Any, tf.DType], _Update]] = {
    keras.optimizers.SGD: _sgd,
    keras.optimizers.Adam: _adam,
}
