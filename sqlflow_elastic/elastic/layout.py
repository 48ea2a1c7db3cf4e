"""How a joint step's gradients travel: found when the step is traced, and the same at all members."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import keras
import tensorflow as tf

from sqlflow_elastic.elastic.table_rows import is_less_whole
from sqlflow_elastic.errors import JobError

#: A gradient of at least so many bytes travels as it is: to copy it costs more than one more buffer.
_LARGE_BYTES = 64 << 10


@dataclass(frozen=True)
class Layout:
    """What the traced gradient function found; all members find the same.

    Attributes:
        large: indices of the trainable variables whose gradients travel as they are, in this order.
        small: indices of those whose dense gradients travel in one vector, in the vector's order.
        tables: indices of those whose gradients are rows, and travel so.
        whole: indices of those whose gradients are rows, and travel whole, behind the small ones.
        moved: variables of floats that the forward pass moves; they stand behind those.
        seeds: random seeds.
    """

    large: list[int] = field(default_factory=list)
    small: list[int] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    moved: list[keras.Variable] = field(default_factory=list)
    seeds: list[keras.Variable] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        gradients: Sequence[Any],
        variables: list[keras.Variable],
        dtype: tf.DType,
        moved: list[keras.Variable],
        seeds: list[keras.Variable],
        batch_size: int,
    ) -> Self:
        """Raises: JobError: members cannot have a moved variable in common."""
        for variable in moved:
            if not tf.as_dtype(variable.dtype).is_floating:
                raise JobError(f"a layer counts in {variable.path}, and workers have only means in common: train alone")
        by_rows = [i for i, gradient in enumerate(gradients) if isinstance(gradient, tf.IndexedSlices)]
        whole = [i for i in by_rows if is_less_whole(variables[i].shape, batch_size)]
        dense = [i for i, gradient in enumerate(gradients) if gradient is not None and i not in by_rows]
        large = [i for i in dense if elements(variables[i]) * dtype.size >= _LARGE_BYTES]
        small, tables = ([i for i in of if i not in but] for of, but in ((dense, large), (by_rows, whole)))
        return cls(large, small, tables, whole, moved, seeds)

    @property
    def exact(self) -> int:
        """Elements behind the small gradients: what was moved, the loss, the flag."""
        return sum(map(elements, self.moved)) + 2


def elements(variable: keras.Variable) -> int:
    """How many numbers a variable has."""
    return math.prod(variable.shape)
