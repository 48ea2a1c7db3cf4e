"""Predicting into a table, against Keras's `predict` plus a bulk load, in the same database.

Both sides read the same rows from DuckDB, run the same network over them and write all columns and the prediction into
a table. The peer is what one would write by hand: numpy arrays out of DuckDB, standardised, `keras.Model.predict` with
a large batch, and ``CREATE TABLE AS`` from Arrow. Prints the ratio of rows per second, ours by the peer's; the bound is
0.9.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import duckdb
import pyarrow as pa

import sqlflow_elastic
from sqlflow_elastic.session import Session

ROWS = int(os.environ.get("BENCHMARK_ROWS", "1000000"))
COLUMNS = 20
BOUND = 0.9
REPEATS = 3
BATCH_ROWS = 4096
FEATURES = [f"f{i}" for i in range(COLUMNS)]


def make_table(database: Path) -> None:
    with duckdb.connect(str(database)) as connection:
        columns = ", ".join(f"random() AS {name}" for name in FEATURES)
        connection.execute(f"CREATE TABLE rows AS SELECT {columns} FROM range({ROWS})")
        connection.execute("CREATE TABLE few AS SELECT *, CAST(f0 + f1 > 1 AS INTEGER) AS y FROM rows LIMIT 10000")


def ours(session: Session) -> float:
    begun = time.monotonic()
    session.sql("SELECT * FROM rows TO PREDICT predicted_here.y USING m")
    return time.monotonic() - begun


def peer(database: Path, model: Any, mean: Any, deviation: Any) -> float:
    import numpy as np

    begun = time.monotonic()
    with duckdb.connect(str(database)) as connection:
        table = connection.sql("SELECT * FROM rows").to_arrow_table()
        features = np.stack([table[name].to_numpy() for name in FEATURES], axis=1)
        features = ((features - mean) / deviation).astype(np.float32)
        outputs = model.predict(features, batch_size=BATCH_ROWS, verbose=0)
        predicted = table.append_column("y", pa.array((outputs[:, 0] > 0).astype(np.int64)))  # noqa: F841 - read by name
        connection.execute("CREATE OR REPLACE TABLE predicted_by_hand AS SELECT * FROM predicted")
    return time.monotonic() - begun


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="sqlflow-elastic-predicting-") as folder:
        database = Path(folder) / "rows.duckdb"
        make_table(database)
        url = f"duckdb:///{database}"
        with sqlflow_elastic.connect(url) as session:
            session.sql(
                "SELECT * FROM few TO TRAIN DNNClassifier WITH model.hidden_units = [512, 512], train.epoch = 1 "
                "LABEL y INTO m"
            )
        import keras
        import numpy as np

        layers = keras.layers
        model = keras.Sequential(
            [keras.Input((COLUMNS,)), *(layers.Dense(512, activation="relu") for _ in range(2)), layers.Dense(1)]
        )
        mean, deviation = np.full(COLUMNS, 0.5), np.full(COLUMNS, 0.29)
        peer(database, model, mean, deviation)
        seconds: dict[str, list[float]] = {"ours": [], "peer": []}
        for _ in range(REPEATS):
            with sqlflow_elastic.connect(url) as session:  # the peer opens the database by itself in between
                session.sql("SELECT * FROM few TO PREDICT warm.y USING m")
                seconds["ours"].append(ours(session))
            seconds["peer"].append(peer(database, model, mean, deviation))
        with duckdb.connect(str(database)) as connection:
            (written,) = connection.execute("SELECT count(y) FROM predicted_here").fetchall()[0]
    ratio = statistics.median(seconds["peer"]) / statistics.median(seconds["ours"])
    for name, values in seconds.items():
        print(f"{name:<8} {ROWS / statistics.median(values):>12,.0f} rows/s")
    print(f"ratio    {ratio:>12.2f}          (bound: {BOUND})")
    return 0 if ratio >= BOUND and written == ROWS else 1


if __name__ == "__main__":
    sys.exit(main())
