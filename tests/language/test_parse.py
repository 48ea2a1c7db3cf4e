"""What the tree of each statement holds, and where in the text it stands."""

from __future__ import annotations

import pytest

from sqlflow_elastic.errors import Span
from sqlflow_elastic.language import ast, parse
from sqlflow_elastic.language.ast import (
    Attribute,
    Call,
    ColumnClause,
    Constraint,
    Keyword,
    ListValue,
    Literal,
    Name,
    PlainSQL,
    Select,
    Star,
)
from tests.language.corpus import accepted
from tests.language.nodes import children, same, walk


def name(text: str) -> Name:
    return Name(tuple(text.split(".")))


def only(text: str, dialect: str = "duckdb") -> ast.Statement:
    (statement,) = parse(text, dialect)
    return statement


def attribute_value(source: str, dialect: str = "duckdb") -> ast.Value:
    statement = only(f"SELECT * FROM t TO TRAIN M WITH a = {source} INTO m", dialect)
    assert isinstance(statement, ast.Train)
    return statement.attributes[0].value


def test_train() -> None:
    statement = only(
        "SELECT a, b FROM iris.train JOIN u USING (k) TO TRAIN sqlflow_models.DNNClassifier "
        'WITH model.n_classes = 3, model.hidden_units = [10, [2.5]], model.optimizer = Adam(0.1, beta="x") '
        'COLUMN a, "b c", \'d.*\', * FOR wide COLUMN EMBEDDING(CATEGORY_ID("f.*", 10), 8) '
        "LABEL 'class' USING old.m INTO db.m;"
    )
    expected = ast.Train(
        Select("SELECT a, b FROM iris.train JOIN u USING (k)", (name("iris.train"), name("u"))),
        name("sqlflow_models.DNNClassifier"),
        (
            Attribute("model.n_classes", Literal(3)),
            Attribute("model.hidden_units", ListValue((Literal(10), ListValue((Literal(2.5),))))),
            Attribute("model.optimizer", Call(name("Adam"), (Literal(0.1),), (Keyword("beta", Literal("x")),))),
        ),
        (
            ColumnClause((name("a"), Name(("b c",)), Literal("d.*"), Star()), "wide"),
            ColumnClause(
                (
                    Call(
                        name("EMBEDDING"),
                        (Call(name("CATEGORY_ID"), (Literal("f.*"), Literal(10))), Literal(8)),
                    ),
                ),
                None,
            ),
        ),
        name("class"),
        name("old.m"),
        name("db.m"),
    )
    assert same(statement, expected)


def test_train_with_the_least() -> None:
    statement = only("SELECT * FROM t TO TRAIN M INTO m")
    assert same(statement, ast.Train(Select("SELECT * FROM t", (name("t"),)), name("M"), (), (), None, None, name("m")))


def test_predict() -> None:
    statement = only("SELECT * FROM t TO PREDICT db.r.y WITH predict.batch_size = 1 USING m")
    expected = ast.Predict(
        Select("SELECT * FROM t", (name("t"),)),
        name("db.r.y"),
        (Attribute("predict.batch_size", Literal(1)),),
        name("m"),
    )
    assert same(statement, expected)


def test_evaluate() -> None:
    select = Select("SELECT * FROM t", (name("t"),))
    assert same(
        only("SELECT * FROM t TO EVALUATE m WITH validation.steps = 2 LABEL y INTO r"),
        ast.Evaluate(select, name("m"), (Attribute("validation.steps", Literal(2)),), name("y"), name("r")),
    )
    assert same(only("SELECT * FROM t TO EVALUATE m"), ast.Evaluate(select, name("m"), (), None, None))


def test_explain() -> None:
    assert same(
        only("SELECT * FROM t TO EXPLAIN m WITH summary.sort = True USING TreeExplainer INTO r"),
        ast.Explain(
            Select("SELECT * FROM t", (name("t"),)),
            name("m"),
            (Attribute("summary.sort", Literal(True)),),
            name("TreeExplainer"),
            name("r"),
        ),
    )


