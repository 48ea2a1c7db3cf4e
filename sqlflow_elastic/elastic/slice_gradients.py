"""Graph code that every kind of step begins with: what a slice of a batch says, with no variable written."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from sqlflow_elastic.elastic.batch import Batch, Gradients
from sqlflow_elastic.elastic.optimizers import check_gradients
from sqlflow_elastic.elastic.served import ServedTables

#: The name of variables that are seeds of random layers.
SEED = "seed_generator_state"
#: Times a number, this is added to a seed's first word: a prime that brings the seeds of no two numbers together.
_SEED_STRIDE = 2_654_435_761


@dataclass(frozen=True)
class SliceGradients:
    """What a slice says.

    Attributes:
        loss: a scalar.
        gradients: of the model's trainable variables, in their order; None for those of served tables.
        rows: gradients of the rows of served tables.
        moved: variables that the forward pass moves, but for seeds, with their new values.
        seeds: random seeds, with those that are next.
    """

    loss: tf.Tensor
    gradients: list[Any]
    rows: list[tf.Tensor]
    moved: list[tuple[keras.Variable, tf.Tensor]]
    seeds: list[tuple[keras.Variable, tf.Tensor]]


def slice_gradients(
    model: keras.Model,
    gradients: Gradients,
    batch: Batch,
    number: tf.Tensor,
    tracing: threading.Lock,
    served: ServedTables | None,
    looked_up: Sequence[tf.Tensor],
) -> SliceGradients:
    """Compute the gradients of a slice.

    Args:
        model: built.
        gradients: a batch's loss and gradients.
        batch: the slice.
        number: int64 scalar: random layers draw others at each number.
        tracing: held while the model's graph code runs.
        served: the model's tables that are on servers; None without.
        looked_up: see `ServedTables.using`.

    Raises:
        JobError: the loss depends on nothing.
    """
    values = {id(variable): variable.value for variable in model.variables}
    seeds = [variable for variable in model.variables if variable.name == SEED]
    shift = tf.stack([number * _SEED_STRIDE, 0])
    shifted = {id(seed): seed.value + tf.cast(shift, seed.dtype) for seed in seeds}
    # In Keras's own scope assignments are kept aside: the variables stay as they are.
    scope = keras.StatelessScope(collect_losses=True)
    scope.state_mapping.update(values | shifted)
    rows: list[tf.Tensor] = []
    with tracing, scope, nullcontext() if served is None else served.using(*looked_up):
        loss, found = gradients(model, batch)
    check_gradients(found)
    if served is not None:
        variables = model.trainable_variables
        of = {id(variable): gradient for variable, gradient in zip(variables, found, strict=True)}
        rows = served.gradients(of, looked_up[1:])
        found = [of.get(id(variable)) for variable in variables]
    new = scope.state_mapping
    moved = [
        (variable, new[id(variable)])
        for variable in model.variables
        if variable.name != SEED and new[id(variable)] is not values[id(variable)]
    ]
    next_seeds = [(seed, values[id(seed)] + new[id(seed)] - shifted[id(seed)]) for seed in seeds]
    return SliceGradients(loss, found, rows, moved, next_seeds)
