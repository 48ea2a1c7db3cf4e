"""From a SELECT to a snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlflow_elastic.datasource import Query, open_source, write_snapshot
from sqlflow_elastic.elastic.snapshot import Snapshot
from sqlflow_elastic.errors import DataError, DataSourceError


def test_a_query_reads_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "birds.csv").write_text("name,age\nowl,3\nwren,1\n")
    monkeypatch.setenv("SQLFLOW_ELASTIC_DATASOURCE", "duckdb://")
    progress: list[int] = []
    select = f"SELECT * FROM '{tmp_path}/birds.csv' WHERE age > 2"
    snapshot = Query(select).snapshot(str(tmp_path / "snapshot"), progress.append)
    assert (snapshot.rows, snapshot.description, progress) == (1, select, [1])
    assert [batch.to_pylist() for batch in snapshot.batches()] == [[{"name": "owl", "age": 3}]]


def test_a_url_given_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLFLOW_ELASTIC_DATASOURCE", "duckdb:////nowhere/at/all.db")
    assert Query("SELECT 1 AS n", url="sqlite://").snapshot(str(tmp_path / "s")).rows == 1


def test_without_any_url_it_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SQLFLOW_ELASTIC_DATASOURCE", raising=False)
    with pytest.raises(DataSourceError, match="set SQLFLOW_ELASTIC_DATASOURCE"):
        Query("SELECT 1").snapshot(str(tmp_path / "s"))


def test_an_error_in_the_rows_leaves_no_snapshot(tmp_path: Path) -> None:
    with open_source("duckdb://") as source, pytest.raises(DataSourceError, match="Could not convert string"):
        write_snapshot(
            source,
            "SELECT CAST(CASE WHEN range > 150000 THEN 'x' ELSE '1' END AS INTEGER) FROM range(200000)",
            str(tmp_path / "s"),
        )
    with pytest.raises(DataError, match="there is no snapshot"):
        Snapshot.open(str(tmp_path / "s"))


def test_an_empty_result_is_a_snapshot_with_a_schema(tmp_path: Path) -> None:
    snapshot = Query("SELECT 1 AS n WHERE 1 = 0", url="sqlite://").snapshot(str(tmp_path / "s"))
    assert (snapshot.rows, snapshot.schema.names, list(snapshot.batches())) == (0, ["n"], [])
