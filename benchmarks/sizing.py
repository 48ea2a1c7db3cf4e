"""Never slower for being allowed more workers: `train.num_workers = 2` against the best fixed number of them.

Three jobs of each case, on all cores, nobody pinned: one worker, two workers with scaling "all", and at most two with
scaling "fastest", which begins with one and tries two. Compared is the mean speed over the first `JOB_SECONDS` from the
first step on, world changes and trials included: a job that long is the shortest for which the product tries anything.
The first part is measured, until the number of workers is decided and at least `MEASURED_SECONDS`; for the rest the
speed of the last `STEADY_SECONDS` is taken. Of the rounds, the best of each job counts.
Where it is allowed (root), all of them come before other work.

    python -m benchmarks.sizing [mlp] [mobilenet] [deepfm]

Exit code 1 if a ratio is below the bound.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import dataclass

from benchmarks.case_jobs import Task, before_others, watch
from benchmarks.throughput import CASES
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.events import Message, Progress

BOUND = 0.95
ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "1"))
JOB_SECONDS = 120.0
MEASURED_SECONDS = 30.0
STEADY_SECONDS = 5.0
DECIDED = "from now on"


@dataclass(frozen=True)
class Outcome:
    """Mean and last samples a second of a job, and what it said about its workers."""

    mean: float
    last: float
    said: str = ""


def outcome(case: str, workers: int, scaling: Scaling) -> Outcome:
    """Run a job as long as needed.

    Raises:
        RuntimeError: it ended before.
    """
    task = Task(case, CASES[case]().batch_size)
    decided_at = None if scaling is Scaling.FASTEST else 0.0
    said = ""
    times: list[float] = []
    samples: list[int] = []
    with closing(watch(task, workers, scaling)) as told:
        for now in told:
            match now.event:
                case Message(text) if DECIDED in text:
                    decided_at, said = now.at, text
                case Progress("training", done):
                    times.append(now.at)
                    samples.append(done * task.batch_size)
                    long_enough = now.at - times[0] >= MEASURED_SECONDS or scaling is Scaling.FASTEST
                    over = decided_at is not None and now.at - decided_at > 2 * STEADY_SECONDS and long_enough
                    if over or now.at - times[0] >= JOB_SECONDS:
                        return _outcome(times, samples, said)
    raise RuntimeError("the job ended before it was measured")


def _outcome(times: list[float], samples: list[int], said: str) -> Outcome:
    steady = next(index for index, at in enumerate(times) if at >= times[-1] - STEADY_SECONDS)
    last = (samples[-1] - samples[steady]) / (times[-1] - times[steady])
    rest = max(0.0, JOB_SECONDS - (times[-1] - times[0]))
    total = samples[-1] - samples[0] + last * rest
    return Outcome(total / (times[-1] - times[0] + rest), last, said)


def run(case: str) -> bool:
    """Measure and print one case. Returns whether its bound holds."""
    print(f"{case}:", flush=True)
    jobs = {
        "1 worker": (1, Scaling.ALL),
        "2 workers": (2, Scaling.ALL),
        "at most 2, the fastest": (2, Scaling.FASTEST),
    }
    best: dict[str, Outcome] = {}
    for _ in range(ROUNDS):
        for name, (workers, scaling) in jobs.items():
            one = outcome(case, workers, scaling)
            best[name] = max(best.get(name, one), one, key=lambda outcome: outcome.mean)
    for name, one in best.items():
        print(f"  {name:24} {one.mean:10,.0f} samples/s, {one.last:10,.0f} at last   {one.said}", flush=True)
    *fixed, ours = (one.mean for one in best.values())
    ratio = ours / max(fixed)
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
