"""Training throughput on one pinned core: the runtime's trainer against the best of Keras's own ways.

Same model, arrays, batch size and optimizer (Adam, 0.001). The trainer chooses its way to run steps by itself, as in
any job. Keras runs `fit` with 1 and with 16 steps per execution, and a hand-written loop over a `tf.function`; each
with and without XLA. All take turns in one process; medians are reported. Time is the process's CPU time, all threads:
on the one core it is what an idle core's clock would show, and other processes on the machine do not blur it. What
Keras needs to start (tracing, compilation, the first batches of a `fit`) does not count against it.

The DeepFM's tables are plain `keras.layers.Embedding` layers for Keras. For the trainer the same layer looks its rows
up in the variable itself, as this project's models do: Keras's own lookup reads the whole table first.

    python -m benchmarks.throughput [mlp] [mobilenet] [deepfm]

Exit code 1 if a ratio is below the bound.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlflow_elastic.errors import JobCancelled
from sqlflow_elastic.events import Event, Progress

BOUND = 0.95
ROUNDS = 5
TURN_SECONDS = 1.5
#: A way of Keras that reaches less than this part of its best one is measured once only.
CONTENDER = 0.7
#: Steps the trainer is told to run: a long job, as those are for which throughput matters.
STEPS = 1_000_000


@dataclass(frozen=True)
class Case:
    """A model and its rows.

    Attributes:
        build: the model, given the class of its embedding layers.
        features, labels: arrays.
        loss: a Keras loss class.
    """

    build: Callable[[Any], Any]
    features: dict[str, Any]
    labels: Any
    loss: Any
    batch_size: int


def pin() -> None:
    """Stay on one core, before TensorFlow counts them."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def mlp() -> Case:
    import keras
    import numpy as np

    def build(embedding: Any) -> Any:
        x = inputs = keras.Input((64,), name="x")
        for _ in range(2):
            x = keras.layers.Dense(512, activation="relu")(x)
        return keras.Model({"x": inputs}, keras.layers.Dense(10)(x))

    rng = np.random.default_rng(0)
    x = rng.normal(size=(100_000, 64)).astype(np.float32)
    labels = x[:, :10].argmax(axis=1).astype(np.int32)
    return Case(build, {"x": x}, labels, keras.losses.SparseCategoricalCrossentropy, 64)


def mobilenet() -> Case:
    import keras
    import numpy as np

    def build(embedding: Any) -> Any:
        inputs = keras.Input((32, 32, 3), name="image")
        network = keras.applications.MobileNetV2(
            (32, 32, 3), alpha=0.35, weights=None, classes=10, classifier_activation=None
        )
        return keras.Model({"image": inputs}, network(inputs))

    rng = np.random.default_rng(0)
    images = rng.normal(size=(8_192, 32, 32, 3)).astype(np.float32)
    labels = rng.integers(0, 10, 8_192).astype(np.int32)
    return Case(build, {"image": images}, labels, keras.losses.SparseCategoricalCrossentropy, 32)


def deepfm() -> Case:
    import keras
    import numpy as np

    fields, ids, size, numbers = 26, 100_000, 16, 13

    def build(embedding: Any) -> Any:
        categories = keras.Input((fields,), dtype="int32", name="categories")
        values = keras.Input((numbers,), name="numbers")
        vectors = [embedding(ids, size)(categories[:, field]) for field in range(fields)]
        first = [embedding(ids, 1)(categories[:, field]) for field in range(fields)]
        stacked = keras.ops.stack(vectors, axis=1)
        total = keras.ops.sum(stacked, axis=1)
        squares = keras.ops.sum(stacked * stacked, axis=1)
        pairs = 0.5 * keras.ops.sum(total * total - squares, axis=1, keepdims=True)
        x = keras.layers.Concatenate()([*vectors, values])
        for units in (128, 64):
            x = keras.layers.Dense(units, activation="relu")(x)
        logit = keras.layers.Dense(1)(x) + keras.layers.Dense(1)(values) + pairs + keras.layers.Add()(first)
        return keras.Model({"categories": categories, "numbers": values}, logit)

    rng = np.random.default_rng(0)
    rows = 100_000
    values = rng.normal(size=(rows, numbers)).astype(np.float32)
    features = {"categories": rng.integers(0, ids, (rows, fields)).astype(np.int32), "numbers": values}
    return Case(build, features, (values[:, :1] > 0).astype(np.float32), keras.losses.BinaryCrossentropy, 512)


CASES = {"mlp": mlp, "mobilenet": mobilenet, "deepfm": deepfm}


Measure = Callable[[float], float]
"""Trains for some seconds; returns the samples a second."""


def keras_fit(case: Case, model: Any, optimizer: Any, steps_per_execution: int, xla: bool) -> Measure:
    """`fit`, measured from the end of its first call on."""
    import keras

    class Clock(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self, seconds: float) -> None:
            super().__init__()
            self.seconds = seconds
            self.begun: float | None = None
            self.steps = 0
            self.before = -1

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.before = -1

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            now = time.process_time()
            if self.begun is None:
                self.begun = now
            else:
                self.steps += batch - self.before
                self.elapsed = now - self.begun
                self.model.stop_training = self.elapsed > self.seconds
            self.before = batch

    inputs = {tensor.name: tensor for tensor in model.inputs}
    clone = keras.Model(inputs, model.output)
    clone.compile(optimizer, case.loss(from_logits=True), jit_compile=xla, steps_per_execution=steps_per_execution)

    def measure(seconds: float) -> float:
        clock = Clock(seconds)
        clone.fit(case.features, case.labels, case.batch_size, epochs=1_000, verbose=0, callbacks=[clock])
        return clock.steps * case.batch_size / clock.elapsed

    return measure


