"""Never slower for being allowed more workers: `train.num_workers = 2` against the best fixed number of them.

Three jobs of each case, on all cores, nobody pinned: one worker, two workers with scaling "all", and at most two with
scaling "fastest", which begins with one and tries two. The jobs of a fixed number are measured for `MEASURED_SECONDS`
once they run as they will. The third one has as many steps as the better of them takes in `JOB_SECONDS`, and is run to
its end: compared is its mean speed from its first step to its last, world changes and trials included. A job that long
is the shortest for which the product tries anything. Of the rounds, the best of each job counts.
Where it is allowed (root), all of them come before other work.

    python -m benchmarks.sizing [mlp] [mobilenet] [deepfm]

Exit code 1 if a ratio is below the bound.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import dataclass

from benchmarks.case_jobs import Task, before_others, speed, watch
from benchmarks.throughput import CASES
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.events import Message, Progress

BOUND = 0.95
ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "1"))
JOB_SECONDS = 120.0
MEASURED_SECONDS = 20.0
DECIDED = "from now on"


@dataclass(frozen=True)
class Outcome:
    """Mean samples a second of a job from its first step to its last, and what it said about its workers."""

    mean: float
    said: str = ""


def whole_job(case: str, steps: int) -> Outcome:
    """Run a job that may have two workers to its end.

    Raises:
        RuntimeError: it took no steps.
    """
    task = Task(case, CASES[case]().batch_size, steps=steps)
    said = ""
    first: tuple[float, int] | None = None
    with closing(watch(task, 2, Scaling.FASTEST)) as told:
        for now in told:
            match now.event:
                case Message(text) if DECIDED in text:
                    said = text
                case Progress("training", done) if done:
                    first = first or (now.at, done)
                    last = now.at
                    if done == steps:
                        return Outcome((done - first[1]) * task.batch_size / (last - first[0]), said)
    raise RuntimeError("the job ended before its last step")


def run(case: str) -> bool:
    """Measure and print one case. Returns whether its bound holds."""
    print(f"{case}:", flush=True)
    batch_size = CASES[case]().batch_size
    fixed: dict[int, float] = {}
    for workers in (1, 2) * ROUNDS:
        measured = speed(Task(case, batch_size), workers, MEASURED_SECONDS)
        fixed[workers] = max(fixed.get(workers, 0.0), measured.samples)
    for workers, samples in fixed.items():
        print(f"  {workers} worker{'s' * (workers > 1):23} {samples:10,.0f} samples/s", flush=True)
    steps = round(max(fixed.values()) * JOB_SECONDS / batch_size)
    ours = max((whole_job(case, steps) for _ in range(ROUNDS)), key=lambda outcome: outcome.mean)
    print(f"  {'at most 2, the fastest':30} {ours.mean:10,.0f} samples/s   {ours.said}", flush=True)
    ratio = ours.mean / max(fixed.values())
    print(f"  fastest / best fixed: {ratio:.2f} (bound {BOUND}){'' if ratio >= BOUND else '   MISSED'}", flush=True)
    return ratio >= BOUND


def main() -> int:
    """Run the cases named, or all."""
    before_others()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    held = [run(case) for case in sys.argv[1:] or CASES]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
