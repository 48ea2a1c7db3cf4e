"""The demonstration behind ``make demo``: a program of four SQL statements, whose training loses a worker on the way.

The irises are scikit-learn's; the flowers to train on are drawn from the normal distributions of the three species. Two
workers train; when both do, one of them is killed with kill -9, and training goes on.

Ends with exit code 1 if nobody was killed, or fewer than 93 % of the irises are recognised.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from sklearn.datasets import load_iris

from sqlflow_elastic.jobs.records import list_jobs

HERE = Path(__file__).parent
LEAST_ACCURACY = 0.93
FLOWERS = 40_000
_LOOK_SECONDS = 0.1


def load(database: Path) -> None:
    """Make the tables ``iris`` and ``flowers``: four measures and the species."""
    irises = load_iris()
    names = [*(name.removesuffix(" (cm)").replace(" ", "_") for name in irises.feature_names), "species"]
    species = np.array([str(irises.target_names[target]) for target in irises.target])
    generator = np.random.default_rng(0)
    measures, drawn = [], []
    for kind in irises.target_names:
        known = irises.data[species == kind]
        measures.append(generator.multivariate_normal(known.mean(axis=0), np.cov(known.T), FLOWERS // 3))
        drawn += [str(kind)] * (FLOWERS // 3)
    with duckdb.connect(str(database)) as connection:
        connection.register("irises", pa.table([*irises.data.T, species], names))
        connection.register("drawn", pa.table([*np.concatenate(measures).T, drawn], names))
        connection.execute("CREATE TABLE iris AS SELECT * FROM irises")
        connection.execute("CREATE TABLE flowers AS SELECT * FROM drawn")


def kill_a_worker(jobs: Path, over: threading.Event, killed: threading.Event) -> None:
    """Kill one of the two workers when both train."""
    while not over.wait(_LOOK_SECONDS):
        for _, job in list_jobs(jobs, None) if jobs.exists() else []:
            if job is None or len(job.members) < 2 or not (job.progress.step or 0):
                continue
            pids = {process.name: process.pid for process in job.processes if process.phase == "running"}
            if (pid := pids.get(job.members[-1])) is not None:
                sys.stdout.write(f"\n>>> kill -9 {pid}    # {job.members[-1]} of {job.id}\n")
                sys.stdout.flush()
                os.kill(pid, signal.SIGKILL)
                killed.set()
                return


def main() -> int:
    """Load, run and kill, check."""
    over, killed = threading.Event(), threading.Event()
    with tempfile.TemporaryDirectory(prefix="sqlflow-elastic-demo-") as folder:
        database = Path(folder) / "demo.duckdb"
        load(database)
        jobs = Path(folder) / "sqlflow-elastic" / "jobs"
        killer = threading.Thread(target=kill_a_worker, args=(jobs, over, killed))
        killer.start()
        command = Path(sys.executable).with_name("sqlflow-elastic")
        sys.stdout.write(f"sqlflow-elastic --datasource duckdb:///… run -f {HERE.name}/iris.sql\n\n")
        sys.stdout.flush()
        try:
            subprocess.run(
                [command, "--datasource", f"duckdb:///{database}", "run", "-f", HERE / "iris.sql"],
                check=True,
                timeout=600,
                env={**os.environ, "XDG_STATE_HOME": folder},
            )
        finally:
            over.set()
            killer.join()
        with duckdb.connect(str(database)) as connection:
            right, rows = connection.execute(
                "SELECT count(*) FILTER (predicted = species), count(*) FROM iris_predictions"
            ).fetchall()[0]
    sys.stdout.write(f"\n{right} of {rows} irises are recognised: {right / rows:.1%}")
    sys.stdout.write("; a worker was killed on the way\n" if killed.is_set() else "; but no worker was killed\n")
    return 0 if killed.is_set() and right / rows >= LEAST_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
