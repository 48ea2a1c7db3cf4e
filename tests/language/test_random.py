"""Random trees survive printing and parsing; random texts raise nothing but a ParseError."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from sqlflow_elastic.errors import ParseError
from sqlflow_elastic.language import KEYWORDS, ast, format_program, is_complete, parse
from tests.language.corpus import DIALECTS, accepted, rejected
from tests.language.nodes import same

dialects = st.sampled_from(DIALECTS)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
words = st.from_regex(r"[a-zA-Z_一-龥][a-zA-Z0-9_一-龥]{0,6}", fullmatch=True) | st.sampled_from(
    [*KEYWORDS, "label", "true", "None", "to"]
)
names = st.lists(words | texts.filter(bool), min_size=1, max_size=3).map(lambda parts: ast.Name(tuple(parts)))
images = st.from_regex(r"[a-z0-9]{1,4}([./:@-][a-zA-Z0-9_]{1,4}){0,3}[/:@-][a-z]{1,4}", fullmatch=True)
models = names | images.map(lambda image: ast.Name((image,)))
literals = st.builds(
    ast.Literal, texts | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none()
)


def _once(keywords: list[ast.Keyword]) -> tuple[ast.Keyword, ...]:
    return tuple({keyword.name: keyword for keyword in keywords}.values())


def _compound(values: st.SearchStrategy[ast.Value]) -> st.SearchStrategy[ast.Value]:
    several = st.lists(values, max_size=3).map(tuple)
    keywords = st.lists(st.builds(ast.Keyword, words, values), max_size=2).map(_once)
    return st.builds(ast.ListValue, several) | st.builds(ast.Call, names, several, keywords)


values = st.recursive(literals | names, _compound, max_leaves=8)
calls = _compound(values).filter(lambda value: isinstance(value, ast.Call))
columns = st.lists(names | calls | st.just(ast.Star()) | st.builds(ast.Literal, texts), min_size=1, max_size=3).map(
    tuple
)
column_clauses = st.lists(st.builds(ast.ColumnClause, columns, st.none() | words), max_size=3).map(
    lambda clauses: tuple({clause.target: clause for clause in clauses}.values())
)
attribute_names = st.lists(words, min_size=1, max_size=3).map(".".join)
attributes = st.lists(st.builds(ast.Attribute, attribute_names, values), max_size=4).map(
    lambda items: tuple({item.name: item for item in items}.values())
)
selects = st.sampled_from(
    [
        ast.Select("SELECT * FROM t", (ast.Name(("t",)),)),
        ast.Select("SELECT 'TO TRAIN;' AS a -- TO RUN;\nFROM s.t", (ast.Name(("s", "t")),)),
        ast.Select("(SELECT to, train FROM t)", (ast.Name(("t",)),)),
        ast.Select("WITH a AS (SELECT 1) SELECT * FROM a"),
    ]
)
expressions = st.sampled_from(["x", "SUM((price - cost) * x)", "`a b` + 'c' >= -1.5e3", "SUM(with, into) * 2", "a-b"])
constraints = st.lists(st.builds(ast.Constraint, expressions, st.none() | names), max_size=3).map(tuple)
jobs = texts.filter(bool) | words | images
trains = st.builds(ast.Train, selects, models, attributes, column_clauses, st.none() | names, st.none() | models, names)
targets = st.lists(words | texts.filter(bool), min_size=2, max_size=3).map(lambda parts: ast.Name(tuple(parts)))
statements: st.SearchStrategy[ast.Statement] = st.one_of(
    trains,
    st.builds(ast.ExplainPlan, trains),
    st.builds(ast.Predict, selects, targets, attributes, models),
    st.builds(ast.Evaluate, selects, models, attributes, st.none() | names, st.none() | names),
    st.builds(ast.Explain, selects, models, attributes, st.none() | models, st.none() | names),
    st.builds(
        ast.Run,
        st.none() | selects,
        models,
        st.lists(texts, max_size=3).map(tuple),
        st.lists(names, max_size=2).map(tuple),
    ),
    st.builds(
        ast.Optimize,
        selects,
        st.sampled_from(ast.Direction),
        expressions,
        constraints,
        attributes,
        st.none() | models,
        names,
    ),
    st.builds(ast.ShowTrain, models),
    st.builds(ast.ShowModels),
    st.builds(ast.DescribeModel, models),
    st.builds(ast.DropModel, models, st.booleans()),
    st.builds(ast.ShowJobs),
    st.builds(ast.ShowJob, jobs),
    st.builds(ast.KillJob, jobs),
    st.just(ast.PlainSQL("SELECT ';' FROM t", returns_rows=True)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(statements, max_size=3).map(tuple), dialects)
def test_random_trees_survive_printing(program: tuple[ast.Statement, ...], dialect: str) -> None:
    printed = format_program(program, dialect)
    assert same(parse(printed, dialect), program), printed


def check(text: str, dialect: str) -> None:
    """The text is a program that survives printing, or a ParseError that can be shown."""
    is_complete(text, dialect)
    try:
        program = parse(text, dialect)
    except ParseError as error:
        assert 0 <= error.span.start <= error.span.end <= len(text), error  # noqa: PT017
        return
    printed = format_program(program, dialect)
    assert same(parse(printed, dialect), program), printed


FRAGMENTS = [
    *KEYWORDS,
    *(
        "SELECT * FROM t",
        "TO TRAIN M",
        "WITH a = 1",
        "COLUMN b",
        "LABEL c",
        "INTO m",
        "EXPLAIN",
        "END",
        "BEGIN",
        "CREATE",
    ),
    *(
        "a",
        "类",
        "`b c`",
        '"d"',
        "'e'",
        "1",
        "-2.5e3",
        "1e999",
        "9x",
        "a/b:c",
        "$$",
        "$x$",
        "E'",
        "\\",
        "#",
        "--",
        "/*",
        "*/",
    ),
    *(
        "\n",
        " ",
        "\t",
        "\r\n",
        "\ufeff",
        ";",
        ",",
        ".",
        "=",
        "*",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "'",
        '"',
        "`",
        "\0",
        "🙂",
    ),
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=25), st.sampled_from(["", " "]), dialects)
def test_random_texts(fragments: list[str], joint: str, dialect: str) -> None:
    check(joint.join(fragments), dialect)


PROGRAMS = [(example.program, dialect) for example in (*accepted(), *rejected()) for dialect in example.dialects]


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(PROGRAMS), st.data())
def test_mutated_programs(program: tuple[str, str], data: st.DataObject) -> None:
    text, dialect = program
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 10)))
        inserted = data.draw(st.just("") | st.sampled_from(FRAGMENTS) | st.text(max_size=3))
        text = text[:start] + inserted + text[end:]
    check(text, dialect)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(), max_size=60), dialects)
def test_any_characters(text: str, dialect: str) -> None:
    with contextlib.suppress(ParseError):
        parse(text, dialect)
