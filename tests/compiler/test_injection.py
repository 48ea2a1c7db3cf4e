"""Whatever stands in a string, a name or an attribute, the program's syntax tree differs in literals only."""

from __future__ import annotations

import ast
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlflow_elastic.compiler import Features, compile_statement
from sqlflow_elastic.compiler.network import ChosenOptimizer, Network
from sqlflow_elastic.compiler.python_text import Call, comment, literal, text_block
from sqlflow_elastic.compiler.render import render_evaluate, render_predict, render_train
from sqlflow_elastic.errors import Span
from sqlflow_elastic.language import ast as tree
from sqlflow_elastic.models.features import Bucket, ClassLabel, Cross, Dense, Embedding, Field, Vocabulary
from sqlflow_elastic.models.zoo.declarations import Family
from sqlflow_elastic.models.zoo.losses import Output

NASTY = [
    "'",
    '"',
    '"""',
    "'''",
    '\\"""',
    "\\",
    "a\\",
    'end"',
    "two\nlines",
    'two\nlines"""\nimport os',
    "carriage\rreturn",
    "\r\n",
    "{{ 7 * 7 }}",
    "{% include 'x' %}",
    "{# #}",
    "\\N{BULLET}",
    "\\x41\\u4e2d",
    "# type: ignore",
    "# -*- coding: latin-1 -*-",
    "\N{RIGHT-TO-LEFT OVERRIDE}evil\N{POP DIRECTIONAL FORMATTING}",
    "花萼长度",
    "\0",
    "\x1b[31m",
    "\x0c",
    "\u2028\u2029\x85",
    "\ufeff",
    "\ud800",
    "%(prog)s %s",
    "); import os; os.system('x')",
    "f{1}",
    "",
    " ",
    "\ttab",
]


class Literals(ast.NodeTransformer):
    """Every literal value as None, and the length of a list of literals as nothing."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(None)


def shape(program: str) -> str:
    return ast.dump(Literals().visit(ast.parse(program)))


def program(text: str) -> str:
    """A training program with the text at every place that a user writes."""
    features = Features(
        fields=(Field(text, "text"), Field(text + "2", "float")),
        columns={
            text + "columns": (
                Dense(text),
                Embedding(Vocabulary(text), 8, text, text),
                Cross([text, Bucket(text, [1])], 9),
            )
        },
        label=ClassLabel(text, [text, text + "b"]),
        attributes={},
    )
    return render_train(
        text,
        name=text,
        estimator=text,
        select=text,
        validation=text,
        features=features,
        network=Network(
            Family.DNN,
            ("feature_columns",),
            1,
            Output.BINARY,
            "binary_crossentropy",
            {"optimizer": ChosenOptimizer("Adam", {"learning_rate": 0.1})},
            (3,),
            text,
        ),
        metrics=[text],
        settings={"epochs": 1},
        class_weight={text: 1.0},
        using=False,
    )


def values(program: str) -> list[Any]:
    return [node.value for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Constant)]


@pytest.mark.parametrize("text", NASTY, ids=ascii)
def test_nasty_text_changes_nothing_but_literals(text: str) -> None:
    source = program(text)
    assert shape(source) == shape(program("plain"))
    assert values(source).count(text) >= 9
    assert all(character.isprintable() or character == "\n" for character in source)


@given(st.text(alphabet=st.characters()))
@settings(max_examples=150, deadline=None)
def test_any_text_changes_nothing_but_literals(text: str) -> None:
    assert shape(program(text)) == shape(program("plain"))
    used = render_predict(text, name=text, select=text, target=text, batch_size=1, user=None)
    assert shape(used) == shape(render_predict("a", name="a", select="a", target="a", batch_size=1, user=None))
    used = render_evaluate(text, name=text, select=text, label=text, metrics=[text], user=None)
    assert shape(used) == shape(render_evaluate("a", name="a", select="a", label="a", metrics=["a"], user=None))


@given(st.text(alphabet=st.sampled_from("\"'\\\n {}#abN\r\t")))
@settings(max_examples=300, deadline=None)
def test_text_comes_back_as_it_was(text: str) -> None:
    assert ast.literal_eval(text_block(text)) == text
    assert ast.literal_eval(literal(text)) == text
    assert isinstance(ast.literal_eval(f'"""Text.\n\n{comment(text)}\n"""'), str)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(PLAIN)
@settings(max_examples=150, deadline=None)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    assert ast.literal_eval(literal(value)) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), [1, float("nan")], {"a": [float("inf")]}])
def test_numbers_that_are_not_finite_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="cannot stand in a program"):
        literal(value)


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, type("Text", (str,), {})("x"), range(3)])
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot stand in a program"):
        literal(value)


@pytest.mark.parametrize("name", ["os.system('x')", "a b", "class", "a.", ""])
def test_calls_are_of_names_only(name: str) -> None:
    with pytest.raises(ValueError, match="is not a call"):
        Call(name, {})


class NastyTable:
    """A source that no engine could be: every table has columns of this name and values."""

    dialect = "duckdb"

    def __init__(self, name: str) -> None:
        self._name = name

    def probe(self, select: str, rows: int) -> pa.Table:
        return pa.table(
            {self._name: ["a", "b"] * 30, self._name + "n": [1.0, 2.0] * 30, "label": ["x", self._name] * 30}
        )

    def mark(self, table: tuple[str, ...]) -> None:
        return None

    def columns(self, table: tuple[str, ...]) -> None:
        return None


@pytest.mark.parametrize("text", [text for text in NASTY if text not in ("", "\ud800")], ids=ascii)
def test_nasty_statements_compile_to_the_same_tree(text: str) -> None:
    def compiled(word: str) -> str:
        quoted = "'" + word.replace("'", "''") + "'"
        statement = tree.Train(
            select=tree.Select(text=f"SELECT {word}"),
            model=tree.Name(parts=("LinearClassifier",)),
            attributes=(
                tree.Attribute(
                    name="model.label_vocabulary",
                    value=tree.ListValue(items=(tree.Literal(value="x"), tree.Literal(value=word))),
                ),
                tree.Attribute(
                    name="train.class_weight",
                    value=tree.ListValue(
                        items=(tree.ListValue(items=(tree.Literal(value=word), tree.Literal(value=2.0))),)
                    ),
                ),
                tree.Attribute(name="validation.select", value=tree.Literal(value=f"SELECT {quoted}")),
            ),
            columns=(
                tree.ColumnClause(
                    columns=(
                        tree.Call(
                            function=tree.Name(parts=("EMBEDDING",)),
                            args=(tree.Name(parts=(word,)), tree.Literal(value=4)),
                        ),
                        tree.Star(),
                    ),
                    target=None,
                ),
            ),
            label=tree.Name(parts=("label",)),
            using=None,
            into=tree.Name(parts=("schema", word)),
            span=Span(0, len(word)),
        )
        plan = compile_statement(statement, word, NastyTable(word))  # type: ignore[arg-type]
        return plan.program

    assert shape(compiled(text)) == shape(compiled("word"))
