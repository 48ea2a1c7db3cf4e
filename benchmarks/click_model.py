"""A DeepFM over 26 tables of a million ids, as three programs train it: an elastic job, one process, and TensorFlow.

    python -m benchmarks.click_model alone WAY              this project's trainer, which holds its tables
    python -m benchmarks.click_model strategy TASK INDEX    a process of TensorFlow's ParameterServerStrategy

Both print a line of JSON, a `peers.Mark`, whenever they know how far training has come, until they are killed. Tables
have 16 numbers a row and a weight; ids are drawn by Zipf's law, 13 numbers a sample; a step is 512 samples of a worker.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import sys
import time
from typing import Any

import numpy as np

from benchmarks.peers import Mark

FIELDS, IDS, SIZE, NUMBERS = 26, 1_000_000, 16, 13
BATCH = 512
UNITS = (128, 64)
RATE = 0.01
_ROWS = 200_000
_ZIPF = 1.2
#: Steps in one call of TensorFlow's program.
_STEPS = 16


def arrays() -> tuple[dict[str, Any], Any]:
    """Features and labels."""
    rng = np.random.default_rng(0)
    ids = (rng.zipf(_ZIPF, (_ROWS, FIELDS)) % IDS).astype(np.int32)
    numbers = rng.normal(size=(_ROWS, NUMBERS)).astype(np.float32)
    labels = (numbers[:, :1] + 0.1 * (ids[:, :1] % 7 - 3) > 0).astype(np.float32)
    return {"ids": ids, "numbers": numbers}, labels


def network(served: bool) -> Any:
    """The model of this project's programs."""
    import keras
    from keras import ops

    from sqlflow_elastic.models.features.embedding import EmbeddingBag

    ids = keras.Input((FIELDS,), dtype="int32", name="ids")
    numbers = keras.Input((NUMBERS,), name="numbers")

    def bag(field: int, size: int, stream: int, initializer: Any = None) -> Any:
        layer = EmbeddingBag(
            IDS, size, "sum", initializer, columns=(field,), stream=stream, served=served, name=f"bag_{stream}"
        )
        return layer(ids[:, field : field + 1])

    vectors = [bag(field, SIZE, field) for field in range(FIELDS)]
    first = [bag(field, 1, FIELDS + field, "zeros") for field in range(FIELDS)]
    stacked = ops.stack(vectors, axis=1)
    pairs = ops.sum(ops.square(ops.sum(stacked, axis=1)) - ops.sum(ops.square(stacked), axis=1), axis=1, keepdims=True)
    x = keras.layers.Concatenate()([*vectors, numbers])
    for units in UNITS:
        x = keras.layers.Dense(units, activation="relu")(x)
    logit = keras.layers.Dense(1)(x) + keras.layers.Dense(1)(numbers) + 0.5 * pairs + keras.layers.Add()(first)
    return keras.Model({"ids": ids, "numbers": numbers}, logit)


def gradients(model: Any, batch: Any) -> tuple[Any, list[Any]]:
    """See `batch.Gradients`."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        losses = tf.nn.sigmoid_cross_entropy_with_logits(batch.labels, model(batch.features, training=True))
        loss = tf.reduce_sum(batch.weights * losses[:, 0])
    return loss, tape.gradient(loss, model.trainable_variables)


def trainer(served: bool, batch_size: int, way: str, tell: Any, **options: Any) -> Any:
    """This project's trainer."""
    import keras

    from sqlflow_elastic.elastic import TrainSettings
    from sqlflow_elastic.elastic.dataset import ArrayDataset
    from sqlflow_elastic.elastic.trainer import Trainer

    model = network(served)
    features, labels = arrays()
    optimizers = [(keras.optimizers.SGD(RATE), model.trainable_variables)]
    settings = TrainSettings(epochs=10_000, batch_size=batch_size, way=way, checkpoint_secs=None)
    return Trainer(model, gradients, optimizers, ArrayDataset(features, labels), settings, emit=tell, **options)


def mark(samples: float) -> None:
    """Print how far training is."""
    said = Mark(time.monotonic(), samples, time.process_time())
    print(json.dumps(dataclasses.asdict(said)), flush=True)


