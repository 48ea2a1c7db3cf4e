"""The demonstration behind ``make demo``: irises from scikit-learn into DuckDB, then a program of four SQL statements.

Ends with exit code 1 if fewer than 93 % of the flowers that were not trained on are recognised.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
from sklearn.datasets import load_iris

HERE = Path(__file__).parent
LEAST_ACCURACY = 0.93


def load(database: Path) -> None:
    """Make the table ``iris``: four measures, the species, and ``part``, by which the statements split it."""
    irises = load_iris()
    names = [name.removesuffix(" (cm)").replace(" ", "_") for name in irises.feature_names]
    species = [str(irises.target_names[target]) for target in irises.target]
    rows = pa.table([*irises.data.T, species, [i % 5 for i in range(len(species))]], [*names, "species", "part"])
    with duckdb.connect(str(database)) as connection:
        connection.register("rows", rows)
        connection.execute("CREATE TABLE iris AS SELECT * FROM rows")


def main() -> int:
    """Load, run, check."""
    with tempfile.TemporaryDirectory(prefix="sqlflow-elastic-demo-") as folder:
        database = Path(folder) / "demo.duckdb"
        load(database)
        command = Path(sys.executable).with_name("sqlflow-elastic")
        sys.stdout.write(f"sqlflow-elastic --datasource duckdb:///… run -f {HERE.name}/iris.sql\n\n")
        sys.stdout.flush()
        subprocess.run(
            [command, "--datasource", f"duckdb:///{database}", "run", "-f", HERE / "iris.sql"], check=True, timeout=600
        )
        with duckdb.connect(str(database)) as connection:
            right, rows = connection.execute(
                "SELECT count(*) FILTER (predicted = species), count(*) FROM iris_predictions"
            ).fetchall()[0]
    sys.stdout.write(f"\n{right} of {rows} flowers that were not trained on are recognised: {right / rows:.1%}\n")
    return 0 if right / rows >= LEAST_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
