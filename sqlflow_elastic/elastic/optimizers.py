"""From gradients to updated variables: dense ones by the Keras optimizer itself, tables by rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from sqlflow_elastic.elastic.dense_updates import only_reads_gradients, update_dense
from sqlflow_elastic.elastic.row_updates import row_rule, update_rows
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.events import Event, Message

#: Who updates which variables. Every trainable variable stands in exactly one list.
Optimizers: TypeAlias = list[tuple[keras.optimizers.Optimizer, list[keras.Variable]]]


class Updates:
    """Applies gradients with a model's optimizers.

    Args:
        model: built.
        optimizers: who updates which of its trainable variables; those not built yet are built here.
        emit: takes a warning when a table has to be updated as a whole.

    Raises:
        JobError: a trainable variable has no optimizer or more than one.
    """

    def __init__(self, model: keras.Model, optimizers: Optimizers, emit: Callable[[Event], None]) -> None:
        self._model = model
        self._optimizers = optimizers
        self._emit = emit
        self._positions: dict[int, tf.Variable] = {}
        self._warned: set[str] = set()
        owned = [id(variable) for _, variables in optimizers for variable in variables]
        for variable in model.trainable_variables:
            if owned.count(id(variable)) != 1:
                raise JobError(f"{variable.path} has {owned.count(id(variable)) or 'no'} optimizers; it must have one")
        for optimizer, variables in optimizers:
            if not optimizer.built:
                optimizer.build(variables)

    @property
    def variables(self) -> list[keras.Variable]:
        """The optimizers' state: step counts, learning rates and slots."""
        return [variable for optimizer, _ in self._optimizers for variable in optimizer.variables]

    @property
    def state(self) -> list[tf.Variable]:
        """Every variable that a step reads or writes, once the step is traced."""
        return [v.value for v in (*self._model.variables, *self.variables)] + list(self._positions.values())

    def only_reads_gradients(self, variable: keras.Variable) -> bool:
        """Whether `apply` leaves no variable with the memory of this one's gradient."""
        return any(
            only_reads_gradients(optimizer, variables)
            for optimizer, variables in self._optimizers
            if any(each is variable for each in variables)
        )

    def apply(self, gradients: Sequence[Any]) -> None:
        """One step of every optimizer, in graph code.

        Args:
            gradients: in the order of the model's trainable variables, each a tensor, ``tf.IndexedSlices`` or None.
        """
        of = {id(v): gradient for v, gradient in zip(self._model.trainable_variables, gradients, strict=True)}
        for optimizer, variables in self._optimizers:
            pairs = [(of[id(variable)], variable) for variable in variables if of.get(id(variable)) is not None]
            dense = [pair for pair in pairs if not self._by_rows(optimizer, *pair)]
            if dense:
                update_dense(optimizer, [tf.convert_to_tensor(g) for g, _ in dense], [v for _, v in dense])
            else:
                optimizer.iterations.assign_add(1)

    def _by_rows(self, optimizer: keras.optimizers.Optimizer, gradient: Any, variable: keras.Variable) -> bool:
        """Update the rows a gradient names, if it names rows and the optimizer has a rule for them."""
        if not isinstance(gradient, tf.IndexedSlices):
            return False
        rule = row_rule(optimizer)
        if rule is None or variable.constraint is not None:
            self._warn(f"{type(optimizer).__name__} updates every row of {variable.path} in each step, which is slow")
            return False
        if id(variable) not in self._positions:
            self._positions[id(variable)] = _scratch(variable.shape[0])
        update_rows(rule, optimizer, variable, gradient, self._positions[id(variable)])
        return True

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._emit(Message(text, "warning"))


def check_gradients(gradients: Sequence[Any]) -> None:
    """Raises: JobError: there is none."""
    if all(gradient is None for gradient in gradients):
        raise JobError("the loss does not depend on any variable of the model")


def _scratch(rows: int) -> tf.Variable:
    """A variable for a function that is being traced; one that made it itself would be traced a second time."""

    def make() -> tf.Variable:
        return tf.Variable(tf.zeros(rows, tf.int32), trainable=False)

    with ThreadPoolExecutor(1) as outside:  # a thread is in no graph
        return outside.submit(make).result()
