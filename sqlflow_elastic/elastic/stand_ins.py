"""Calling a traced function beside training: on stand-ins for the variables that it reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf


@contextmanager
def stand_ins(function: Any, state: Sequence[tf.Variable]) -> Iterator[None]:
    """Within, a call of a concrete function changes no variable; nobody else may call it meanwhile.

    Args:
        function: the concrete function.
        state: every variable that it reads or writes. What their stand-ins hold is zero.

    Raises:
        ValueError: it uses resources beyond those.
    """
    captured = list(function.captured_inputs)
    # Zeros from the system are pages that take no memory until somebody writes them.
    variables = {id(v.handle): tf.Variable(np.zeros(v.shape, v.dtype.as_numpy_dtype), trainable=False) for v in state}
    unknown = [tensor.name for tensor in captured if tensor.dtype == tf.resource and id(tensor) not in variables]
    if unknown:
        raise ValueError(f"a step uses resources that are no variables of the model: {unknown}")
    function.set_external_captures(
        [variables[id(tensor)].handle if id(tensor) in variables else tensor for tensor in captured]
    )
    try:
        yield
    finally:
        function.set_external_captures(captured)
