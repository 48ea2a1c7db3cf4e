"""Numbers that are not finite end training, with what is known about their cause."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.position import Position
from sqlflow_elastic.elastic.sampling import Rows
from sqlflow_elastic.elastic.ways import Losses
from sqlflow_elastic.errors import DataError, JobError


def check_losses(losses: Losses, rows: Rows, batch_size: int, dataset: ArrayDataset, position: Position) -> None:
    """Raise if a loss is not finite.

    Args:
        losses: of consecutive steps.
        rows: of their batches, one after the other.
        batch_size: of each.
        dataset: where the rows are.
        position: before these steps.

    Raises:
        DataError: its batch holds a number that is not finite.
        JobError: it does not.
    """
    bad = np.flatnonzero(~np.isfinite(losses))
    if not len(bad):
        return
    step = position.step + int(bad[0]) + 1
    batch = rows[bad[0] * batch_size : (bad[0] + 1) * batch_size]
    for name, array in dataset.arrays().items():
        values = array[batch]
        if np.issubdtype(values.dtype, np.inexact) and not np.isfinite(values).all():
            raise DataError(f"step {step} met a value in {name} that is not a finite number")
    raise JobError(
        f"the loss became {losses[bad[0]]} at step {step} (epoch {position.epoch + 1}); its batch's numbers "
        "are finite, so the learning rate is probably too high, or the loss is not defined for these labels"
    )


def check_weights(model: keras.Model, step: int) -> None:
    """Raise JobError if a weight is not finite: the last step's update has no loss after it that would show it."""
    for variable in model.trainable_variables:
        if not bool(tf.reduce_all(tf.math.is_finite(variable.value))):
            raise JobError(
                f"{variable.path} holds numbers that are not finite after step {step}; "
                "the learning rate is probably too high"
            )
