"""How long an analyst waits: seconds from starting a program to the first step of training, on iris in DuckDB.

The first statement of a new process may take as long as importing TensorFlow and Keras takes by itself in the same run,
and 2 s more. The second and later statements of a session may take 0.5 s from `execute` to the first step. Medians of
several processes and statements; imports and programs take turns, so that both see the same machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
from sklearn.datasets import load_iris

ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "3"))
STATEMENTS = 6
FIRST_ABOVE_IMPORT = 2.0
LATER = 0.5

IMPORT = "import tensorflow, keras, time; print(time.monotonic())"

# Prints, for each statement, when it was begun and when its first step was done.
PROGRAM = f"""
import json, sys, time
import sqlflow_elastic
from sqlflow_elastic.events import Failed, Progress

times = []
with sqlflow_elastic.connect(sys.argv[1]) as session:
    for number in range({STATEMENTS}):
        begun, first = time.monotonic(), None
        for event in session.execute(
            "SELECT * FROM iris TO TRAIN DNNClassifier WITH model.hidden_units = [32, 16], train.epoch = 5 "
            f"LABEL species INTO model_{{number}}"
        ):
            if isinstance(event, Failed):
                raise event.error
            if first is None and isinstance(event, Progress) and event.phase == "training" and event.done > 0:
                first = time.monotonic()
        times.append((begun, first))
print(json.dumps(times))
"""


def make_table(database: Path) -> None:
    irises = load_iris(as_frame=True)
    frame = irises.frame.rename(columns=lambda name: name.replace(" (cm)", "").replace(" ", "_"))
    frame["species"] = irises.target_names[frame.pop("target")]
    with duckdb.connect(str(database)) as connection:
        connection.register("irises", frame)
        connection.execute("CREATE TABLE iris AS SELECT * FROM irises")


def output_of(home: str, *arguments: str) -> str:
    environment = {**os.environ, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home, "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(
        [sys.executable, "-c", *arguments], stdout=subprocess.PIPE, text=True, check=True, cwd=home, env=environment
    )
    return done.stdout.splitlines()[-1]


def main() -> int:
    imports, firsts, laters = [], [], []
    with tempfile.TemporaryDirectory(prefix="sqlflow-elastic-first-step-") as home:
        make_table(Path(home) / "iris.duckdb")
        for _ in range(ROUNDS):
            begun = time.monotonic()
            imports.append(float(output_of(home, IMPORT)) - begun)
            begun = time.monotonic()
            (_, first), *later = json.loads(output_of(home, PROGRAM, "duckdb:///iris.duckdb"))
            firsts.append(first - begun)
            laters += [step - start for start, step in later]
    above = statistics.median(firsts) - statistics.median(imports)
    later_median = statistics.median(laters)
    print(f"importing TensorFlow and Keras              {statistics.median(imports):6.2f} s")
    print(f"first statement of a process to first step  {statistics.median(firsts):6.2f} s")
    print(f"  above the import                          {above:6.2f} s  (at most {FIRST_ABOVE_IMPORT} s)")
    print(f"later statements to first step              {later_median:6.2f} s  (at most {LATER} s)")
    print(f"  fastest and slowest                       {min(laters):6.2f} s, {max(laters):.2f} s")
    return 0 if above <= FIRST_ABOVE_IMPORT and later_median <= LATER else 1


if __name__ == "__main__":
    sys.exit(main())
