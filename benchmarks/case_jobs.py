"""Cases of `throughput` trained by jobs: a real master and its workers, on a local cluster.

A job's program is a call of `main`, which builds the same trainer in a worker as in a process that runs the program
alone. It prints a line of JSON, a `peers.Mark`, whenever it knows how far training has come. `watch` runs a job and
says what it tells; `speed` is how fast one is while all its workers train.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.peers import Mark, Speed
from benchmarks.throughput import CASES, STEPS
from sqlflow_elastic.cluster import LocalCluster, Phase
from sqlflow_elastic.elastic.member import WORKER_VARIABLE
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.events import Event, Progress, WorldChanged
from sqlflow_elastic.jobs import Job, job_folder
from sqlflow_elastic.jobs.request import JobKind, JobRequest

_PRIORITY = -10
#: A world is measured when it has trained for so long: by then it has found how to run its steps.
_WARM_UP_SECONDS = 45.0


@dataclass(frozen=True)
class Task:
    """What a program trains.

    Attributes:
        case: of `throughput`.
        batch_size: of a global step.
        way: how steps are run alone, see `ways.Way`.
        cores: which one each worker is pinned to, in the order of their numbers; empty: they share all.
        steps: that there are.
    """

    case: str
    batch_size: int
    way: str = "auto"
    cores: tuple[int, ...] = ()
    steps: int = STEPS

    def program(self) -> str:
        """The text of a program that trains it."""
        return f"from benchmarks.case_jobs import main\n\nmain({dataclasses.asdict(self)!r})\n"


@dataclass(frozen=True)
class Told:
    """An event of a job, with the time by `time.monotonic` and the CPU seconds of its processes until then."""

    event: Event
    at: float
    cpu: float


def before_others() -> None:
    """Have this process and those it starts get most of a core that other work wants too, if that is allowed."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
        # Where processes are scheduled by session, that of this one counts.
        Path("/proc/self/autogroup").write_text(str(_PRIORITY))


def main(options: dict[str, Any]) -> None:
    """Train, as a worker or alone, to the end."""
    task = Task(**options)
    if os.getpriority(os.PRIO_PROCESS, 0) == _PRIORITY:
        before_others()  # it has a session of its own
    if task.cores:
        # Before TensorFlow counts them.
        number = int(os.environ.get(WORKER_VARIABLE, "0").removeprefix("worker-"))
        os.sched_setaffinity(0, {task.cores[number % len(task.cores)]})

    import keras
    import tensorflow as tf

    from sqlflow_elastic.elastic import Batch, TrainSettings
    from sqlflow_elastic.elastic.dataset import ArrayDataset
    from sqlflow_elastic.elastic.folder import write_json
    from sqlflow_elastic.elastic.running import running
    from sqlflow_elastic.elastic.trainer import Trainer

    class TableEmbedding(keras.layers.Embedding):  # type: ignore[misc]
        def call(self, ids: Any) -> Any:
            return tf.gather(self.embeddings.value, ids)

    case = CASES[task.case]()
    loss_of = case.loss(from_logits=True, reduction="none")

    def gradients(model: Any, batch: Batch) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(batch.weights * loss_of(batch.labels, model(batch.features, training=True)))
        return loss, tape.gradient(loss, model.trainable_variables)

    with running(task.case) as run:

        def tell(event: Event) -> None:
            run.emit(event)
            if isinstance(event, Progress) and event.phase == "training":
                mark = Mark(time.monotonic(), event.done * task.batch_size, time.process_time())
                print(json.dumps(dataclasses.asdict(mark)), flush=True)

        model = case.build(TableEmbedding)
        trainer = Trainer(
            model,
            gradients,
            [(keras.optimizers.Adam(), model.trainable_variables)],
            ArrayDataset(case.features, case.labels),
            TrainSettings(epochs=STEPS, max_steps=task.steps, batch_size=task.batch_size, way=task.way),
            emit=tell,
        )
        run.train(trainer)
        for _ in run.tasks("saving", 1):
            write_json(run.folder.summary, {"steps": trainer.step})
        run.completed("trained", run.folder.summary)


def watch(task: Task, workers: int, scaling: Scaling) -> Generator[Told, None, None]:
    """Run a job to its end, or until the iterator is closed, which stops it; what it tells.

    Raises: what `Job.events` raises.
    """
    request = JobRequest(JobKind.TRAIN, task.case, "", workers=workers, batch_size=task.batch_size, scaling=scaling)
    with LocalCluster() as cluster, tempfile.TemporaryDirectory() as root, job_folder(Path(root)) as folder:
        job = Job(folder, task.program(), cluster, folder.summary, request)

        def cpu() -> float:
            seconds = 0.0
            for one in cluster.list(job.id):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if one.pid and one.phase is Phase.RUNNING:
                        seconds += sum(psutil.Process(one.pid).cpu_times()[:2])
            return seconds

        events = job.events()
        try:
            for event in events:
                yield Told(event, time.monotonic(), cpu())
        finally:
            events.close()


def speed(task: Task, workers: int, seconds: float) -> Speed:
    """Of a job in which so many workers train, over some seconds; it is stopped then.

    Raises:
        RuntimeError: it ended before.
    """
    told = watch(task, workers, Scaling.ALL)
    try:
        measured_from = float("inf")
        first: Told | None = None
        done = 0
        for now in told:
            if isinstance(now.event, WorldChanged):
                measured_from = now.at + _WARM_UP_SECONDS if len(now.event.members) == workers else float("inf")
                first = None
            elif isinstance(now.event, Progress) and now.at >= measured_from:
                if first is None:
                    first, done = now, now.event.done
                elif now.at - first.at >= seconds:
                    passed = now.at - first.at
                    samples = (now.event.done - done) * task.batch_size
                    return Speed(samples / passed, (now.cpu - first.cpu) / passed)
    finally:
        told.close()
    raise RuntimeError("the job ended before it was measured")


if __name__ == "__main__":
    print(__doc__)
    sys.exit(0)