def test_run() -> None:
    image = Name(("hub.io:5000/a-b/c:v1.2",))
    assert same(
        only("SELECT * FROM t TO RUN hub.io:5000/a-b/c:v1.2 CMD \"a\", 'b;' INTO r, db.s"),
        ast.Run(Select("SELECT * FROM t", (name("t"),)), image, ("a", "b;"), (name("r"), name("db.s"))),
    )
    assert same(only("TO RUN hub.io:5000/a-b/c:v1.2"), ast.Run(None, image, (), ()))


def test_optimize() -> None:
    statement = only(
        "SELECT * FROM t TO MINIMIZE SUM((a-b)  * `x y`) /* cost */ "
        "CONSTRAINT SUM(x) <= -- at most\n cap GROUP BY db.g, y>=1 WITH variables = 'x(a, b)' USING glpk INTO r"
    )
    expected = ast.Optimize(
        Select("SELECT * FROM t", (name("t"),)),
        ast.Direction.MINIMIZE,
        "SUM((a-b) * `x y`)",
        (Constraint("SUM(x) <= cap", name("db.g")), Constraint("y>=1")),
        (Attribute("variables", Literal("x(a, b)")),),
        name("glpk"),
        name("r"),
    )
    assert same(statement, expected)


def test_explain_plan() -> None:
    text = "EXPLAIN SELECT * FROM t TO TRAIN M INTO m"
    statement = only(text)
    assert isinstance(statement, ast.ExplainPlan)
    assert same(statement.train, only(text.removeprefix("EXPLAIN ")))
    assert statement.span == Span(0, len(text))
    assert statement.train.span == Span(8, len(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SHOW TRAIN a.b", ast.ShowTrain(name("a.b"))),
        ("show models", ast.ShowModels()),
        ("DESC MODEL `a b`", ast.DescribeModel(Name(("a b",)))),
        ("DROP MODEL m", ast.DropModel(name("m"), if_exists=False)),
        ("DROP MODEL IF EXISTS m", ast.DropModel(name("m"), if_exists=True)),
        ("SHOW JOBS", ast.ShowJobs()),
        ("SHOW JOB 042", ast.ShowJob("042")),
        ("SHOW JOB 1e5", ast.ShowJob("1e5")),
        ("KILL JOB train-7f", ast.KillJob("train-7f")),
        ("KILL JOB 'a b'", ast.KillJob("a b")),
    ],
)
def test_commands(text: str, expected: ast.Statement) -> None:
    assert same(only(text), expected)


@pytest.mark.parametrize(
    ("text", "returns_rows"),
    [
        ("SELECT 1", True),
        ("(SELECT 1)", True),
        ("FROM t", True),
        ("SHOW TABLES", True),
        ("DESCRIBE model", True),
        ("EXPLAIN SELECT 1", True),
        ("EXPLAIN INSERT INTO t VALUES (1)", True),
        ("PRAGMA database_list", True),
        ("VALUES (1)", True),
        ("WITH a AS (SELECT 1) SELECT * FROM a", True),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", False),
        ("WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a", True),
        ("INSERT INTO t VALUES (1)", False),
        ("INSERT INTO t VALUES (1) RETURNING a", True),
        ("CREATE TABLE t AS SELECT 1", False),
        ("DROP TABLE model", False),
        ("USE iris", False),
    ],
)
def test_plain_sql(text: str, returns_rows: bool) -> None:
    statement = only(f" /* before */ {text} ; -- behind")
    assert isinstance(statement, PlainSQL)
    assert statement.text == text
    assert statement.returns_rows is returns_rows


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1", 1),
        ("-2", -2),
        ("+3", 3),
        ("1.5", 1.5),
        (".5", 0.5),
        ("2.", 2.0),
        ("1e-3", 0.001),
        ("1E5", 100000.0),
        ("12345678901234567890", 12345678901234567890),
        ("True", True),
        ("FALSE", False),
        ("none", None),
        ("''", ""),
        ("'it''s'", "it's"),
        ('"say ""hi"""', 'say "hi"'),
        ('"it\'s; TO TRAIN"', "it's; TO TRAIN"),
        ("'line\nbreak'", "line\nbreak"),
        ("'训练；'", "训练；"),
    ],
)
def test_literals_in_every_dialect(source: str, value: object) -> None:
    for dialect in ("duckdb", "sqlite", "mysql", "postgres"):
        assert same(attribute_value(source, dialect), Literal(value))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dialect", "source", "value"),
    [
        ("duckdb", r"'a\n'", r"a\n"),
        ("sqlite", r'"^\d+$"', r"^\d+$"),
        ("postgres", r"E'a\tb\'c'", "a\tb'c"),
        ("postgres", "$$it's$$", "it's"),
        ("postgres", "$q$a $$ b$q$", "a $$ b"),
        ("postgres", r"E'训练\n\u8bad'", "训练\n训"),
        ("duckdb", r"e'训练\n'", "训练\n"),
        ("duckdb", "$$it's$$", "it's"),
        ("mysql", r"'a\nb\'c\\'", "a\nb'c\\"),
        ("mysql", r'"a\"b"', 'a"b'),
        ("mysql", r"'\d'", "d"),
        ("hive", r"'it\'s'", "it's"),
        ("hive", r"'it''s a \\d'", r"it's a \d"),
    ],
)
def test_strings_of_the_dialects(dialect: str, source: str, value: str) -> None:
    assert same(attribute_value(source, dialect), Literal(value))


