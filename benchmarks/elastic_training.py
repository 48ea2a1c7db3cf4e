"""Training on two workers, each pinned to a core, the same batch for each: samples a second together.

Compared are an elastic job (a real master, two workers), TensorFlow's MultiWorkerMirroredStrategy, the best of its
variants, and two trainers side by side that do not talk to each other: twice one process's own speed, with both cores
busy. The ways take turns; of each the best turn counts, the one that other work on the machine disturbed least. Beside
the speed stands the CPU time it took. Where it is allowed (root), all of them come before other work.

    python -m benchmarks.elastic_training [mlp-64] [mlp-1024] [mobilenet-32]

Exit code 1 if a ratio is below the bound.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks import case_jobs
from benchmarks.peers import CORES, Command, Speed, Variant, mirrored, side_by_side, trainers

ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "2"))
SECONDS = 5.0
#: Two processes that wait for nothing have that much CPU time in a second on two cores that are theirs.
UNDISTURBED = 1.9

OURS = "elastic job"
APART = "two trainers apart"
MIRRORED = "MultiWorkerMirroredStrategy"


def _elastic(case: str, batch_size: int) -> Speed:
    task = case_jobs.Task(case, 2 * batch_size, cores=tuple(CORES[:2]))
    return case_jobs.speed(task, 2, SECONDS)


def _processes(commands: Callable[[str, int], list[Command]], case: str, batch_size: int) -> Speed:
    return side_by_side(commands(case, batch_size), SECONDS)


#: What measures each way, given the case and the rows per worker and step.
WAYS: Mapping[str, Callable[[str, int], Speed]] = {
    OURS: _elastic,
    APART: functools.partial(_processes, trainers),
    **{
        f"{MIRRORED}, {variant}": functools.partial(_processes, functools.partial(mirrored, variant=variant))
        for variant in Variant
    },
}


@dataclass(frozen=True)
class Setting:
    """What is trained, and what the elastic job has to reach.

    Attributes:
        case: of `throughput`.
        batch_size: rows per worker and step.
        mirrored: times the best of MultiWorkerMirroredStrategy, at least.
        apart: times two trainers apart, at least; None: no bound.
    """

    case: str
    batch_size: int
    mirrored: float
    apart: float | None


SETTINGS = {
    "mlp-64": Setting("mlp", 64, 2.0, None),
    "mlp-1024": Setting("mlp", 1024, 1.0, 0.9),
    "mobilenet-32": Setting("mobilenet", 32, 1.4, 0.9),
}


def run(name: str, setting: Setting) -> bool:
    """Measure and print one setting. Returns whether its bounds hold."""
    print(f"{name}: {setting.batch_size} rows per worker and step", flush=True)
    speeds: dict[str, Speed] = {}
    for _ in range(ROUNDS):
        for way, measure in WAYS.items():
            speed = measure(setting.case, setting.batch_size)
            speeds[way] = max(speeds.get(way, speed), speed, key=lambda speed: speed.samples)
    for way, speed in speeds.items():
        print(f"  {way:36} {speed.samples:10,.0f} samples/s   {speed.cores:.2f} cores", flush=True)
    if speeds[APART].cores < UNDISTURBED:
        print("  other work kept the cores busy: the figures say little", flush=True)
    ours = speeds[OURS].samples
    best = max(speed.samples for way, speed in speeds.items() if way.startswith(MIRRORED))
    held = [_ratio(f"best {MIRRORED}", ours / best, setting.mirrored)]
    held.append(_ratio(APART, ours / speeds[APART].samples, setting.apart))
    return all(held)


def _ratio(peer: str, ratio: float, bound: float | None) -> bool:
    held = bound is None or ratio >= bound
    limit = "" if bound is None else f" (bound {bound})"
    print(f"  {OURS} / {peer}: {ratio:.2f}{limit}{'' if held else '   MISSED'}", flush=True)
    return held


def main() -> int:
    """Run the settings named, or all."""
    case_jobs.before_others()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    held = [run(name, SETTINGS[name]) for name in sys.argv[1:] or SETTINGS]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
