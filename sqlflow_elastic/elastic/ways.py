"""Ways to run the same steps: one a call or many, compiled by XLA or not.

All of them compute the same sums in the same order of steps; floats may be rounded differently between them (XLA fuses
operations), never between two runs of one. Training mostly small steps is bound by what a call costs, hence many steps
a call; XLA fuses small operations and makes some large ones slower (convolutions on a CPU), so only a measurement tells
(see `choosing`).
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sqlflow_elastic.elastic.batch import Batch
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.feed import Feed
from sqlflow_elastic.elastic.sampling import Rows
from sqlflow_elastic.elastic.stand_ins import stand_ins

logger = logging.getLogger(__name__)

Losses = NDArray[np.float64]

#: A call runs at most this long, so that progress, checkpoints and a stop are prompt.
_CALL_SECONDS = 0.2
#: Steps a call: more gain nothing measurable.
_MOST_STEPS = 32
#: Bytes of a call's batches, at most.
_CALL_BYTES = 64 * 2**20


class Kind(StrEnum):
    """How a call runs its steps."""

    #: One step a call, of any number of samples.
    SINGLE = "single"
    #: Up to K steps of whole batches a call, in a loop inside the graph.
    FUSED = "fused"
    #: The same, compiled by XLA.
    XLA = "xla"


@dataclass(frozen=True)
class Way:
    """A kind and the most steps a call; as text "single", "fused-16", "xla-32"."""

    kind: Kind
    steps: int = 1

    def __str__(self) -> str:
        return str(self.kind) if self.kind is Kind.SINGLE else f"{self.kind}-{self.steps}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The way that a text names. Raises: ValueError: it names none."""
        match = re.fullmatch(r"single|(fused|xla)-([1-9]\d*)", text)
        if match is None:
            raise ValueError(
                f'no way to run steps: {text!r}; there are "single", "fused-K" and "xla-K", such as "fused-16"'
            )
        return cls(Kind(match[1]), int(match[2])) if match[1] else cls(Kind.SINGLE)


class Runner:
    """Runs steps of one dataset in one way.

    Args:
        way: how.
        step: graph code: takes a batch, updates the model, returns the batch's loss (scalar).
        dataset: where the samples are.
        batch_size: samples of a whole batch.

    Attributes:
        way: how.
    """

    def __init__(self, way: Way, step: Callable[[Batch], tf.Tensor], dataset: ArrayDataset, batch_size: int) -> None:
        self.way = way
        self._step = step
        self._batch_size = batch_size
        self._feed = Feed(dataset, way.steps * batch_size)
        self._call: Any = None
        self._specs = specs(dataset, (None,) if way.kind is Kind.SINGLE else (way.steps, batch_size))

    def trace(self) -> None:
        """Build the graph; training's state does not change."""
        if self._call is None:
            function = self._one if self.way.kind is Kind.SINGLE else self._many
            specs = self._specs if self.way.kind is Kind.SINGLE else (*self._specs, tf.TensorSpec((), tf.int32))
            xla = self.way.kind is Kind.XLA
            self._call = tf.function(function, jit_compile=xla or None, autograph=False).get_concrete_function(*specs)

    def run(self, indices: Rows) -> Losses:
        """Train on these rows, batch after batch. Returns each batch's loss.

        Args:
            indices: the rows of one batch of any size ("single"), or of 1 to K whole batches.
        """
        self.trace()
        if self.way.kind is Kind.SINGLE:
            return np.array([self._call(*self._feed.rows(indices, 1 / len(indices)))], np.float64)
        steps = len(indices) // self._batch_size
        losses = self._call(*self._feed.stacked(indices, self._batch_size), tf.constant(steps))
        return losses.numpy()[:steps].astype(np.float64)  # type: ignore[no-any-return]

    def operations(self) -> list[str]:
        """The kinds of all operations in the graph."""
        self.trace()
        return list(operations(self._call.graph))

    def compile(self, state: list[tf.Variable]) -> Compilation:
        """Do what a traced way needs before its first step, beside training, which may go on in this thread.

        Args:
            state: every variable that a step reads or writes.
        """
        self.trace()
        compilation = Compilation(self._call, state)
        if self.way.kind is Kind.XLA:
            compilation.begin((*self._feed.stacked(np.zeros(0, np.int64), self._batch_size), tf.constant(0)))
        return compilation

    def _one(self, features: Any, labels: Any, weights: tf.Tensor) -> tf.Tensor:
        return self._step(Batch(features, labels, weights, tf.ones((), keras.config.floatx())))

    def _many(self, features: Any, labels: Any, weights: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
        def body(i: tf.Tensor, losses: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            of_step = {name: stack[i] for name, stack in features.items()}
            loss = self._one(of_step, None if labels is None else labels[i], weights[i])
            return i + 1, tf.tensor_scatter_nd_update(losses, [[i]], [tf.cast(loss, losses.dtype)])

        losses = tf.zeros(self.way.steps, keras.config.floatx())
        return tf.while_loop(lambda i, _: i < steps, body, (tf.constant(0), losses))[1]


class Compilation:
    """A compilation by XLA in a thread of its own. A process that ends waits for it.

    XLA compiles at a function's first call, and a call takes and replaces all variables of a step. So that call gets
    stand-ins for them, and runs no step: training goes on undisturbed.

    Attributes:
        error: why it failed; None while it runs and when it succeeded.
    """

    def __init__(self, function: Any, state: list[tf.Variable]) -> None:
        self.error: Exception | None = None
        self._function = function
        self._state = state
        self._thread: threading.Thread | None = None

    def begin(self, inputs: tuple[Any, ...]) -> None:
        """Start, with inputs that make the function run no step."""
        self._thread = threading.Thread(target=self._run, args=(inputs,), name="xla-compilation")
        self._thread.start()

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._thread is not None and self._thread.is_alive()

    def join(self) -> None:
        """Wait for its end."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, inputs: tuple[Any, ...]) -> None:
        try:
            with stand_ins(self._function, self._state):
                self._function(*inputs)
        except Exception as error:  # noqa: BLE001 - an operation without a kernel, out of memory …: the way is dropped
            logger.debug("XLA does not compile the step: %s", error)
            self.error = error


def steps_per_call(step_seconds: float, batch_bytes: int) -> int:
    """How many steps a call is to take, where one takes so long and so many bytes of rows. At least one."""
    return max(1, int(min(_CALL_SECONDS / max(step_seconds, 1e-9), _CALL_BYTES / batch_bytes, _MOST_STEPS)))


def specs(dataset: ArrayDataset, leading: tuple[int | None, ...]) -> tuple[Any, Any, Any]:
    """The specs of features, labels and weights, whose first sizes these are; None: any size."""

    def spec(array: NDArray[Any]) -> tf.TensorSpec:
        return tf.TensorSpec((*leading, *array.shape[1:]), tf.as_dtype(array.dtype))

    features = {name: spec(array) for name, array in dataset.features.items()}
    labels = None if dataset.labels is None else spec(dataset.labels)
    return features, labels, tf.TensorSpec(leading, keras.config.floatx())


def operations(graph: tf.Graph) -> Iterator[str]:
    """The kind of every operation of a graph and of the functions that it calls."""
    definition = graph.as_graph_def()
    for nodes in (definition.node, *(function.node_def for function in definition.library.function)):
        for node in nodes:
            yield node.op