def keras_loop(case: Case, model: Any, optimizer: Any, xla: bool) -> Measure:
    """A loop over a `tf.function`, as one writes it by hand."""
    import numpy as np
    import tensorflow as tf

    loss_of = case.loss(from_logits=True)
    rng = np.random.default_rng(0)

    @tf.function(jit_compile=xla)  # type: ignore[untyped-decorator]
    def step(features: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(features, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    def epoch() -> Iterator[Any]:
        order = rng.permutation(len(case.labels))
        for start in range(0, len(order) - case.batch_size + 1, case.batch_size):
            rows = order[start : start + case.batch_size]
            yield (
                {name: tf.constant(array[rows]) for name, array in case.features.items()},
                tf.constant(case.labels[rows]),
            )

    batches = itertools.chain.from_iterable(epoch() for _ in itertools.count())

    def measure(seconds: float) -> float:
        step(*next(batches))
        begun = time.process_time()
        steps = 0
        while time.process_time() - begun < seconds:
            float(step(*next(batches)))
            steps += 1
        return steps * case.batch_size / (time.process_time() - begun)

    return measure


class Turns:
    """Takes the trainer's events, and lets the others have their turns in between, once it has chosen its way."""

    def __init__(self, others: dict[str, Measure]) -> None:
        self.trainer: Any = None
        self.ours: list[float] = []
        self.theirs: dict[str, list[float]] = {name: [] for name in others}
        self.chosen_after: float | None = None
        self._others = others
        self._created = time.process_time()
        self._mark: tuple[float, int] | None = None

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Progress) or self.trainer.way is None:
            return
        now = time.process_time()
        if self._mark is None:
            self.chosen_after = now - self._created
        elif now - self._mark[0] < TURN_SECONDS:
            return
        else:
            self.ours.append((event.done - self._mark[1]) / (now - self._mark[0]))
            self._others_turn()
            if len(self.ours) == ROUNDS:
                self.trainer.stop()
        self._mark = (time.process_time(), event.done)

    def _others_turn(self) -> None:
        best = max((statistics.median(speeds) for speeds in self.theirs.values() if speeds), default=0.0)
        for name, measure in self._others.items():
            speeds = self.theirs[name]
            if not speeds or statistics.median(speeds) > CONTENDER * best:
                speeds.append(measure(TURN_SECONDS))


def run(name: str) -> int:
    """One case. Returns the exit code."""
    import keras
    import tensorflow as tf

    from sqlflow_elastic.elastic import Batch, TrainSettings
    from sqlflow_elastic.elastic.dataset import ArrayDataset
    from sqlflow_elastic.elastic.trainer import Trainer

    class TableEmbedding(keras.layers.Embedding):  # type: ignore[misc]
        def call(self, ids: Any) -> Any:
            return tf.gather(self.embeddings.value, ids)

    case = CASES[name]()
    keras.utils.set_random_seed(0)
    model = case.build(keras.layers.Embedding)
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    others: dict[str, Measure] = {}
    for xla in (False, True):
        suffix = " XLA" if xla else ""
        others[f"fit{suffix}"] = keras_fit(case, model, optimizer, 1, xla)
        others[f"fit, 16 steps{suffix}"] = keras_fit(case, model, optimizer, 16, xla)
        others[f"tf.function{suffix}"] = keras_loop(case, model, optimizer, xla)
    ours = case.build(TableEmbedding)
    loss_of = case.loss(from_logits=True, reduction="none")

    def gradients(model: Any, batch: Batch) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(batch.weights * loss_of(batch.labels, model(batch.features, training=True)))
        return loss, tape.gradient(loss, model.trainable_variables)

    turns = Turns(others)
    turns.trainer = Trainer(
        ours,
        gradients,
        [(keras.optimizers.Adam(), ours.trainable_variables)],
        ArrayDataset(case.features, case.labels),
        TrainSettings(epochs=STEPS, max_steps=STEPS, batch_size=case.batch_size),
        emit=turns,
    )
    with contextlib.suppress(JobCancelled):
        turns.trainer.run()
    return report(name, case.batch_size, turns)


def report(name: str, batch_size: int, turns: Turns) -> int:
    ours = statistics.median(turns.ours) * batch_size
    print(f"{name}: {turns.trainer.way}, chosen after {turns.chosen_after:.0f} s of CPU time")
    print(f"  {'trainer':24} {ours:10,.0f} samples/s")
    best = 0.0
    for way, speeds in turns.theirs.items():
        speed = statistics.median(speeds)
        best = max(best, speed)
        print(f"  {way:24} {speed:10,.0f} samples/s{'' if len(speeds) > 1 else '   (one turn)'}")
    ratio = ours / best
    print(f"  trainer / best of Keras: {ratio:.2f} (bound {BOUND}){'' if ratio >= BOUND else '   MISSED'}", flush=True)
    return int(ratio < BOUND)


def main() -> int:
    names = sys.argv[1:] or list(CASES)
    if len(names) == 1:
        pin()
        return run(names[0])
    command = [sys.executable, "-m", "benchmarks.throughput"]
    return max(subprocess.run([*command, name], check=False).returncode for name in names)


if __name__ == "__main__":
    sys.exit(main())
