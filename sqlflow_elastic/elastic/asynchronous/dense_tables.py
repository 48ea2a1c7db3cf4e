"""All weights of a model that are no rows of its embedding tables, as rows of tables on servers.

The variables of one optimizer lie one behind the other in rows of one width. What a forward pass moves, such as moving
statistics, is a table too: a worker pushes how far it moved them, the other way, as a gradient whose rate is 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from sqlflow_elastic.elastic.optimizers import Optimizers
from sqlflow_elastic.elastic.row_optimizers import row_optimizer
from sqlflow_elastic.elastic.served import served_layers
from sqlflow_elastic.elastic.slice_gradients import SEED
from sqlflow_elastic.elastic.tables.access import Ids, Numbers
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.models.tables.spec import Distribution, Initial, Part, Range, RowOptimizer, TableSpec

_WIDTH = 256
_MOVED = RowOptimizer("sgd", {"momentum": 0.0, "nesterov": 0.0}, ())
#: Rows are given, so nothing is drawn.
_GIVEN = Initial(Distribution.CONSTANT)


@dataclass(frozen=True)
class _Group:
    """The variables of a table; without an optimizer, those that are moved."""

    optimizer: keras.Optimizer | None
    variables: Sequence[keras.Variable]
    spec: TableSpec

    @property
    def sizes(self) -> list[int]:
        """How many numbers each variable has."""
        return [math.prod(variable.shape) for variable in self.variables]


class DenseTables:
    """See the module's page.

    Args:
        model: built.
        optimizers: who updates which of its trainable variables.

    Attributes:
        specs: what each table is.
        ids: of each table, all of them.

    Raises:
        JobError: servers cannot update a variable.
    """

    def __init__(self, model: keras.Model, optimizers: Optimizers) -> None:
        served = {id(layer.table) for layer in served_layers(model)}
        self._groups: list[_Group] = []
        for optimizer, variables in optimizers:
            of_it = [variable for variable in variables if id(variable) not in served]
            rule = row_optimizer(optimizer)
            if of_it and rule is None:
                raise JobError(f"{type(optimizer).__name__} as it is set cannot update weights on servers")
            for variable in of_it:
                if variable.constraint is not None:
                    raise JobError(f"{variable.path} has a constraint, which servers do not know")
            if rule is not None:
                self._add(optimizer, of_it, rule)
        moved = [v for v in model.non_trainable_variables if v.name != SEED]
        for variable in moved:
            if not tf.as_dtype(variable.dtype).is_floating:
                raise JobError(f"a layer counts in {variable.path}, and servers only add up: train synchronously")
        self._add(None, moved, _MOVED)
        self.specs = [group.spec for group in self._groups]
        self.ids: list[Ids] = [np.arange(spec.rows) for spec in self.specs]

    def _add(self, optimizer: keras.Optimizer | None, variables: Sequence[keras.Variable], rule: RowOptimizer) -> None:
        for dtype in dict.fromkeys(str(variable.dtype) for variable in variables):
            if dtype not in ("float32", "float64"):
                raise JobError(f"servers have no weights of type {dtype}")
            alike = [variable for variable in variables if str(variable.dtype) == dtype]
            total = sum(math.prod(variable.shape) for variable in alike)
            width = min(_WIDTH, total)
            name = f"weights {len(self._groups)}"
            rows = Range(name, -(-total // width), (Part(width, _GIVEN, 0),))
            self._groups.append(_Group(optimizer, alike, TableSpec(name, (rows,), rule, dtype, 0, dense=True)))

    def rows(self) -> list[Numbers]:
        """Of each table [rows, width]: what the variables hold now."""
        return [
            _rows(np.concatenate([variable.numpy().reshape(-1) for variable in group.variables]), group.spec)
            for group in self._groups
        ]

    def take(self, rows: Sequence[Numbers]) -> None:
        """The variables take on what `rows` returned."""
        for group, of_group in zip(self._groups, rows, strict=True):
            pieces = np.split(of_group.reshape(-1), np.cumsum(group.sizes))[:-1]
            for variable, piece in zip(group.variables, pieces, strict=True):
                variable.assign(piece.reshape(variable.shape))

    # Graph code.

    def assign(self, rows: Sequence[tf.Tensor]) -> None:
        """The variables take on the rows of each table."""
        for group, of_group in zip(self._groups, rows, strict=True):
            sizes = group.sizes
            flat = tf.reshape(of_group, [-1])[: sum(sizes)]
            for variable, piece in zip(group.variables, tf.split(flat, sizes), strict=True):
                variable.assign(tf.reshape(piece, variable.shape))

    def set_step(self, step: tf.Tensor) -> None:
        """All optimizers have taken so many steps; int64 scalar."""
        for optimizer in self._optimizers:
            optimizer.iterations.assign(tf.cast(step, optimizer.iterations.dtype))

    def gradients(self, of: Mapping[int, Any], moved: Sequence[tuple[keras.Variable, tf.Tensor]]) -> list[tf.Tensor]:
        """Of each table [rows, width].

        Args:
            of: by a trainable variable's id its gradient, or None.
            moved: variables that the forward pass moves, with their new values.
        """
        to = {id(variable): variable.value - new for variable, new in moved}
        return [
            _padded([_flat((to if group.optimizer is None else of).get(id(v)), v) for v in group.variables], group.spec)
            for group in self._groups
        ]

    def rates(self, step: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Of each table its learning rate, float64, and the steps that its optimizer has taken, int64."""
        rates: list[Any] = [
            tf.constant(1.0, tf.float64) if each is None else tf.cast(each.learning_rate, tf.float64)
            for each in (group.optimizer for group in self._groups)
        ]
        return rates, [step] * len(self._groups)

    @property
    def _optimizers(self) -> list[Any]:
        return [group.optimizer for group in self._groups if group.optimizer is not None]


def _rows(flat: Numbers, spec: TableSpec) -> Numbers:
    padded = np.zeros(spec.rows * spec.width, spec.dtype)
    padded[: len(flat)] = flat
    return padded.reshape(spec.rows, spec.width)


def _flat(gradient: Any, variable: keras.Variable) -> tf.Tensor:
    if gradient is None:
        return tf.zeros(math.prod(variable.shape), variable.dtype)
    return tf.reshape(tf.cast(tf.convert_to_tensor(gradient), variable.dtype), [-1])


def _padded(pieces: Sequence[tf.Tensor], spec: TableSpec) -> tf.Tensor:
    flat = tf.concat(pieces, 0)
    lacking = spec.rows * spec.width - flat.shape[0]
    return tf.reshape(tf.pad(flat, [[0, lacking]]), [spec.rows, spec.width])
