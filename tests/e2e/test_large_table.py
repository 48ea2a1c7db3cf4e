"""A table that no worker may hold, touched as a whole: the benchmark of it, with fewer rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_it_trains_within_the_memory_that_was_asked_for() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.large_table"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "BENCHMARK_ROWS": "4000000"},
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    assert "hybrid, as with allreduce a worker would take" in run.stdout
