"""Texts that nobody means to write: the answer is a ParseError at a place, and soon."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable

import pytest

from sqlflow_elastic.errors import ParseError
from sqlflow_elastic.language import ast, format_program, is_complete, parse
from tests.language.corpus import DIALECTS

TRAIN = "SELECT * FROM t TO TRAIN M WITH a = {} INTO m"


def message(text: str, dialect: str = "duckdb") -> str:
    with pytest.raises(ParseError) as caught:
        parse(text, dialect)
    return caught.value.message


@pytest.mark.parametrize("character", [chr(0), chr(0xD800), chr(0xDFFF)])
def test_what_is_no_text(character: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(f"SELECT 1;\nSELECT '{character}'")
    assert (caught.value.line, caught.value.column) == (2, 9)
    assert str(caught.value) == "line 2, column 9: this character is not text\n  SELECT '\ufffd'\n          ^"


def test_numbers_too_large() -> None:
    assert message(TRAIN.format("1e400")) == "this number is too large"
    assert message(TRAIN.format("9" * 5000)) == "this number is too large"


@pytest.mark.parametrize("opening", ["[", "(", "f(", "{"])
def test_deep_nesting_in_clauses(opening: str) -> None:
    closing = {"[": "]", "(": ")", "{": "}"}[opening[-1]]
    assert "nested deeper than 100 levels" in message(TRAIN.format(opening * 10_000 + closing * 10_000))
    assert "is never closed" in message(TRAIN.format(opening * 10_000))


def test_deep_nesting_in_the_query() -> None:
    nested = "(" * 10_000 + "1" + ")" * 10_000
    assert "nested deeper than 100 levels" in message(f"SELECT {nested} FROM t TO TRAIN M INTO m")
    assert "is never closed" in message(f"SELECT {'(' * 10_000} FROM t TO TRAIN M INTO m")
    assert parse(f"SELECT {nested}") == (ast.PlainSQL(f"SELECT {nested}"),)


def test_nesting_that_is_deep_enough_for_everybody() -> None:
    statements = parse(TRAIN.format("[" * 100 + "]" * 100))
    assert parse(format_program(statements)) == statements


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", False),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1; SELECT 2", False),
        ("SELECT ';", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1 -- ;", False),
        ("SELECT (1", False),
        ("SELECT * FROM t TO", False),
        ("SELECT * FROM t\nTO TRAIN M\nWITH a = [1,", False),
        ("SELECT * FROM t\nTO TRAIN M\nINTO m;", True),
        ("SELECT * FROM t TO TRIAN M;", True),
        ("SELECT (1;", True),
        ("SELECT 1)", True),
        ("CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM u;", False),
        ("CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM u; END;", True),
    ],
)
def test_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def seconds(text: str) -> float:
    """The processor's time to parse a text, or to find out that it is none; the better of two.

    Without Python's collector: what that takes grows with all that the tests before this one have left in memory.
    """
    times = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            start = time.process_time()
            with contextlib.suppress(ParseError):
                parse(text)
            times.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(times)


def statements(count: int) -> str:
    return "\n".join(
        f"SELECT a, b, c{i} FROM iris.train{i} WHERE x > {i} "
        f"TO TRAIN DNNClassifier WITH model.n = [1, 2] LABEL b INTO m{i};"
        for i in range(count)
    )


TEXTS: dict[str, Callable[[int], str]] = {
    "statements": lambda n: statements(n // 5),
    "plain statements": lambda n: "INSERT INTO t VALUES (1, 'abc', 2.5);\n" * n,
    "comments": lambda n: "SELECT 1 /* a */ -- b\n" * n,
    "nested comments": lambda n: "/*" * n + " " + "*/" * n,
    "brackets": lambda n: "SELECT " + "(" * n + ")" * n,
    "list": lambda n: TRAIN.format("[" + "1, " * n + "1]"),
    "attributes": lambda n: TRAIN.format("1, " + ", ".join(f"a{i} = {i}" for i in range(n))),
    "columns": lambda n: (
        "SELECT * FROM t TO TRAIN M COLUMN " + ", ".join(f"f(c{i}, {i})" for i in range(n)) + " INTO m"
    ),
    "constraints": lambda n: "SELECT 1 TO MAXIMIZE x CONSTRAINT " + "x + 1 <= 2 GROUP BY g, " * n + "y INTO m",
    "dotted name": lambda n: TRAIN.format("a." * n + "a"),
    "image": lambda n: TRAIN.format("a/" * n),
    "words": lambda n: "SELECT " + "to train " * n,
    "columns named to": lambda n: "SELECT t.to " + ", t.to train" * n + " FROM t",
    "long query": lambda n: "SELECT " + "a + b AS c, " * n + "d FROM t TO TRAIN M INTO m",
    "routine": lambda n: "CREATE " + "FUNCTION BEGIN ; END ; " * n,
    "dollars": lambda n: "SELECT " + "$1 $a$ $a$ " * n,
    "open strings": lambda n: "SELECT '" + "'' \\' " * n,
}


@pytest.mark.parametrize("kind", TEXTS)
def test_time_is_linear(kind: str) -> None:
    build = TEXTS[kind]
    size = 500
    while (once := seconds(build(size))) < 0.05:
        size *= 2
    ratios = [seconds(build(size * 4)) / once]
    while ratios[-1] > 5 and len(ratios) < 4:  # another process may have had the caches
        ratios.append(seconds(build(size * 4)) / seconds(build(size)))
    assert min(ratios) < 5, ratios


def test_a_long_program() -> None:
    text = statements(9_500)
    assert len(text) > 1_000_000
    start = time.perf_counter()
    assert len(parse(text)) == 9_500
    assert time.perf_counter() - start < 30  # 4 s on a slow core


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_beginning_of_a_program(dialect: str) -> None:
    """Somebody types: no prefix of a program is more than a ParseError."""
    text = """SELECT 'it''s' AS "a", b FROM t -- c
        TO TRAIN img/m:1 WITH a.b = [1, -2.5e3, f(x, y='z')], c = none COLUMN a, `b c` FOR d LABEL 'l' INTO x;
        TO RUN x CMD 'y'; DROP MODEL IF EXISTS z; EXPLAIN SELECT 1 TO MAXIMIZE (a) CONSTRAINT b > 1 GROUP BY c INTO d"""
    for end in range(len(text)):
        with contextlib.suppress(ParseError):
            parse(text[:end], dialect)
        assert isinstance(is_complete(text[:end], dialect), bool)
