"""Rows per second of a SELECT into a snapshot, against the bare driver that fetches them into memory.

    python -m benchmarks.snapshot_reading [--rows N] [--repeats N] [duckdb sqlite mysql postgresql]

Both read the same table of 20 columns (8 integers, 8 floats, 4 texts) in turns. The bare driver does what its own call
for a whole result does: ``fetchall``, or ``to_arrow_table`` for DuckDB. The ratio is the median of its seconds over the
median of ours, and has to be at least 0.8 for every engine. Beside it stands, without a bound, the ratio to a driver
that streams the rows and drops them at once, which is no use to anybody but shows what writing the file costs. Servers
are started if
``SQLFLOW_ELASTIC_TEST_MYSQL`` and ``SQLFLOW_ELASTIC_TEST_POSTGRESQL`` name none.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pymysql
from pymysql.cursors import SSCursor
from sqlalchemy.engine import make_url

from sqlflow_elastic.datasource import DataSource, Mark, open_source, write_snapshot
from tests import services

BOUND = 0.8
FETCH_ROWS = 1000
SELECT = "SELECT * FROM snapshot_reading"
SERVERS = {"mysql": services.MYSQL_VARIABLE, "postgresql": services.POSTGRESQL_VARIABLE}


def table(rows: int) -> pa.RecordBatch:
    """The rows that are read."""
    random = np.random.default_rng(1)
    columns: dict[str, Any] = {}
    for i in range(8):
        columns[f"i{i}"] = random.integers(0, 10 ** (i + 1), rows)
        columns[f"f{i}"] = random.normal(size=rows)
    for i in range(4):
        columns[f"s{i}"] = [f"value {n}" for n in random.integers(0, 10**i * 5, rows)]
    return pa.record_batch(columns)


def fetch(cursor: Any, keep: bool) -> int:
    """Fetch all rows of a DB-API cursor, to keep them or to drop them at once."""
    if keep:
        return len(cursor.fetchall())
    count = 0
    while rows := cursor.fetchmany(FETCH_ROWS):
        count += len(rows)
    return count


def bare_duckdb(url: str, keep: bool) -> int:
    with duckdb.connect(url.removeprefix("duckdb:///")) as connection:
        result = connection.sql(SELECT)
        if keep:
            return int(result.to_arrow_table().num_rows)
        return sum(batch.num_rows for batch in result.to_arrow_reader(65_536))


def bare_sqlite(url: str, keep: bool) -> int:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    try:
        return fetch(connection.execute(SELECT), keep)
    finally:
        connection.close()


def bare_mysql(url: str, keep: bool) -> int:
    where = make_url(url)
    connection = pymysql.connect(
        host=where.host,
        port=where.port or 3306,
        user=where.username,
        password=where.password or "",
        database=where.database,
        cursorclass=SSCursor,
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(SELECT)
        return fetch(cursor, keep)


def bare_postgresql(url: str, keep: bool) -> int:
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        return fetch(cursor.execute(SELECT), keep)


BARE: dict[str, Callable[[str, bool], int]] = {
    "duckdb": bare_duckdb,
    "sqlite": bare_sqlite,
    "mysql": bare_mysql,
    "postgresql": bare_postgresql,
}


def seconds(read: Callable[[str], int], url: str, rows: int) -> float:
    begin = time.perf_counter()
    if read(url) != rows:
        raise RuntimeError("rows were lost")
    return time.perf_counter() - begin


def seconds_of_ours(url: str, rows: int) -> float:
    with tempfile.TemporaryDirectory() as folder:

        def write(url: str) -> int:
            with open_source(url) as source:
                return write_snapshot(source, SELECT, folder).rows

        return seconds(write, url, rows)


def compare(kind: str, url: str, rows: int, repeats: int) -> float:
    source: DataSource
    with open_source(url) as source:
        batch = table(rows)
        source.write_table(("snapshot_reading",), batch.schema, [batch], Mark.RESULT)
    times: dict[str, list[float]] = {"keeps": [], "drops": [], "ours": []}
    for turn in range(repeats + 1):
        taken = (
            seconds(lambda url: BARE[kind](url, True), url, rows),
            seconds(lambda url: BARE[kind](url, False), url, rows),
            seconds_of_ours(url, rows),
        )
        if turn:  # the first warms caches up
            for name, value in zip(times, taken, strict=True):
                times[name].append(value)
    with open_source(url) as source:
        source.drop_table(("snapshot_reading",))
    keeps, drops, mine = (statistics.median(times[name]) for name in ("keeps", "drops", "ours"))
    print(
        f"{kind:<11} driver {rows / keeps:>11,.0f} rows/s   snapshot {rows / mine:>11,.0f} rows/s   "
        f"ratio {keeps / mine:5.2f}   ({drops / mine:.2f} of a driver that drops the rows)",
        flush=True,
    )
    return keeps / mine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(BARE), metavar="KIND", help=", ".join(BARE))
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    starters = {"mysql": services.mariadb, "postgresql": services.postgresql}
    ratios = []
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory()))
        for kind in arguments.kinds:
            if kind in SERVERS:
                url = os.environ.get(SERVERS[kind]) or cleanup.enter_context(starters[kind]())
            else:
                url = f"{kind}:///{folder}/{kind}.db"
            # DuckDB is so fast that opening the file would be most of the time.
            rows = arguments.rows * (5 if kind == "duckdb" else 1)
            ratios.append(compare(kind, url, rows, arguments.repeats))
    print(f"worst ratio {min(ratios):.2f}; at least {BOUND} is wanted")
    return 0 if min(ratios) >= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
