"""Processes that train side by side, each pinned to a core, and how fast they are while all of them train.

    python -m benchmarks.peers trainer  CASE BATCH CORE
    python -m benchmarks.peers mirrored CASE BATCH CORE VARIANT

The first is this project's trainer, alone; the second one worker of TensorFlow's MultiWorkerMirroredStrategy, TF_CONFIG
says which.

CASE is one of `throughput`'s, BATCH its rows per process and step. Each trains until it is killed, and prints a line of
JSON whenever it knows how far it has come, once it has found its speed. `side_by_side` starts such processes and
compares these lines over a stretch of time in which all of them trained, by the clock that they share.
"""

from __future__ import annotations

import dataclasses
import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Any

from benchmarks.throughput import CASES, STEPS, Case
from sqlflow_elastic.events import Event, Progress

CORES = sorted(os.sched_getaffinity(0))
_REPORT_SECONDS = 0.1
_WARM_UP_STEPS = 32


class Variant(StrEnum):
    """How a person would write the loop of a MultiWorkerMirroredStrategy."""

    #: A `tf.function` of one step.
    STEP = "step"
    #: The same of 16 steps.
    STEPS = "steps"


@dataclass(frozen=True)
class Mark:
    """How far a process has come: samples trained on and seconds of CPU time, at a time by `time.monotonic`."""

    at: float
    samples: float
    cpu: float


@dataclass(frozen=True)
class Speed:
    """Samples and seconds of CPU time in a second, of all processes together.

    With as many cores as processes that never wait, ``cores`` tells whether other work disturbed them.
    """

    samples: float
    cores: float


@dataclass(frozen=True)
class Command:
    """One process: arguments of Python, and variables set besides."""

    arguments: Sequence[str]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


def trainers(case: str, batch_size: int) -> list[Command]:
    """A trainer alone on each of two cores."""
    return [Command(("-m", "benchmarks.peers", "trainer", case, str(batch_size), str(core))) for core in CORES[:2]]


def mirrored(case: str, batch_size: int, variant: Variant) -> list[Command]:
    """Two workers of a MultiWorkerMirroredStrategy, one on each of two cores."""
    sockets = [socket.socket() for _ in range(2)]
    for listener in sockets:
        listener.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{listener.getsockname()[1]}" for listener in sockets]
    for listener in sockets:
        listener.close()
    return [
        Command(
            ("-m", "benchmarks.peers", "mirrored", case, str(batch_size), str(core), variant),
            {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})},
        )
        for index, core in enumerate(CORES[:2])
    ]


def side_by_side(
    commands: Sequence[Command], seconds: float, deadline: float = 900.0, helpers: Sequence[Command] = ()
) -> Speed:
    """Their speed over so many seconds in which all of them trained. Then all are killed, and their helpers too.

    Raises:
        RuntimeError: one ended before, or did not come so far within the deadline, in seconds; with what they printed.
    """
    with tempfile.TemporaryFile() as errors:
        processes = [
            subprocess.Popen(
                [sys.executable, *command.arguments],
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **command.environment},
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            for command in (*helpers, *commands)
        ]
        try:
            outputs = [process.stdout for process in processes[len(helpers) :] if process.stdout]
            return _speed(outputs, seconds, deadline)
        except RuntimeError as error:
            errors.seek(0)
            raise RuntimeError(f"{error}\n{errors.read().decode(errors='replace')}") from None
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.communicate()


def _speed(outputs: Sequence[IO[bytes]], seconds: float, deadline: float) -> Speed:
    marks: list[list[Mark]] = [[] for _ in outputs]
    end = time.monotonic() + deadline
    with selectors.DefaultSelector() as selector:
        for index, output in enumerate(outputs):
            selector.register(output, selectors.EVENT_READ, index)
        while not all(marks) or min(m[-1].at for m in marks) - max(m[0].at for m in marks) < seconds:
            ready = selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise RuntimeError(f"not measured after {deadline:.0f} s")
            for key, _ in ready:
                # A process writes a line at once, and waits for nothing.
                line = outputs[key.data].readline()
                if not line:
                    raise RuntimeError("a process ended before it was measured")
                marks[key.data].append(Mark(**json.loads(line)))
    begin, last = max(m[0].at for m in marks), min(m[-1].at for m in marks)
    pairs = [(_mark_at(m, begin), _mark_at(m, last)) for m in marks]
    samples = sum(end.samples - start.samples for start, end in pairs)
    cpu = sum(end.cpu - start.cpu for start, end in pairs)
    return Speed(samples / (last - begin), cpu / (last - begin))


