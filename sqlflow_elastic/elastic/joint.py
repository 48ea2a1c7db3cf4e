"""Training steps, taken together by the members of a world.

A member computes the gradients of its slice of the global batch, the members sum them up, and every member applies the
same sums. Nothing but the last part touches a variable, so a step that breaks on the way has not happened.

Many steps run in one call of a graph, in a loop whose body asks Python for the sums: what a call costs, above all in a
model of many variables, is paid once in many steps, as by a process that trains alone.

Rows of served tables come from servers: a step's body gives them their gradients and gets the next step's rows
(`served`, `tables`).

Large dense gradients travel as they are. Small ones travel in one vector; behind them, in full precision, what layers
moved (the moving statistics of batch normalization), the loss, and a flag. Gradients of tables travel as rows, in the
order of the slices, which is the order of the batch: lazy row updates must see exactly the rows that the batch names.
A table of few rows travels whole, in the small vector, where that is less (`table_rows`).

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sqlflow_elastic.elastic.batch import Batch, Gradients
from sqlflow_elastic.elastic.comm.alone import Alone
from sqlflow_elastic.elastic.comm.base import Place, WorldBroken
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.feed import Feed
from sqlflow_elastic.elastic.layout import Layout, elements
from sqlflow_elastic.elastic.optimizers import Updates
from sqlflow_elastic.elastic.replica import Exchange
from sqlflow_elastic.elastic.sampling import Rows
from sqlflow_elastic.elastic.served import IDS, CallSteps, ServedTables, StandInTables
from sqlflow_elastic.elastic.slice_gradients import slice_gradients
from sqlflow_elastic.elastic.stand_ins import stand_ins
from sqlflow_elastic.elastic.table_rows import TableRows, touched_rows, whole_size, whole_table
from sqlflow_elastic.elastic.tables.access import Tables
from sqlflow_elastic.elastic.ways import Losses, operations, specs, steps_per_call
from sqlflow_elastic.errors import JobError

logger = logging.getLogger(__name__)

#: How the names of operations begin that write to variables.
_WRITES = ("Assign", "ResourceScatter", "ResourceApply", "ResourceStridedSliceAssign")
#: A graph for slices of one size is traced after so many seconds of steps of that size …
_STEADY_SECONDS = 10.0
#: … if what is left of training is so many times as long as a trace alone. Beside steps one takes three times as long,
#: and slows them down by half; it saves some 5 % in networks for images.
_TRACE_REPAYS = 60
#: Sizes of slices that there are graphs for, at most.
_MOST_SIZES = 4
_CLOSE_SECONDS = 5.0
#: TensorFlow takes over memory that begins at a multiple of this, and copies other.
_ALIGNMENT = 64


@dataclass(frozen=True)
class StepsDone:
    """What a call came to.

    Attributes:
        losses: the mean loss of each global batch whose step is done.
        flagged: whether any member raised its flag in the last of these steps.
        own: samples of this member's slices in them.
        own_seconds: what it worked on them, waiting for others left out.
        broken: why there are fewer than were wanted, if that is why.
    """

    losses: Losses
    flagged: bool
    own: int
    own_seconds: float
    broken: WorldBroken | None


class JointSteps:
    """Takes steps in worlds of any size and split.

    Args:
        model: built.
        gradients: a batch's loss and gradients.
        updates: applies gradients.
        dataset: where the samples are; all of them at every member.
        batch_size: the most samples of a step.
        tracing: held while the model's graph code runs.
        served: its tables that are on servers; None without.
    """

    def __init__(
        self,
        model: keras.Model,
        gradients: Gradients,
        updates: Updates,
        dataset: ArrayDataset,
        batch_size: int,
        tracing: threading.Lock,
        served: ServedTables | None = None,
    ) -> None:
        self._served = served
        self._model = model
        self._gradients = gradients
        self._updates = updates
        self._dataset = dataset
        self._batch_size = batch_size
        self._batch_bytes = dataset.row_bytes * batch_size
        self._most_rows = batch_size * steps_per_call(0.0, self._batch_bytes)
        self._tracing = tracing
        self._warming = threading.Lock()
        self._variables: list[keras.Variable] = list(model.trainable_variables)
        wide = "float64" in (keras.config.floatx(), *(variable.dtype for variable in self._variables))
        self._dtype = tf.float64 if wide else tf.float32
        self._layout = Layout()
        self._sums: list[NDArray[Any]] = []
        self._loops: dict[int | None, Any] = {}
        self._trace_seconds = 0.0
        self._step_seconds = 1.0
        self._spent: dict[int, float] = {}
        self._specializing: dict[int, threading.Thread] = {}
        self._call: _Call

    def warm_up(self) -> None:
        """Trace the graph and take a step on stand-ins, once. Changes no state; steps may be taken alone meanwhile.

        Raises:
            JobError: a layer moves a variable that members cannot have in common.
        """
        with self._warming:
            if not self._loops:
                began = time.perf_counter()
                self._feed = Feed(self._dataset, self._most_rows)
                loop = self._trace(None)
                self._trace_seconds = time.perf_counter() - began
                self._rehearse(loop)
                self._loops[None] = loop

    def _rehearse(self, loop: Any) -> None:
        """Take a step on stand-ins: those who wait for a member's first step wait for no kernel and no memory."""
        try:
            with stand_ins(loop, self._updates.state):
                self._call = _Call(Alone(Place(0, 0, 1, "")), lambda done: False)
                self._enter(loop, np.zeros((1, 1), np.int64), 0.0, self._place(0.0, 0), None)
        except (tf.errors.OpError, ValueError) as error:
            logger.debug("no step can be taken on stand-ins: %s", error)
        finally:
            del self._call

    def _enter(
        self, loop: Any, slices: Rows, scale: float, place: tuple[tf.Tensor, tf.Tensor], tables: Tables | None
    ) -> None:
        """Call the loop for slices of some rows, ``[steps, b]``; without tables, served ones stand still."""
        inputs: list[Any] = []
        if self._served is not None:
            lookups = self._served.lookups(self._dataset.features[IDS][slices])
            self._call.steps = CallSteps(self._served, tables or StandInTables(self._served), lookups)
            places = np.stack([lookup.places for lookup in lookups])
            inputs = [tf.convert_to_tensor(array) for array in (places, *self._call.steps.first())]
        loop(*self._feed.rows(slices, scale), *place, *inputs)

    def most(self, step: int) -> int:
        """How many steps a call is to take that begins after so many steps of training.

        Members that are about as fast end their calls after the same steps, so that none waits for what another does
        between two calls.
        """
        # A power of two: its multiples are those of the smaller ones.
        most = 1 << steps_per_call(self._step_seconds, self._batch_bytes).bit_length() - 1
        return most - step % most

    def run(
        self,
        world: Exchange,
        rows: Rows,
        bounds: Sequence[int],
        left: int,
        flag: Callable[[int], bool],
        tables: Tables | None = None,
    ) -> StepsDone:
        """Take steps: fewer than wanted if a flag is raised or the world breaks.

        Those done are applied, and nothing of another one is.

        Args:
            world: this member's.
            rows: ``[steps, b]``: of the global batches.
            bounds: where each rank's slice of a batch begins, see `sharing.bounds`.
            left: steps until training ends.
            flag: asked in each step, given how many of this call are done: what this member wants all to know after it.
            tables: where served tables are; None without any.

        Raises:
            JobError: see `warm_up`.
        """
        self.warm_up()
        rank = world.place.rank
        start, stop = bounds[rank], bounds[rank + 1]
        own, batch = stop - start, rows.shape[1]
        # An empty slice is one sample of the batch that weighs nothing.
        slices, scale = (rows[:, start:stop], 1 / batch) if own else (rows[:, :1], 0.0)
        loop = self._loops.get(slices.shape[1], self._loops[None])
        began = time.perf_counter()
        self._call = call = _Call(world, flag)
        broken = None
        try:
            self._enter(loop, slices, scale, self._place(own / batch, rank), tables)
        except WorldBroken as error:
            broken = error
        except tf.errors.OpError as error:
            if not isinstance(call.error, WorldBroken):
                raise call.error or error from None
            broken = call.error
        finally:
            del self._call
        seconds = time.perf_counter() - began
        done = len(call.losses)
        self._step_seconds = seconds / max(done, 1)
        self._specialize_if_it_pays(slices.shape[1], seconds, left * self._step_seconds)
        return StepsDone(np.array(call.losses), call.flagged, done * own, seconds - call.waited, broken)

    def close(self) -> None:
        """Wait for a graph that is being traced, for seconds at most: TensorFlow does not like to be left in that."""
        for thread in self._specializing.values():
            thread.join(_CLOSE_SECONDS)

    def _specialize_if_it_pays(self, size: int, seconds: float, left: float) -> None:
        """Trace a graph for slices of one size, beside training, if that goes on for long in slices of that size.

        A network with batch normalization computes hundreds of shapes in a graph for slices of any size.

        Args:
            size: samples of this call's slices.
            seconds: that it took.
            left: seconds until training ends.
        """
        self._spent[size] = self._spent.get(size, 0.0) + seconds
        known = self._specializing
        if size in known or len(known) == _MOST_SIZES or any(thread.is_alive() for thread in known.values()):
            return
        if self._spent[size] > _STEADY_SECONDS and left > self._trace_seconds * _TRACE_REPAYS:
            known[size] = threading.Thread(target=self._specialize, args=(size,), name="tracing", daemon=True)
            known[size].start()

    def _specialize(self, size: int) -> None:
        self._loops[size] = self._trace(size)

    def _place(self, share: float, rank: int) -> tuple[tf.Tensor, tf.Tensor]:
        return _scalar(share, self._dtype), _scalar(rank, tf.int64)

    def _trace(self, size: int | None) -> Any:
        """The loop for slices of so many samples, or of any number: traced and instantiated."""

        def loop(
            features: Any, labels: Any, weights: tf.Tensor, share: tf.Tensor, rank: tf.Tensor, *served: tf.Tensor
        ) -> tf.Tensor:
            def body(i: tf.Tensor, flagged: tf.Tensor, *rows: tf.Tensor) -> tuple[tf.Tensor, ...]:
                of_step = {name: stack[i] for name, stack in features.items()}, None if labels is None else labels[i]
                looked_up = (served[0][i], *rows) if served else ()
                vectors, seeds = self._gradients_of(*of_step, weights[i], share, rank, looked_up)
                self._check_writes()
                flagged, sums, tables, rows = self._exchanged(i, vectors, rows)
                # Not all of an update depends on sums: seeds and step counts do not.
                with tf.control_dependencies([flagged]):
                    self._apply_sums(sums, seeds, tables)
                return i + 1, flagged, *rows

            steps = tf.shape(weights)[0]
            start = tf.constant(0), tf.constant(False), *served[1:]
            shapes = tf.TensorShape(()), tf.TensorShape(()), *(tf.TensorShape((None, r.shape[1])) for r in served[1:])
            return tf.while_loop(lambda i, flagged, *_: (i < steps) & ~flagged, body, start, shape_invariants=shapes)[0]

        given: list[tf.TensorSpec] = [tf.TensorSpec((), self._dtype), tf.TensorSpec((), tf.int64)]
        nothing: list[Any] = [*self._place(0.0, 0)]
        if self._served is not None:
            places, *rows = self._served.input_specs
            given += [tf.TensorSpec((None, size, places.shape[1]), places.dtype), *rows]
            nothing += [np.zeros((0, size or 1, places.shape[1]), np.int32), *self._served.no_rows()]
        call = tf.function(loop, autograph=False).get_concrete_function(*specs(self._dataset, (None, size)), *given)
        # No step: it instantiates the graph.
        call(*self._feed.rows(np.zeros((0, size or 1), np.int64), 0.0), *map(tf.convert_to_tensor, nothing))
        return call

    def _check_writes(self) -> None:
        """Graph code, where nothing but gradients stands yet."""
        kinds = operations(tf.compat.v1.get_default_graph())
        writes = {kind for kind in kinds if kind.startswith(_WRITES)}
        if writes:
            raise JobError(
                f"a layer writes to TensorFlow variables of its own ({', '.join(sorted(writes))}): train alone"
            )

    def _gradients_of(
        self,
        features: Any,
        labels: Any,
        weights: tf.Tensor,
        share: tf.Tensor,
        rank: tf.Tensor,
        served: tuple[tf.Tensor, ...],
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Graph code: the vectors to exchange, and the seeds' new values.

        The vectors are the large gradients, what is small, the two vectors of tables' rows, if any; and for served
        tables the gradients of their rows, learning rates and optimizers' steps.
        """
        batch = Batch(features, labels, weights, tf.cast(share, keras.config.floatx()))
        said = slice_gradients(self._model, self._gradients, batch, rank, self._tracing, self._served, served)
        gradients = said.gradients
        moved, seeds = [variable for variable, _ in said.moved], [seed for seed, _ in said.seeds]
        layout = Layout.of(gradients, self._variables, self._dtype, moved, seeds, self._batch_size)
        self._layout = layout
        large = [self._vector(gradients[i]) for i in layout.large]
        small = [self._vector(gradients[i]) for i in layout.small]
        small += [whole_table(gradients[i], self._variables[i].shape, self._dtype) for i in layout.whole]
        if moved:
            small.append(share * tf.concat([self._vector(new) for _, new in said.moved], 0))
        # The flag's place is filled in when it is known.
        small += [self._vector(said.loss), tf.zeros(1, self._dtype)]
        rows = TableRows.joined([gradients[i] for i in layout.tables], self._dtype) if layout.tables else ()
        of_rows = [] if self._served is None else [*said.rows, *self._served.rates()]
        return [*large, tf.concat(small, 0), *rows, *of_rows], [new for _, new in said.seeds]

    def _vector(self, tensor: tf.Tensor) -> tf.Tensor:
        tensor = tf.cast(tensor, self._dtype)
        # A model may have hundreds of vectors, and each operation counts.
        return tensor if tensor.shape.rank == 1 else tf.reshape(tensor, [-1])

    def _exchanged(
        self, step: tf.Tensor, vectors: list[tf.Tensor], served: tuple[tf.Tensor, ...]
    ) -> tuple[tf.Tensor, list[tf.Tensor], list[tuple[tf.Tensor, tf.Tensor]], tuple[tf.Tensor, ...]]:
        """Graph code: whether a flag was raised, the sums of dense vectors, tables' indices and rows, the next rows.

        Takes the number of the step: a loop has it when the step before is applied as a whole.
        """
        layout = self._layout
        tables = len(layout.tables)
        if not self._sums:
            sizes = [elements(self._variables[i]) for i in layout.large]
            small = sum(elements(self._variables[i]) for i in layout.small)
            small += sum(whole_size(self._variables[i].shape) for i in layout.whole)
            self._sums = [_aligned(size, self._dtype) for size in (*sizes, small + layout.exact)]
            self._table_rows = TableRows([tuple(self._variables[i].shape) for i in layout.tables], self._dtype)
        dtypes = [tf.bool, *[self._dtype] * len(self._sums), *[tf.int64, self._dtype] * tables]
        flagged, *given = tf.numpy_function(self._exchange, [step, *vectors], dtypes + [each.dtype for each in served])
        flagged.set_shape(())
        dense, last = len(self._sums), len(self._sums) + 2 * tables
        sums, rows, next_rows = given[:dense], given[dense:last], given[last:]
        for tensor, before in zip(next_rows, served, strict=True):
            tensor.set_shape((None, before.shape[1]))
        for tensor, array in zip(sums, self._sums, strict=True):
            tensor.set_shape(array.shape)
        for i, indices, values in zip(layout.tables, rows[::2], rows[1::2], strict=True):
            indices.set_shape((None,))
            values.set_shape((None, *self._variables[i].shape[1:]))
        return flagged, sums, list(zip(rows[::2], rows[1::2], strict=True)), tuple(next_rows)

    def _exchange(self, step: int, *vectors: NDArray[Any]) -> list[Any]:
        """What the loop asks Python for in each step, see `_exchanged`."""
        call, began = self._call, time.perf_counter()
        dense, last = len(self._sums), len(self._sums) + 2 * bool(self._layout.tables)
        vectors, rows, of_rows = vectors[:dense], vectors[dense:last], vectors[last:]
        steps = call.steps
        try:
            if steps is not None:
                steps.push(step, of_rows[:-2], *of_rows[-2:])
            vectors[-1][-1] = call.flag(len(call.losses))
            call.world.allreduce(vectors, self._sums, self._layout.exact)
            tables = self._table_rows.gathered(call.world, *rows) if rows else []
            served = [] if steps is None else steps.applied(step)
        except BaseException as error:
            call.error = error  # TensorFlow makes another one of it
            raise
        call.losses.append(float(self._sums[-1][-2]))
        call.flagged = bool(self._sums[-1][-1] > 0)
        call.waited += time.perf_counter() - began
        return [call.flagged, *self._sums, *tables, *served]

    def _apply_sums(
        self, sums: list[tf.Tensor], seeds: list[tf.Tensor], tables: list[tuple[tf.Tensor, tf.Tensor]]
    ) -> None:
        """Graph code: one step of the optimizers, and what layers moved."""
        layout = self._layout
        *large, small = sums
        sizes = [elements(self._variables[i]) for i in layout.small]
        sizes += [whole_size(self._variables[i].shape) for i in layout.whole]
        *pieces, _ = tf.split(small, [*sizes, *map(elements, layout.moved), 2])
        gradients: list[Any] = [None] * len(self._variables)
        for i, piece in zip(layout.small, pieces, strict=False):
            gradients[i] = _shaped(piece, self._variables[i])
        for i, piece in zip(layout.whole, pieces[len(layout.small) :], strict=False):
            gradients[i] = touched_rows(piece, self._variables[i])
        for i, vector in zip(layout.large, large, strict=True):
            variable = self._variables[i]
            # The sums' memory is used again: nothing may keep it.
            whole = vector if self._updates.only_reads_gradients(variable) else tf.raw_ops.DeepCopy(x=vector)
            gradients[i] = _shaped(whole, variable)
        for i, (indices, values) in zip(layout.tables, tables, strict=True):
            table = self._variables[i]
            gradients[i] = tf.IndexedSlices(tf.cast(values, table.dtype), indices, tf.constant(tuple(table.shape)))
        with self._tracing:
            self._updates.apply(gradients)
        for variable, piece in zip(layout.moved, pieces[len(sizes) :], strict=True):
            variable.assign(_shaped(piece, variable))
        for seed, value in zip(layout.seeds, seeds, strict=True):
            seed.assign(value)


@dataclass
class _Call:
    """What goes on in one call."""

    world: Exchange
    flag: Callable[[int], bool]
    steps: CallSteps | None = None
    losses: list[float] = field(default_factory=list)
    flagged: bool = False
    waited: float = 0.0
    error: BaseException | None = None


def _shaped(vector: tf.Tensor, variable: keras.Variable) -> tf.Tensor:
    tensor = vector if len(variable.shape) == 1 else tf.reshape(vector, variable.shape)
    return tf.cast(tensor, variable.dtype)


@lru_cache(64)
def _scalar(value: float, dtype: tf.DType) -> tf.Tensor:
    return tf.constant(value, dtype)


def _aligned(length: int, dtype: tf.DType) -> NDArray[Any]:
    """A vector that TensorFlow takes over as it is."""
    memory = np.empty(length * dtype.size + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + length * dtype.size].view(dtype.as_numpy_dtype)
