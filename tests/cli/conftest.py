"""A database file with a small table to train on."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest


@pytest.fixture
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DuckDB file with the table ``points``: two numbers, and whether their sum is above one."""
    path = tmp_path_factory.mktemp("database") / "points.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE points AS SELECT x, y, x + y > 1 AS above "
            "FROM (SELECT (i % 17) / 17 AS x, (i % 13) / 13 AS y FROM range(200) r(i))"
        )
    return path