def test_words_and_calls_as_values() -> None:
    assert same(attribute_value("lpar(NAME, comma)"), Call(name("lpar"), (name("NAME"), name("comma"))))
    assert same(attribute_value("RMSprop"), name("RMSprop"))
    assert same(attribute_value("a.b"), name("a.b"))
    assert same(attribute_value("`true`"), Name(("true",)))
    assert same(attribute_value("f()"), Call(name("f"), ()))
    assert same(attribute_value("search.choice([[64], []])"), parse_call())


def parse_call() -> Call:
    return Call(name("search.choice"), (ListValue((ListValue((Literal(64),)), ListValue(()))),))


def test_brackets_are_lists_behind_to_and_names_before_it_in_sqlite() -> None:
    statement = only('SELECT [to train "x] FROM [t u] TO TRAIN M WITH a = ["]", [1]] INTO m', "sqlite")
    assert isinstance(statement, ast.Train)
    assert statement.select.tables == (Name(("t u",)),)
    assert same(statement.attributes[0].value, ListValue((Literal("]"), ListValue((Literal(1),)))))


def test_the_query_has_no_comments_around_it() -> None:
    statement = only("-- before\n/* too */ SELECT a -- inside\nFROM t /* behind */ -- it\nTO TRAIN M INTO m")
    assert isinstance(statement, ast.Train)
    assert statement.select.text == "SELECT a -- inside\nFROM t"


def test_byte_order_mark_and_line_ends() -> None:
    statements = parse("\ufeffSELECT *\r\nFROM t\r\nTO TRAIN M\r\nINTO m;\r\nSELECT 1;\r\n")
    assert same(statements, (only("SELECT *\r\nFROM t TO TRAIN M INTO m"), PlainSQL("SELECT 1", returns_rows=True)))


def test_nothing_is_no_statement() -> None:
    for text in ("", " ", ";", "-- nothing", "/* nothing */ ;;", "\ufeff"):
        assert parse(text) == ()


def test_unknown_dialect() -> None:
    with pytest.raises(ValueError, match="unknown SQL dialect 'cobol': one of duckdb, hive, mysql, postgres, sqlite"):
        parse("SELECT 1", "cobol")


def test_spans_say_where_everything_stands() -> None:
    for example in accepted():
        text = example.program
        for dialect in example.dialects:
            for node in walk(parse(text, dialect)):
                source = text[node.span.start : node.span.end]
                assert source.strip() == source != ""
                assert all(node.span.start <= c.span.start < c.span.end <= node.span.end for c in children(node))
                match node:
                    case Literal(bool() | None as value):
                        assert source.upper() == str(value).upper()
                    case Literal(int() | float() as value):
                        assert type(value)(source) == value
                    case Name(parts):
                        assert all(part in source.replace('""', '"').replace("``", "`") for part in parts)
                    case Select(query) | PlainSQL(query):
                        assert source == query
                    case Attribute(attribute):
                        assert text[node.name_span.start : node.name_span.end] == attribute
                    case _:
                        pass
