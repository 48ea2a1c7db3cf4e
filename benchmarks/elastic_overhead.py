"""What a job costs its only worker: CPU time a sample, of master and worker, against the program run by hand.

The same program trains in both. They run at the same time, each on a core of its own, and change cores in the next
round, so that both see the same machine; the median round counts. Time is CPU time of all threads, which other work on
the machine does not blur: the worker's and its master's here, the one process's there. Both run their steps in the way
that `throughput` sees chosen; what it takes to start does not count.

    python -m benchmarks.elastic_overhead [mlp] [mobilenet] [deepfm]

Exit code 1 if a ratio is below the bound.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.case_jobs import Task, Told, watch
from benchmarks.peers import CORES, Mark
from benchmarks.throughput import CASES
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.events import Progress

BOUND = 0.95
ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "4"))
SECONDS = 6.0
WARM_UP_SECONDS = 1.0
DEADLINE_SECONDS = 300.0

WAYS = {"mlp": "xla-32", "mobilenet": "fused-8", "deepfm": "xla-16"}


@contextmanager
def by_hand(task: Task) -> Iterator[Path]:
    """Run the program alone; the file in which it says how far it is."""
    with tempfile.TemporaryDirectory() as folder:
        program, output = Path(folder) / "program.py", Path(folder) / "output"
        program.write_text(task.program())
        with output.open("wb") as stdout:
            process = subprocess.Popen(
                [sys.executable, program, "--folder", Path(folder) / "job"],
                stdout=stdout,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(Path.cwd())},
            )
        try:
            yield output
        finally:
            process.kill()
            process.wait()


def marks(output: Path) -> list[Mark]:
    """What it has said so far, in whole lines."""
    return [Mark(**json.loads(line)) for line in output.read_text().splitlines(keepends=True) if line.endswith("\n")]


def sample_seconds(case: str, cores: tuple[int, int]) -> tuple[float, float]:
    """CPU seconds a sample: by hand on the first core, as a job on the second one.

    Raises:
        RuntimeError: they did not come so far.
    """
    of_case = CASES[case]()
    batch, rows = of_case.batch_size, len(of_case.labels)
    alone, worker = (Task(case, batch, WAYS[case], (core,)) for core in cores)
    deadline = time.monotonic() + DEADLINE_SECONDS
    jobs: list[Told] = []
    with by_hand(alone) as output, closing(watch(worker, 1, Scaling.ALL)) as told:
        begun: float | None = None
        for now in told:
            if now.at > deadline:
                break
            if not isinstance(now.event, Progress) or now.event.phase != "training":
                continue
            if begun is None:
                # When both have met an epoch's end, whose short batch has a graph of its own.
                both = now.event.done * batch > rows and any(mark.samples > rows for mark in marks(output))
                begun = now.at + WARM_UP_SECONDS if both else None
            elif now.at >= begun:
                jobs.append(now)
                if now.at - jobs[0].at >= SECONDS:
                    within = [mark for mark in marks(output) if mark.at >= jobs[0].at]
                    return _by_hand(within), _as_job(jobs, batch)
    raise RuntimeError("a program did not train")


def _by_hand(within: list[Mark]) -> float:
    return (within[-1].cpu - within[0].cpu) / (within[-1].samples - within[0].samples)


def _as_job(within: list[Told], batch: int) -> float:
    first, last = within[0], within[-1]
    if not isinstance(first.event, Progress) or not isinstance(last.event, Progress):
        raise TypeError("no progress")
    return (last.cpu - first.cpu) / ((last.event.done - first.event.done) * batch)


def run(case: str) -> bool:
    """Measure and print one case. Returns whether its bound holds."""
    rounds = []
    for number in range(ROUNDS):
        one, other = CORES[:2] if number % 2 else CORES[1::-1]
        rounds.append(sample_seconds(case, (one, other)))
    ratio = statistics.median(alone / job for alone, job in rounds)
    alone, job = (statistics.median(column) * 1e6 for column in zip(*rounds, strict=True))
    print(f"{case}: {alone:.1f} µs of CPU time a sample by hand, {job:.1f} µs as a job", flush=True)
    held = ratio >= BOUND
    print(f"  by hand / job: {ratio:.3f} (bound {BOUND}){'' if held else '   MISSED'}", flush=True)
    return held


def main() -> int:
    """Run the cases named, or all."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    held = [run(case) for case in sys.argv[1:] or CASES]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
