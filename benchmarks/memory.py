"""Memory of training on a table larger than one would like to hold: 5 million rows by 40 columns in DuckDB.

Prints the peak memory of the whole process tree (the session, its fork server and the job) above what a process takes
that has only imported TensorFlow; the bound is 1.5 GB. Memory is the proportional set size: pages shared between
processes count once, pages of memory-mapped files like the rest.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb
import psutil

ROWS = int(os.environ.get("BENCHMARK_ROWS", "5000000"))
COLUMNS = 40
BOUND_GB = 1.5

STATEMENT = """
SELECT * FROM big TO TRAIN DNNClassifier
WITH model.hidden_units = [64], train.epoch = 1, train.batch_size = 1024, validation.fraction = 0.1
LABEL y INTO big_model
"""

IDLE = "import tensorflow, keras, sys; sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.read()"


def proportional_bytes(process: psutil.Process) -> int:
    """The process's memory, shared pages divided by those who share them."""
    try:
        return int(process.memory_full_info().pss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0


def tree_bytes(process: psutil.Process) -> int:
    try:
        return sum(proportional_bytes(p) for p in [process, *process.children(recursive=True)])
    except psutil.NoSuchProcess:
        return 0


def tensorflow_bytes() -> int:
    """What a process takes that has imported TensorFlow and nothing else."""
    with subprocess.Popen(
        [sys.executable, "-c", IDLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as idle:
        assert idle.stdout is not None
        idle.stdout.readline()
        taken = proportional_bytes(psutil.Process(idle.pid))
        idle.kill()
    return taken


def make_table(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET enable_progress_bar = false")
        columns = ", ".join(f"random() * {i + 1} AS f{i}" for i in range(COLUMNS))
        connection.execute(
            f"CREATE TABLE big AS SELECT *, CAST(f0 + f1 / 2 + random() > 1.2 AS INTEGER) AS y "
            f"FROM (SELECT {columns} FROM range({ROWS}))"
        )


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="sqlflow-elastic-memory-") as folder:
        database = Path(folder) / "big.duckdb"
        maker = multiprocessing.get_context("spawn").Process(target=make_table, args=(database,))
        maker.start()
        maker.join()
        own = tensorflow_bytes()
        command = Path(sys.executable).with_name("sqlflow-elastic")
        begun = time.monotonic()
        with subprocess.Popen(
            [command, "--datasource", f"duckdb:///{database}", "run", "-e", STATEMENT],
            env={**os.environ, "XDG_STATE_HOME": folder},
        ) as run:
            peak = 0
            done = threading.Event()
            tree = psutil.Process(run.pid)
            while run.poll() is None:
                peak = max(peak, tree_bytes(tree))
                done.wait(0.1)
        above = (peak - own) / 1e9
        seconds = time.monotonic() - begun
    print(f"rows x columns                     {ROWS:,} x {COLUMNS}")
    print(f"seconds                            {seconds:.1f}")
    print(f"TensorFlow's own memory            {own / 1e9:.2f} GB")
    print(f"peak of the process tree           {peak / 1e9:.2f} GB")
    print(f"above TensorFlow's own             {above:.2f} GB   (bound: {BOUND_GB} GB)")
    return 0 if run.returncode == 0 and above <= BOUND_GB else 1


if __name__ == "__main__":
    sys.exit(main())
