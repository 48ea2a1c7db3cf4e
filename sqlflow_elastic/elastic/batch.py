"""What a training step sees, and what a program gives the runtime to compute it with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import keras
import tensorflow as tf


class Batch(NamedTuple):
    """A slice of ``b`` samples of a global batch.

    Gradients are sums over samples, so those of all slices of a global batch add up to the gradient of its mean loss.

    Attributes:
        features: each ``[b, …]``, in the dtype of the arrays.
        labels: ``[b, …]``, or None for a model without a label.
        weights: float ``[b]``: what a sample's loss is multiplied with, its own weight divided by the number of samples
            of the global batch; 0 for a row that only fills a slice up.
        share: float scalar: this slice's samples divided by the global batch's. Multiplies what is added once a batch,
            such as ``model.losses``, so that it too adds up.
    """

    features: dict[str, tf.Tensor]
    labels: tf.Tensor | None
    weights: tf.Tensor
    share: tf.Tensor


#: ``(model, batch) -> (loss, gradients)``: the loss is a scalar, the gradients stand in the order of
#: ``model.trainable_variables``; ``tf.IndexedSlices`` for embedding tables, None where nothing flows.
Gradients: TypeAlias = Callable[[keras.Model, Batch], tuple[tf.Tensor, list[Any]]]

#: ``(labels, outputs) -> [b]``: the loss of each sample, without its weight.
SampleLosses: TypeAlias = Callable[[Any, Any], tf.Tensor]
