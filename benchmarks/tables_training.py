"""Training a DeepFM over 26 tables of a million ids with tables on a server: samples a second.

Compared are an elastic job of two workers and a server, TensorFlow's ParameterServerStrategy with the same processes
(and the coordinator that it needs), and one process of this project that holds the tables itself, in its fastest way.
They take turns; of each the best turn counts.

    python -m benchmarks.tables_training

Exit code 1 if a ratio is below the bound.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import click_model
from benchmarks.peers import Command, Speed, side_by_side
from sqlflow_elastic.cluster import LocalCluster
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.events import Progress, WorldChanged
from sqlflow_elastic.jobs import Job, job_folder
from sqlflow_elastic.jobs.request import JobKind, JobRequest

ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "2"))
SECONDS = 8.0
WORKERS = 2
#: An elastic job's samples a second in multiples of the others', at least.
BOUNDS = {"ParameterServerStrategy": 2.5, "one process": 0.7}
_WAYS = ("xla-32", "fused-32")
#: Rows that no step has named are made at their first; then speeds are even.
_WARM_UP_SECONDS = 20.0


def strategy() -> Speed:
    """TensorFlow's, with as many workers and one server."""
    names = [("worker", index) for index in range(WORKERS)] + [("ps", 0), ("chief", 0)]
    sockets = [socket.socket() for _ in names]
    for listener in sockets:
        listener.bind(("127.0.0.1", 0))
    cluster: dict[str, list[str]] = {}
    for (task, _), listener in zip(names, sockets, strict=True):
        cluster.setdefault(task, []).append(f"127.0.0.1:{listener.getsockname()[1]}")
    for listener in sockets:
        listener.close()

    def command(task: str, index: int) -> Command:
        config = {"cluster": cluster, "task": {"type": task, "index": index}}
        arguments = ("-m", "benchmarks.click_model", "strategy", task, str(index))
        return Command(arguments, {"TF_CONFIG": json.dumps(config)})

    return side_by_side([command("chief", 0)], SECONDS, helpers=[command(*name) for name in names[:-1]])


def alone() -> Speed:
    """One process, in its fastest way."""
    speeds = [side_by_side([Command(("-m", "benchmarks.click_model", "alone", way))], SECONDS) for way in _WAYS]
    return max(speeds, key=lambda speed: speed.samples)


def elastic() -> Speed:
    """An elastic job, while all of its workers train."""
    batch_size = WORKERS * click_model.BATCH
    request = JobRequest(
        JobKind.TRAIN, "clicks", "", workers=WORKERS, batch_size=batch_size, scaling=Scaling.ALL, ps_memory=4096
    )
    with LocalCluster() as cluster, tempfile.TemporaryDirectory() as root, job_folder(Path(root)) as folder:
        job = Job(folder, click_model.job_program(WORKERS), cluster, folder.summary, request)
        events = job.events()
        begin = float("inf")
        first: tuple[float, int] | None = None
        try:
            for event in events:
                now = time.monotonic()
                if isinstance(event, WorldChanged):
                    begin, first = (now + _WARM_UP_SECONDS if len(event.members) == WORKERS else float("inf")), None
                elif isinstance(event, Progress) and event.phase == "training" and now >= begin:
                    if first is None:
                        first = now, event.done
                    elif now - first[0] >= SECONDS:
                        return Speed((event.done - first[1]) * batch_size / (now - first[0]), 0.0)
        finally:
            events.close()
    raise RuntimeError("the job ended before it was measured")


def main() -> int:
    """Measure, print, and compare."""
    ways = {"elastic job": elastic, "ParameterServerStrategy": strategy, "one process": alone}
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, measure in ways.items():
            speed = measure().samples
            best[name] = max(best.get(name, 0.0), speed)
            print(f"{name:24} {speed:12,.0f} samples/s", flush=True)
    missed = False
    for name, bound in BOUNDS.items():
        ratio = best["elastic job"] / best[name]
        missed |= ratio < bound
        print(f"elastic job / {name}: {ratio:.2f} (bound {bound}){'  MISSED' if ratio < bound else ''}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
