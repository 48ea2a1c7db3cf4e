"""Wrong values in the data stop a statement with an error that names value, field and statement; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import sqlflow_elastic
from sqlflow_elastic.errors import DataError
from sqlflow_elastic.session import Session


@dataclass(frozen=True)
class Wrong:
    """A table whose wrong row lies far behind what the compiler looks at, a statement, and what the error says."""

    name: str
    columns: str
    good: str
    bad: str
    clauses: str
    said: str


ROWS = 40_000

CASES = [
    Wrong(
        "text in a number column",
        "x VARCHAR, y INTEGER",
        "CAST(i AS VARCHAR), i % 2",
        "'abc', 1",
        "TO TRAIN LinearClassifier COLUMN DENSE(x, 1) LABEL y INTO m",
        "row 40001: field 'x' is 'abc'",
    ),
    Wrong(
        "a NULL label",
        "x DOUBLE, y INTEGER",
        "i, i % 2",
        "1, NULL",
        "TO TRAIN LinearClassifier LABEL y INTO m",
        "row 40001: field 'y' is NULL",
    ),
    Wrong(
        "a CSV field of the wrong length",
        "x VARCHAR, y INTEGER",
        "i || ',2,3', i % 2",
        "'1,2', 1",
        "TO TRAIN LinearClassifier COLUMN DENSE(x, 3, COMMA) LABEL y INTO m",
        "row 40001: field 'x' is '1,2'",
    ),
    Wrong(
        "a category beyond its bound",
        "x INTEGER, y INTEGER",
        "i % 10, i % 2",
        "10, 1",
        "TO TRAIN LinearClassifier COLUMN INDICATOR(CATEGORY_ID(x, 10)) LABEL y INTO m",
        "row 40001: field 'x' is 10",
    ),
    Wrong(
        "a label that is no class",
        "x DOUBLE, y INTEGER",
        "i, i % 2",
        "1, 7",
        "TO TRAIN LinearClassifier WITH model.n_classes = 2 LABEL y INTO m",
        "row 40001: field 'y' is 7",
    ),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("wrong")
    with sqlflow_elastic.connect(f"duckdb:///{folder}/wrong.duckdb") as session:
        yield session


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_value_is_named_and_nothing_is_written(session: Session, case: Wrong) -> None:
    session.sql(f"CREATE OR REPLACE TABLE t ({case.columns})")
    session.sql(f"INSERT INTO t SELECT {case.good} FROM range({ROWS}) AS r(i)")
    session.sql(f"INSERT INTO t SELECT {case.bad}")
    tables = session.sql("SHOW TABLES")
    with pytest.raises(DataError) as caught:
        session.sql(f"SELECT * FROM t {case.clauses}")
    assert case.said in str(caught.value)
    assert "SELECT * FROM t" in str(caught.value)
    assert session.sql("SHOW TABLES").equals(tables)


def test_a_wrong_value_at_prediction_leaves_the_old_table(session: Session) -> None:
    session.sql("CREATE OR REPLACE TABLE t AS SELECT CAST(i AS VARCHAR) AS x, i % 2 AS y FROM range(100) AS r(i)")
    session.sql("SELECT * FROM t TO TRAIN LinearClassifier COLUMN DENSE(x, 1) LABEL y INTO n")
    session.sql("SELECT x FROM t LIMIT 10 TO PREDICT p.y USING n")
    before = session.sql("SELECT * FROM p")
    with pytest.raises(DataError, match="'abc'"):
        session.sql("SELECT x FROM t UNION ALL SELECT 'abc' TO PREDICT p.y USING n")
    assert session.sql("SELECT * FROM p").equals(before)
