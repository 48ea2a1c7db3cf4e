"""Sessions with the database's own statements: events, errors, stopping."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import sqlflow_elastic
from sqlflow_elastic import Session
from sqlflow_elastic.errors import CompileError, DataSourceError, JobCancelled, ModelStoreError, ParseError
from sqlflow_elastic.events import Event, Failed, Result, Rows, StatementStarted

ENDLESS = "SELECT count(*) FROM range(100000000000) a, range(1000000)"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with sqlflow_elastic.connect("duckdb://", work_dir=tmp_path) as session:
        yield session


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def failure(session: Session, program: str) -> Failed:
    *_, last = session.execute(program)
    assert isinstance(last, Failed)
    return last


def test_statements_run_in_order_and_tell_their_place(session: Session) -> None:
    events = list(session.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2);\nSELECT a FROM t ORDER BY a"))
    started = [event for event in events if isinstance(event, StatementStarted)]
    assert [(event.index, event.count) for event in started] == [(0, 3), (1, 3), (2, 3)]
    assert started[2].sql == "SELECT a FROM t ORDER BY a"
    results = [event for event in events if isinstance(event, Result)]
    assert results[1].text == "OK, 2 rows affected"
    assert results[1].values == {"rows_affected": 2}
    assert results[2].text == "2 rows"
    assert all(event.seconds > 0 for event in results)
    rows = [event.batch for event in events if isinstance(event, Rows)]
    assert pa.Table.from_batches(rows).to_pydict() == {"a": [1, 2]}


def test_no_row_still_tells_the_columns(session: Session) -> None:
    rows = [event.batch for event in session.execute("SELECT 1 AS a WHERE false") if isinstance(event, Rows)]
    assert rows
    assert rows[0].schema.names == ["a"]


def test_rows_stream(session: Session) -> None:
    events = session.execute("SELECT * FROM range(1000000000000)")
    seen = 0
    for event in events:
        seen += event.batch.num_rows if isinstance(event, Rows) else 0
        if seen > 1_000_000:
            break
    events.close()
    assert session.sql("SELECT 1 AS a").to_pydict() == {"a": [1]}


def test_a_program_that_does_not_parse_runs_not_at_all(session: Session) -> None:
    events = list(session.execute("CREATE TABLE t (a INT); SELECT 1 TO TRAIN"))
    assert kinds(events) == ["Failed"]
    assert isinstance(events[0], Failed)
    assert isinstance(events[0].error, ParseError)
    assert session.tables() == []


def test_nothing_runs_after_a_failure(session: Session) -> None:
    events = list(session.execute("SELECT * FROM missing; CREATE TABLE t (a INT)"))
    assert kinds(events) == ["StatementStarted", "Failed"]
    assert session.tables() == []


def test_sql_gives_the_last_rows_or_raises(session: Session) -> None:
    assert session.sql("SELECT 1 AS a; SELECT 2 AS b; CREATE TABLE t (a INT)").to_pydict() == {"b": [2]}
    assert session.sql("DROP TABLE t").num_columns == 0
    with pytest.raises(DataSourceError, match="missing"):
        session.sql("SELECT * FROM missing")


def test_cancel_ends_the_query_from_another_thread(session: Session) -> None:
    timer = threading.Timer(0.2, session.cancel)
    timer.start()
    assert isinstance(failure(session, ENDLESS).error, JobCancelled)
    timer.join()
    assert session.sql("SELECT 1 AS a").to_pydict() == {"a": [1]}


def test_an_exception_at_the_consumer_ends_the_query(session: Session) -> None:
    events = session.execute(f"SELECT 1; {ENDLESS}")
    assert kinds([next(events) for _ in range(4)])[-1] in {"Result", "StatementStarted"}
    with pytest.raises(KeyboardInterrupt):
        events.throw(KeyboardInterrupt())
    assert session.sql("SELECT 1 AS a").to_pydict() == {"a": [1]}


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("SELECT 1 TO EXPLAIN m", "TO EXPLAIN"),
        ("SELECT 1 TO RUN image", "TO RUN"),
        (
            'SELECT 1 TO MAXIMIZE SUM(a) WITH variables = "a(b)", var_type = "Binary" INTO t',
            "TO MAXIMIZE or TO MINIMIZE",
        ),
    ],
)
def test_what_is_not_there_yet_says_so_at_its_place(session: Session, statement: str, name: str) -> None:
    error = failure(session, f"SELECT 1;\n{statement}").error
    assert isinstance(error, CompileError)
    assert error.message == f"{name} is not available yet"
    assert error.line == 2


def test_models_that_are_not_there(session: Session) -> None:
    assert session.sql("SHOW MODELS").num_rows == 0
    assert session.models() == []
    for statement in ("SHOW TRAIN m", "DESCRIBE MODEL m", "DROP MODEL m"):
        assert isinstance(failure(session, statement).error, ModelStoreError)
    *_, last = session.execute("DROP MODEL IF EXISTS m")
    assert isinstance(last, Result)
    assert last.text == "There is no model m"


def test_names_for_completion(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT, b TEXT)")
    assert session.tables() == ["t"]
    assert session.columns(("t",)) == ["a", "b"]
    assert session.columns(("u",)) == []


def test_the_url_comes_from_the_environment_or_is_a_file_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SQLFLOW_ELASTIC_DATASOURCE", raising=False)
    with sqlflow_elastic.connect() as session:
        session.sql("CREATE TABLE kept (a INT)")
    assert (tmp_path / "data" / "sqlflow-elastic" / "sqlflow.duckdb").exists()
    with sqlflow_elastic.connect() as session:
        assert session.tables() == ["kept"]
    monkeypatch.setenv("SQLFLOW_ELASTIC_DATASOURCE", "duckdb://")
    with sqlflow_elastic.connect() as session:
        assert session.tables() == []
