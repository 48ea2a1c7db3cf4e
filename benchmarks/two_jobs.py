"""Two jobs that each want 13 of a cluster's 24 slots: one after the other, and elastic.

    python -m benchmarks.two_jobs [--seconds N] [--plot FILE]

This is the experiment of ElasticDL's report. The cluster, the masters and the workers are real; the work is a sleep,
which takes each worker the longer the larger its slice of the batch is (`tests.elastic.counting`), N seconds in all
with 13 of them. Each job is to do the same, and the second one is submitted one second after the first.

Scheduled in gangs, a job starts when 13 slots are free and no other gang's. Elastic, it starts with those there are,
and grows as others are given back. Exit code 1 if the elastic jobs need more than 0.62 of the time that the gangs need
(ElasticDL: 0.73; 0.58 if nothing but work took time), if the second one's first step begins later than three seconds
after its submission, or if, while both have work, less than 95 % of the slots are in use.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.plots import Panel, Steps, write_panels
from sqlflow_elastic.cluster import LocalCluster, Phase, Role
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.events import WorldChanged
from sqlflow_elastic.jobs import Job, job_folder
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from tests.elastic import counting

SLOTS, WORKERS = 24, 13
#: Divides into as many whole samples for 13 workers as for 11.
BATCH = 13 * 11 * 4
BATCHES_OF_EPOCH = 1
#: Of a step of 13 workers.
STEP_SECONDS = 0.2
SUBMITTED_AFTER = 1.0
TIME_BOUND, FIRST_STEP_BOUND, USE_BOUND = 0.62, 3.0, 0.95
#: What workers import; no TensorFlow, so that 24 of them fit.
PRELOAD = ("sqlflow_elastic.jobs.master.process", "sqlflow_elastic.elastic.running")
_LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Ran:
    """A job that has run; times are in seconds from the first submission.

    Attributes:
        id: the job's.
        submitted, began, ended: it was submitted; its first step began; it ended.
    """

    id: str
    submitted: float
    began: float
    ended: float


class Slots:
    """How many slots the workers of each job take, from when to when."""

    def __init__(self, cluster: LocalCluster, begun: float) -> None:
        self._cluster = cluster
        self._unix = time.time() - (time.monotonic() - begun)
        self._changes: dict[str, dict[tuple[str, Phase], float]] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        self._thread.join()

    def of(self, job: str) -> list[tuple[float, float]]:
        """Points of time, and how many slots are taken from then on."""
        changes = self._changes.get(job, {})
        ordered = sorted((at, 1 if phase is Phase.RUNNING else -1) for (_, phase), at in changes.items())
        sums = itertools.accumulate(change for _, change in ordered)
        return [(at, float(used)) for (at, _), used in zip(ordered, sums, strict=True)]

    def first_end(self, job: str) -> float:
        """When the first worker of a job ended."""
        return min(at for (_, phase), at in self._changes[job].items() if phase is Phase.ENDED)

    def _watch(self) -> None:
        with self._cluster.watch() as watch:
            while not self._closed.is_set():
                for status in watch.next(_LOOK_SECONDS):
                    if status.role is Role.WORKER and status.pid is not None:
                        changes = self._changes.setdefault(status.job, {})
                        changes.setdefault((status.name, Phase.RUNNING), status.since - self._unix)
                        if status.phase is Phase.ENDED:
                            changes[status.name, Phase.ENDED] = status.since - self._unix


class Submission(threading.Thread):
    """Submits a job after a while and runs it.

    Args:
        after: seconds from ``begun``.
        gang: held by the gang that runs: two do not fit; None for an elastic job.

    Attributes:
        ran: what came of it, once the thread has ended; None if it failed.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        root: Path,
        steps: int,
        begun: float,
        after: float,
        gang: threading.Lock | None,
    ) -> None:
        super().__init__()
        self._cluster = cluster
        self._root = root
        self._steps = steps
        self._begun = begun
        self._after = after
        self._gang = gang
        self.ran: Ran | None = None
        self.start()

    def run(self) -> None:
        time.sleep(self._after)
        with self._gang or contextlib.nullcontext():
            while self._gang is not None and self._cluster.free() < WORKERS:
                time.sleep(_LOOK_SECONDS)
            self._run()

    def _run(self) -> None:
        with job_folder(self._root) as folder:
            program = counting.program(
                rows=BATCHES_OF_EPOCH * BATCH,
                batch_size=BATCH,
                epochs=self._steps // BATCHES_OF_EPOCH,
                sample_seconds=STEP_SECONDS * WORKERS / BATCH,
                checkpoint_steps=100,
            )
            request = JobRequest(JobKind.TRAIN, "counts", "", workers=WORKERS, batch_size=BATCH, scaling=Scaling.ALL)
            job = Job(folder, program, self._cluster, folder.summary, request)
            began = None
            for event in job.events():
                if isinstance(event, WorldChanged) and began is None:
                    began = self._now()
            counts = set(counting.counts(folder.summary))
        if began is None or counts != {self._steps // BATCHES_OF_EPOCH}:
            raise RuntimeError(f"samples were trained on {counts} times")
        self.ran = Ran(job.id, self._after, began, self._now())

    def _now(self) -> float:
        return time.monotonic() - self._begun


def run(name: str, steps: int, gangs: bool) -> tuple[Sequence[Ran], Panel, float]:
    """Run both jobs. Returns them, their slots over time, and what part of the slots was in use while both had work."""
    with tempfile.TemporaryDirectory() as root, LocalCluster(PRELOAD, SLOTS) as cluster:
        cluster.warm_up()
        begun = time.monotonic()
        slots = Slots(cluster, begun)
        try:
            gang = threading.Lock() if gangs else None
            waits = [Submission(cluster, Path(root), steps, begun, after, gang) for after in (0.0, SUBMITTED_AFTER)]
            for wait in waits:
                wait.join()
        finally:
            slots.close()
    jobs = [wait.ran for wait in waits if wait.ran is not None]
    if len(jobs) != len(waits):
        raise RuntimeError("a job failed")
    used = [slots.of(job.id) for job in jobs]
    end = max(job.ended for job in jobs)
    panel = Panel(name, [Steps(f"job {number}", points) for number, points in enumerate(used, 1)], end)
    both = (jobs[1].submitted, min(slots.first_end(job.id) for job in jobs))
    return jobs, panel, sum(_mean(points, *both) for points in used) / SLOTS


def _mean(points: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """Of a figure over time."""
    until = [at for at, _ in points[1:]] + [end]
    pieces = zip(points, until, strict=True)
    return sum(value * max(0.0, min(later, end) - max(at, begin)) for (at, value), later in pieces) / (end - begin)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    steps = round(arguments.seconds / STEP_SECONDS / BATCHES_OF_EPOCH) * BATCHES_OF_EPOCH
    panels, totals = [], []
    for name, gangs in (("In gangs", True), ("Elastic", False)):
        jobs, panel, use = run(name, steps, gangs)
        panels.append(panel)
        totals.append(panel.end)
        first = jobs[1].began - jobs[1].submitted
        print(f"{name}: {panel.end:.1f} s; the second job's first step began after {first:.1f} s")
        for number, job in enumerate(jobs, 1):
            print(
                f"  job {number}: submitted {job.submitted:.1f}, trains from {job.began:.1f}, ended {job.ended:.1f} s"
            )
    ratio = totals[1] / totals[0]
    held = ratio <= TIME_BOUND and first <= FIRST_STEP_BOUND and use >= USE_BOUND
    print(f"elastic / gangs: {ratio:.3f}, at most {TIME_BOUND} is wanted")
    print(f"the second job's first step, elastic: {first:.1f} s, at most {FIRST_STEP_BOUND:g} s is wanted")
    print(f"slots in use while both have work, elastic: {100 * use:.1f} %, at least {100 * USE_BOUND:.0f} % is wanted")
    if arguments.plot:
        write_panels(arguments.plot, panels, "seconds", "slots", SLOTS)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