def alone(way: str) -> None:
    """One process, which holds the tables."""
    from sqlflow_elastic.events import Event, Progress

    def tell(event: Event) -> None:
        if isinstance(event, Progress) and event.phase == "training":
            mark(event.done * BATCH)

    trainer(False, BATCH, way, tell).run()


def job_program(workers: int) -> str:
    """The text of a program that trains it as a job."""
    return f"from benchmarks.click_model import elastic\n\nelastic({workers})\n"


def elastic(workers: int) -> None:
    """A worker of a job with one server, ``BATCH`` samples for each worker."""
    from sqlflow_elastic.elastic.folder import write_json
    from sqlflow_elastic.elastic.running import running
    from sqlflow_elastic.elastic.strategy import Plan

    with running("clicks") as run:
        if run.member is None:
            raise RuntimeError("this program runs as a job")
        run.member.chosen(Plan("hybrid", (), 1, 0, workers, "a benchmark", ()))
        options = {"checkpoints": run.folder.checkpoints, "tables": run.folder.tables}
        made = trainer(True, BATCH * workers, "single", run.emit, **options)
        run.train(made)
        for _ in run.tasks("saving", 1):
            write_json(run.folder.summary, {"steps": made.step})
        run.completed("trained", run.folder.summary)


def strategy(task: str, index: int) -> None:
    """A process of TensorFlow's ParameterServerStrategy: "chief" gives the work, "worker" and "ps" serve."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if task != "chief":
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=task, task_index=index, protocol="grpc", start=True
        )
        server.join()
    tf.keras.utils.set_random_seed(0)
    made = tf.distribute.experimental.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.experimental.coordinator.ClusterCoordinator(made)
    with made.scope():
        tables = [
            tf.Variable(tf.random.truncated_normal((IDS, SIZE), stddev=SIZE**-0.5), name=f"t{field}")
            for field in range(FIELDS)
        ]
        firsts = [tf.Variable(tf.zeros((IDS, 1)), name=f"f{field}") for field in range(FIELDS)]
        widths = (FIELDS * SIZE + NUMBERS, *UNITS, 1)
        weights = [
            tf.Variable(tf.random.truncated_normal(shape, stddev=shape[0] ** -0.5))
            for shape in itertools.pairwise(widths)
        ]
        biases = [tf.Variable(tf.zeros(width)) for width in widths[1:]]
        direct = tf.Variable(tf.zeros((NUMBERS, 1)))

    def logits(ids: Any, numbers: Any) -> Any:
        vectors = [tf.nn.embedding_lookup(table, ids[:, field]) for field, table in enumerate(tables)]
        first = tf.add_n([tf.nn.embedding_lookup(each, ids[:, field]) for field, each in enumerate(firsts)])
        stacked = tf.stack(vectors, axis=1)
        squares = tf.square(tf.reduce_sum(stacked, 1)) - tf.reduce_sum(tf.square(stacked), 1)
        x = tf.concat([*vectors, numbers], 1)
        for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            x = x @ weight + bias
            if layer < len(UNITS):
                x = tf.nn.relu(x)
        return x + numbers @ direct + first + 0.5 * tf.reduce_sum(squares, 1, keepdims=True)

    variables = [*tables, *firsts, *weights, *biases, direct]

    def one(batch: Any) -> None:
        ids, numbers, labels = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits(ids, numbers)))
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                variable.scatter_sub(tf.IndexedSlices(RATE * gradient.values, gradient.indices))
            else:
                variable.assign_sub(RATE * gradient)

    @tf.function  # type: ignore[untyped-decorator]
    def steps(iterator: Any) -> None:
        for _ in tf.range(_STEPS):
            made.run(one, args=(next(iterator),))

    def dataset() -> Any:
        features, labels = arrays()
        whole = tf.data.Dataset.from_tensor_slices((features["ids"], features["numbers"], labels))
        return whole.batch(BATCH, drop_remainder=True).cache().repeat().prefetch(4)

    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    done = 0
    while True:
        for _ in range(4):
            coordinator.schedule(steps, args=(iterator,))
            done += _STEPS
        coordinator.join()
        mark(done * BATCH)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if sys.argv[1] == "alone":
        alone(sys.argv[2])
    else:
        strategy(sys.argv[2], int(sys.argv[3]))