def _mark_at(marks: Sequence[Mark], at: float) -> Mark:
    """Between two marks, as if samples came evenly."""
    later = next(index for index, mark in enumerate(marks) if mark.at >= at)
    after, before = marks[later], marks[max(0, later - 1)]
    part = (at - before.at) / (after.at - before.at) if after.at > before.at else 0.0
    samples = before.samples + part * (after.samples - before.samples)
    return Mark(at, samples, before.cpu + part * (after.cpu - before.cpu))


def _report(samples: int) -> None:
    print(json.dumps(dataclasses.asdict(Mark(time.monotonic(), samples, time.process_time()))), flush=True)


def run_trainer(case: Case) -> None:
    """This project's trainer, from when it has chosen its way."""
    import keras
    import tensorflow as tf

    from sqlflow_elastic.elastic import Batch, TrainSettings
    from sqlflow_elastic.elastic.dataset import ArrayDataset
    from sqlflow_elastic.elastic.trainer import Trainer

    model = case.build(keras.layers.Embedding)
    loss_of = case.loss(from_logits=True, reduction="none")

    def gradients(model: Any, batch: Batch) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(batch.weights * loss_of(batch.labels, model(batch.features, training=True)))
        return loss, tape.gradient(loss, model.trainable_variables)

    def tell(event: Event) -> None:
        if isinstance(event, Progress) and trainer.way is not None:
            _report(event.done * case.batch_size)

    trainer = Trainer(
        model,
        gradients,
        [(keras.optimizers.Adam(), model.trainable_variables)],
        ArrayDataset(case.features, case.labels),
        TrainSettings(epochs=STEPS, max_steps=STEPS, batch_size=case.batch_size),
        emit=tell,
    )
    trainer.run()


def run_mirrored(case: Case, variant: Variant) -> None:
    """A worker of TensorFlow's strategy. Rows are drawn inside the function, from arrays that it holds."""
    import keras
    import tensorflow as tf

    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    with strategy.scope():
        model = case.build(keras.layers.Embedding)
        optimizer = keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
    loss_of = case.loss(from_logits=True, reduction="none")
    features = {name: tf.constant(array) for name, array in case.features.items()}
    labels = tf.constant(case.labels)
    whole_batch = case.batch_size * strategy.num_replicas_in_sync

    def step() -> Any:
        rows = tf.random.uniform((case.batch_size,), 0, len(case.labels), tf.int32)
        batch = {name: tf.gather(array, rows) for name, array in features.items()}
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loss_of(tf.gather(labels, rows), model(batch, training=True))) / whole_batch
        # The optimizer sums the gradients of all workers.
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    steps = 16 if variant is Variant.STEPS else 1

    @tf.function  # type: ignore[untyped-decorator]
    def execute() -> Any:
        loss = tf.constant(0.0)
        for _ in tf.range(steps):
            loss = strategy.run(step)
        return loss

    done = -_WARM_UP_STEPS * case.batch_size
    reported = 0.0
    while True:
        float(execute())
        done += steps * case.batch_size
        if done >= 0 and time.monotonic() - reported >= _REPORT_SECONDS:
            _report(done)
            reported = time.monotonic()


def main() -> int:
    """Train until killed."""
    if len(sys.argv) == 1:
        print(__doc__)
        return 0
    way, name, batch_size, core, *variant = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})
    case = dataclasses.replace(CASES[name](), batch_size=int(batch_size))
    if way == "mirrored":
        run_mirrored(case, Variant(variant[0]))
    else:
        run_trainer(case)
    return 1


if __name__ == "__main__":
    sys.exit(main())
