"""Which tables a query reads."""

from __future__ import annotations

import pytest

from sqlflow_elastic.language import ast, parse, select_tables


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT 1", ""),
        ("SELECT * FROM t", "t"),
        ("SELECT * FROM c.s.t AS x", "c.s.t"),
        ("SELECT * FROM b, a JOIN c ON a.x = c.x", "b a c"),
        ("SELECT * FROM t WHERE a IN (SELECT a FROM u) UNION SELECT * FROM t", "t u"),
        ("WITH a AS (SELECT * FROM t) SELECT * FROM a JOIN u USING (k)", "t u"),
        ("WITH a AS (SELECT * FROM t), b AS (SELECT * FROM a) SELECT * FROM b", "t"),
        ("WITH b AS (SELECT * FROM a), a AS (SELECT 1) SELECT * FROM A, b", "a"),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", "t"),
        ("WITH a AS (SELECT 1) SELECT * FROM (SELECT * FROM a) q, db.a", "db.a"),
        ("WITH RECURSIVE n AS (SELECT * FROM t UNION ALL SELECT * FROM n) SELECT * FROM n", "t"),
        ("SELECT EXTRACT(year FROM d) FROM t", "t"),
        ("SELECT * FROM read_csv('x.csv')", ""),
        ("SELECT * FROM 'x.csv'", "x.csv"),
        ("FROM t SELECT a", "t"),
        ("SELECT an exotic thing of the database FROM", ""),
    ],
)
def test_tables(query: str, tables: str) -> None:
    assert [name.text for name in select_tables(query, "duckdb")] == tables.split()


def test_their_places() -> None:
    text = 'SELECT 1; SELECT * FROM "my db"."表" AS x, u TO TRAIN M INTO m'
    statement = parse(text)[1]
    assert isinstance(statement, ast.Train)
    sources = [text[name.span.start : name.span.end] for name in statement.select.tables]
    assert sources == ['"my db"."表"', "u"]


def test_what_is_nested_too_deep_for_sqlglot_is_left_to_the_database() -> None:
    assert select_tables("SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM t", "duckdb") == ()
