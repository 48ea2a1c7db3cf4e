"""Updates of an embedding table's rows: each optimizer's own rule, on the rows that a batch touched.

Keras 3 makes a table's gradient dense and updates every row of it. Here a gradient that comes as ``tf.IndexedSlices``
costs O(rows of the batch): rows of the table and of the optimizer's slots are gathered, updated and scattered back in
place. The slots are Keras's own variables, so dense and sparse updates, and checkpoints, see one state. A row that a
batch does not touch keeps its weights and slots ("lazy"); when every row is touched in every step, the result is
Keras's.

Everything has a static shape where the batch has one, so that it also runs inside XLA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import keras
import tensorflow as tf


class RowRule(NamedTuple):
    """How one optimizer updates rows.

    Attributes:
        slots: the optimizer's lists of slot variables, in the order that ``update`` takes and returns their rows.
        update: ``(optimizer, learning rate, gradient, weights, slots) -> (new weights, new slots)``, all ``[n, …]``
            rows.
    """

    slots: Callable[[Any], list[list[keras.Variable]]]
    update: Callable[..., tuple[tf.Tensor, list[tf.Tensor]]]


def row_rule(optimizer: keras.optimizers.Optimizer) -> RowRule | None:
    """The optimizer's row rule; None if there is none, or an option of it touches rows that the batch does not."""
    whole_table = (
        optimizer.weight_decay,
        optimizer.clipnorm,
        optimizer.global_clipnorm,
        optimizer.clipvalue,
        optimizer.use_ema,
        optimizer.loss_scale_factor,
        optimizer.gradient_accumulation_steps,
        getattr(optimizer, "amsgrad", False),
    )
    return None if any(whole_table) else _RULES.get(type(optimizer))


def update_rows(
    rule: RowRule,
    optimizer: keras.optimizers.Optimizer,
    table: keras.Variable,
    gradient: tf.IndexedSlices,
    positions: tf.Variable,
) -> None:
    """Apply a table's gradient to the rows it names.

    Args:
        rule: the optimizer's rule.
        optimizer: built, and not yet stepped: its ``iterations`` are those before this step.
        table: ``[rows, …]``.
        gradient: values ``[n, …]`` for indices ``[n]``; an index may come more than once.
        positions: int32 ``[rows]``, scratch of any content.
    """
    index = optimizer._get_variable_index(table)
    variables = [table.value, *(slot[index].value for slot in rule.slots(optimizer))]
    weights, *slots = (tf.gather(variable, gradient.indices) for variable in variables)
    learning_rate = tf.cast(optimizer.learning_rate, table.dtype)
    total = tf.cast(combined(gradient, positions), table.dtype)
    new_weights, new_slots = rule.update(optimizer, learning_rate, total, weights, slots)
    for variable, rows in zip(variables, [new_weights, *new_slots], strict=True):
        variable.scatter_update(tf.IndexedSlices(rows, gradient.indices))


def combined(gradient: tf.IndexedSlices, positions: tf.Variable) -> tf.Tensor:
    """The sum over equal indices, ``[n, …]``, at each place where the index comes.

    So equal indices compute and write equal rows, and nothing needs to be unique (`tf.unique` has no static shape). For
    each index one place of the batch is its representative: whichever wrote its position last. Sums are always added in
        the order
    of the batch, so they do not depend on which one that is.
    """
    count = tf.size(gradient.indices, out_type=tf.int32)
    positions.scatter_update(tf.IndexedSlices(tf.range(count), gradient.indices))
    representative = tf.gather(positions, gradient.indices)
    return tf.gather(tf.math.unsorted_segment_sum(gradient.values, representative, count), representative)


Slots: TypeAlias = list[tf.Tensor]


def _sgd(opt: Any, lr: tf.Tensor, g: tf.Tensor, w: tf.Tensor, slots: Slots) -> tuple[tf.Tensor, Slots]:
    if not slots:
        return w - g * lr, []
    m = slots[0] * opt.momentum - g * lr
    return w + (m * opt.momentum - g * lr if opt.nesterov else m), [m]


def _adagrad(opt: Any, lr: tf.Tensor, g: tf.Tensor, w: tf.Tensor, slots: Slots) -> tuple[tf.Tensor, Slots]:
    a = slots[0] + g * g
    return w - lr * g / tf.sqrt(a + opt.epsilon), [a]


def _adam(opt: Any, lr: tf.Tensor, g: tf.Tensor, w: tf.Tensor, slots: Slots) -> tuple[tf.Tensor, Slots]:
    m, v = slots
    step = tf.cast(opt.iterations + 1, w.dtype)
    alpha = (
        lr * tf.sqrt(1 - tf.pow(tf.cast(opt.beta_2, w.dtype), step)) / (1 - tf.pow(tf.cast(opt.beta_1, w.dtype), step))
    )
    m += (g - m) * (1 - opt.beta_1)
    v += (g * g - v) * (1 - opt.beta_2)
    return w - m * alpha / (tf.sqrt(v) + opt.epsilon), [m, v]


def _rmsprop(opt: Any, lr: tf.Tensor, g: tf.Tensor, w: tf.Tensor, slots: Slots) -> tuple[tf.Tensor, Slots]:
    remaining = list(slots)
    velocity = opt.rho * remaining.pop(0) + (1 - opt.rho) * g * g
    new = [velocity]
    momentum = remaining.pop(0) if opt.momentum > 0 else None
    if opt.centered:
        average = opt.rho * remaining.pop(0) + (1 - opt.rho) * g
        velocity -= average * average
    change = lr * g / tf.sqrt(velocity + opt.epsilon)
    if momentum is not None:
        change += opt.momentum * momentum
        new.append(change)
    if opt.centered:
        new.append(average)
    return w - change, new


def _ftrl(opt: Any, lr: tf.Tensor, g: tf.Tensor, w: tf.Tensor, slots: Slots) -> tuple[tf.Tensor, Slots]:
    accumulator, linear = slots
    power = -opt.learning_rate_power
    l2 = opt.l2_regularization_strength + opt.beta / (2 * lr)
    new = accumulator + g * g
    shrunk = g + 2 * opt.l2_shrinkage_regularization_strength * w
    linear += shrunk - (tf.pow(new, power) - tf.pow(accumulator, power)) / lr * w
    l1 = opt.l1_regularization_strength
    w = (tf.clip_by_value(linear, -l1, l1) - linear) / (tf.pow(new, power) / lr + 2 * l2)
    return w, [new, linear]


_RULES: dict[type[keras.optimizers.Optimizer], RowRule] = {
    keras.optimizers.SGD: RowRule(lambda opt: [opt.momentums] if opt.momentum else [], _sgd),
    keras.optimizers.Adagrad: RowRule(lambda opt: [opt._accumulators], _adagrad),
    keras.optimizers.Adam: RowRule(lambda opt: [opt._momentums, opt._velocities], _adam),
    keras.optimizers.RMSprop: RowRule(
        lambda opt: [slot for slot in (opt._velocities, opt._momentums, opt._average_gradients) if slot], _rmsprop
    ),
    keras.optimizers.Ftrl: RowRule(lambda opt: [opt._accumulators, opt._linears], _ftrl),
}
