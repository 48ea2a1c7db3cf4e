"""One training step, taken together by the members of a world.

A member computes the gradients of its slice of the global batch, the members sum them up, and every member applies the
same sums. Nothing but the last part touches a variable, so a step that breaks on the way has not happened.

Dense gradients travel in one vector; behind them, in full precision, what layers moved (the moving statistics of batch
normalization), the loss, and a flag. Gradients of tables travel as rows, in the order of the slices, which is the order
of the batch: lazy row updates must see exactly the rows that the batch names.

What is not the same as in one process that sees the whole batch:

- Batch normalization normalizes a slice by the slice's own mean and variance. Its moving statistics become the members'
  new ones, averaged by their shares of the batch; so they, too, hold the variance within slices only.
- Random layers draw other numbers at each rank: a seed is shifted by the rank while gradients are computed. The seeds
  that stay are moved on as in one process and are the same at all members.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sqlflow_elastic.elastic.batch import Batch, Gradients
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.direct_call import DirectCall
from sqlflow_elastic.elastic.feed import Feed
from sqlflow_elastic.elastic.optimizers import Updates
from sqlflow_elastic.elastic.replica import Exchange
from sqlflow_elastic.elastic.sampling import Rows
from sqlflow_elastic.elastic.stand_ins import stand_ins
from sqlflow_elastic.elastic.table_rows import TableRows
from sqlflow_elastic.elastic.ways import operations, specs
from sqlflow_elastic.errors import JobError

logger = logging.getLogger(__name__)

#: Times a rank, this is added to a seed's first word: a prime that brings the seeds of no two ranks together.
_SEED_STRIDE = 2_654_435_761
_SEED = "seed_generator_state"
#: How the names of operations begin that write to variables.
_WRITES = ("Assign", "ResourceScatter", "ResourceApply", "ResourceStridedSliceAssign")


@dataclass(frozen=True)
class StepDone:
    """What a step came to.

    Attributes:
        loss: the mean loss of the global batch.
        flagged: whether any member raised its flag.
        own: samples of this member's slice.
        own_seconds: what it worked on them, waiting for others left out.
    """

    loss: float
    flagged: bool
    own: int
    own_seconds: float


@dataclass(frozen=True)
class _Layout:
    """What the traced gradient function found; all members find the same.

    Attributes:
        dense: indices of the trainable variables with dense gradients, in the vector's order.
        tables: indices of those whose gradients are rows.
        moved: variables of floats that the forward pass moves; they stand behind the gradients.
        seeds: random seeds.
        exact: elements behind the gradients: what was moved, the loss, the flag.
    """

    dense: list[int]
    tables: list[int]
    moved: list[keras.Variable]
    seeds: list[keras.Variable]
    exact: int

    @classmethod
    def of(cls, gradients: Sequence[Any], moved: list[keras.Variable], seeds: list[keras.Variable]) -> Self:
        """Raises: JobError: members cannot have a moved variable in common."""
        for variable in moved:
            if not tf.as_dtype(variable.dtype).is_floating:
                raise JobError(f"a layer counts in {variable.path}, and workers have only means in common: train alone")
        tables = [i for i, gradient in enumerate(gradients) if isinstance(gradient, tf.IndexedSlices)]
        dense = [i for i, gradient in enumerate(gradients) if gradient is not None and i not in tables]
        return cls(dense, tables, moved, seeds, sum(int(np.prod(variable.shape)) for variable in moved) + 2)


class JointStep:
    """Takes steps in worlds of any size and split.

    Args:
        model: built.
        gradients: a batch's loss and gradients.
        updates: applies gradients.
        dataset: where the samples are; all of them at every member.
        batch_size: the most samples of a step.
        tracing: held while the model's graph code runs.
    """

    def __init__(
        self,
        model: keras.Model,
        gradients: Gradients,
        updates: Updates,
        dataset: ArrayDataset,
        batch_size: int,
        tracing: threading.Lock,
    ) -> None:
        self._model = model
        self._gradients = gradients
        self._updates = updates
        self._dataset = dataset
        self._batch_size = batch_size
        self._tracing = tracing
        self._warming = threading.Lock()
        self._variables: list[keras.Variable] = list(model.trainable_variables)
        wide = "float64" in (keras.config.floatx(), *(variable.dtype for variable in self._variables))
        self._dtype = tf.float64 if wide else tf.float32
        self._layout = _Layout([], [], [], [], 0)
        self._traced: tuple[DirectCall, DirectCall] | None = None

    def warm_up(self) -> None:
        """Trace and instantiate the graphs, once. Changes no state; steps may be taken alone meanwhile.

        Raises:
            JobError: a layer moves a variable that members cannot have in common.
        """
        self._graphs()

    def run(self, world: Exchange, rows: Rows, bounds: Sequence[int], flag: bool) -> StepDone:
        """Take one step.

        Args:
            world: this member's.
            rows: of the global batch, at least one.
            bounds: where each rank's slice of them begins, see `sharing.bounds`.
            flag: what this member wants all to know after the step.

        Raises:
            comm.WorldBroken: no variable has changed.
        """
        differentiate, apply = self._graphs()
        rank = world.place.rank
        began = time.perf_counter()
        start, stop = bounds[rank], bounds[rank + 1]
        own = stop - start
        # An empty slice is one sample of the batch that weighs nothing.
        slice_rows, scale = (rows[start:stop], 1 / len(rows)) if own else (rows[:1], 0.0)
        control = _control(own / len(rows), flag, self._dtype)
        sums, seeds, rows_of_tables = differentiate(*self._feed.rows(slice_rows, scale), control, _integer(rank))
        vector = _writable(sums)
        own_seconds = time.perf_counter() - began
        world.allreduce(vector, self._layout.exact)
        tables = self._table_rows.gathered(world, *rows_of_tables) if rows_of_tables else []
        apply(sums, seeds, tables)
        return StepDone(float(vector[-2]), vector[-1] > 0, own, own_seconds)

    def _graphs(self) -> tuple[DirectCall, DirectCall]:
        """What computes gradients and what applies their sums."""
        with self._warming:
            if self._traced is None:
                self._traced = self._trace()
            return self._traced

    def _trace(self) -> tuple[DirectCall, DirectCall]:
        self._feed = Feed(self._dataset, self._batch_size)
        control, rank = tf.TensorSpec((2,), self._dtype), tf.TensorSpec((), tf.int64)
        differentiate = DirectCall(self._gradients_of, (*specs(self._dataset, None), control, rank))
        writes = {kind for kind in operations(differentiate.function) if kind.startswith(_WRITES)}
        if writes:
            raise JobError(
                f"a layer writes to TensorFlow variables of its own ({', '.join(sorted(writes))}): train alone"
            )
        shapes = [tuple(self._variables[i].shape) for i in self._layout.tables]
        self._table_rows = TableRows(shapes, self._dtype)
        one = self._feed.rows(np.zeros(1, np.int64), 0.0)
        sums, seeds, rows_of_tables = differentiate(*one, _control(0.0, False, self._dtype), _integer(0))
        tables = self._table_rows.split([rows_of_tables]) if rows_of_tables else []
        return differentiate, self._applier(sums, seeds, tables)

    def _applier(
        self, sums: tf.Tensor, seeds: list[tf.Tensor], tables: list[tuple[tf.Tensor, tf.Tensor]]
    ) -> DirectCall:
        """The function that applies sums like these."""
        given = tf.nest.map_structure(lambda t: tf.TensorSpec((None, *t.shape[1:]), t.dtype), (seeds, tables))
        variables = [variable.value for variable in (*self._model.variables, *self._updates.variables)]
        apply = DirectCall(self._apply_sums, (tf.TensorSpec(sums.shape, sums.dtype), *given))
        try:
            with stand_ins(apply.function, variables + self._updates.scratch):
                apply(sums, seeds, tables)
        except (tf.errors.OpError, ValueError) as error:
            # Not for stand-ins: then it is instantiated at the first step.
            logger.debug("the update cannot be called beside training: %s", error)
        return apply

    def _gradients_of(
        self, features: Any, labels: Any, weights: tf.Tensor, control: tf.Tensor, rank: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor], tuple[tf.Tensor, ...]]:
        """Graph code: the vector to sum up, the seeds' new values, and the two vectors of tables' rows, if any."""
        share, flag = control[0], control[1]
        values = {id(variable): variable.value for variable in self._model.variables}
        seeds = [variable for variable in self._model.variables if variable.name == _SEED]
        shift = tf.stack([rank * _SEED_STRIDE, 0])
        shifted = {id(seed): seed.value + tf.cast(shift, seed.dtype) for seed in seeds}
        # In Keras's own scope assignments are kept aside: the variables stay as they are.
        scope = keras.StatelessScope(collect_losses=True)
        scope.state_mapping.update(values | shifted)
        with self._tracing, scope:
            batch = Batch(features, labels, weights, tf.cast(share, keras.config.floatx()))
            loss, gradients = self._gradients(self._model, batch)
        new = scope.state_mapping
        moved = [v for v in self._model.variables if v.name != _SEED and new[id(v)] is not values[id(v)]]
        layout = self._layout = _Layout.of(gradients, moved, seeds)
        parts = [gradients[i] for i in layout.dense]
        parts += [new[id(variable)] * tf.cast(share, variable.dtype) for variable in moved]
        parts += [loss, flag]
        sums = tf.concat([tf.reshape(tf.cast(part, self._dtype), [-1]) for part in parts], 0)
        next_seeds = [values[id(seed)] + new[id(seed)] - shifted[id(seed)] for seed in seeds]
        if not layout.tables:
            return sums, next_seeds, ()
        return sums, next_seeds, TableRows.joined([gradients[i] for i in layout.tables], self._dtype)

    def _apply_sums(self, sums: tf.Tensor, seeds: list[tf.Tensor], tables: list[tuple[tf.Tensor, tf.Tensor]]) -> None:
        """Graph code: one step of the optimizers, and what layers moved."""
        layout = self._layout
        dense = [self._variables[i] for i in layout.dense]
        sizes = [int(np.prod(variable.shape)) for variable in (*dense, *layout.moved)]
        pieces = [
            tf.cast(tf.reshape(piece, variable.shape), variable.dtype)
            for piece, variable in zip(tf.split(sums, [*sizes, 2]), (*dense, *layout.moved), strict=False)
        ]
        gradients: list[Any] = [None] * len(self._variables)
        for i, piece in zip(layout.dense, pieces, strict=False):
            gradients[i] = piece
        for i, (indices, values) in zip(layout.tables, tables, strict=True):
            table = self._variables[i]
            gradients[i] = tf.IndexedSlices(tf.cast(values, table.dtype), indices, tf.constant(tuple(table.shape)))
        with self._tracing:
            self._updates.apply(gradients)
        for variable, piece in zip(layout.moved, pieces[len(dense) :], strict=True):
            variable.assign(piece)
        for seed, value in zip(layout.seeds, seeds, strict=True):
            seed.assign(value)


@lru_cache(64)
def _control(share: float, flag: bool, dtype: tf.DType) -> tf.Tensor:
    return tf.constant([share, float(flag)], dtype)


@lru_cache(64)
def _integer(value: int) -> tf.Tensor:
    return tf.constant(value, tf.int64)


class _Memory:
    """A tensor's memory, for numpy to write to."""

    def __init__(self, tensor: tf.Tensor) -> None:
        self.tensor = tensor
        interface = dict(np.asarray(memoryview(tensor)).__array_interface__)
        self.__array_interface__ = interface | {"data": (interface["data"][0], False)}


def _writable(tensor: tf.Tensor) -> NDArray[Any]:
    """A tensor as an array that is written in place. The tensor must be a function's result, nobody else's memory."""
    return np.asarray(_Memory(tensor))
