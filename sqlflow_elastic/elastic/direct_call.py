"""A traced function that is called without a check of its arguments, which takes longer than many a small graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


class DirectCall:
    """A function of tensors, traced for one signature.

    Args:
        function: graph code.
        specs: of its arguments: nested `tf.TensorSpec`, None where an argument is None.

    Attributes:
        function: the concrete function.
    """

    def __init__(self, function: Callable[..., Any], specs: tuple[Any, ...]) -> None:
        leaves = tf.nest.flatten(specs)

        def on_leaves(*tensors: tf.Tensor) -> Any:
            given = iter(tensors)
            nested = [None if leaf is None else next(given) for leaf in leaves]
            return function(*tf.nest.pack_sequence_as(specs, nested))

        traced = tf.function(on_leaves, autograph=False)
        self.function: Any = traced.get_concrete_function(*(leaf for leaf in leaves if leaf is not None))

    def __call__(self, *arguments: Any) -> Any:
        """Run it on tensors that fit the specs; nobody checks that they do."""
        tensors = [leaf for leaf in tf.nest.flatten(arguments) if leaf is not None]
        return self.function._call_flat(tensors, self.function.captured_inputs)
