"""From the grammar's trees to the syntax tree."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lark import Token as Terminal
from lark import Transformer, Tree, v_args
from lark.exceptions import VisitError

from sqlflow_elastic.errors import Span
from sqlflow_elastic.language import ast
from sqlflow_elastic.language.mistake import Mistake
from sqlflow_elastic.language.quoting import string_value, unquoted_name
from sqlflow_elastic.language.scanner import Token
from sqlflow_elastic.language.words import CLAUSES

_CONSTANTS = {"TRUE": True, "FALSE": False, "NONE": None}


@dataclass(frozen=True)
class _Clause:
    """A clause that may stand once in a statement."""

    keyword: str
    value: Any
    span: Span


def build(tree: Tree, dialect: str, tokens: Sequence[Token], select: ast.Select | None, span: Span) -> ast.Statement:
    """The statement that a tree of the grammar says.

    Args:
        tree: of the clauses, or of a command of ours.
        dialect: whose strings stand in them.
        tokens: those of the tree.
        select: the query before TO, if there is one.
        span: the whole statement's place.

    Raises:
        Mistake: the grammar takes it and it means nothing: something given twice, a number too large, …
    """
    try:
        statement: ast.Statement = _Builder(dialect, tokens, select, span).transform(tree)
    except VisitError as error:
        raise error.orig_exc from None
    return statement


@v_args(meta=True)
class _Builder(Transformer):  # type: ignore[misc]
    """Builds one statement; the methods are named as the grammar's rules and get the place and what is inside."""

    def __init__(self, dialect: str, tokens: Sequence[Token], select: ast.Select | None, span: Span) -> None:
        super().__init__(visit_tokens=False)
        self.dialect = dialect
        self.tokens = tokens
        self.query = select
        self.span = span

    # ── statements ──────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, _: Any, children: list[Any]) -> ast.Statement:
        statement: ast.Statement = children[0]
        return statement

    def train(self, _: Any, children: list[Any]) -> ast.Train:
        model, *clauses = children
        columns = [clause for clause in clauses if isinstance(clause, ast.ColumnClause)]
        _each_target_once(columns)
        given = _once(clauses)
        return ast.Train(
            self._select("TRAIN"),
            model,
            given.get("WITH", ()),
            tuple(columns),
            given.get("LABEL"),
            given.get("USING"),
            given["INTO"],
            span=self.span,
        )

    def predict(self, _: Any, children: list[Any]) -> ast.Predict:
        target, *clauses = children
        given = _once(clauses)
        if len(target.parts) < 2:
            raise Mistake(
                f"PREDICT writes into a column, and '{target.text}' names none",
                target.span,
                f"write the table and the column, as in {target.text}.prediction",
            )
        if "USING" not in given:
            raise Mistake("USING is missing", _end(self.span), "add USING and the name of a trained model")
        return ast.Predict(self._select("PREDICT"), target, given.get("WITH", ()), given["USING"], span=self.span)

    def evaluate(self, _: Any, children: list[Any]) -> ast.Evaluate:
        model, *clauses = children
        given = _once(clauses)
        attributes = given.get("WITH", ())
        return ast.Evaluate(
            self._select("EVALUATE"), model, attributes, given.get("LABEL"), given.get("INTO"), span=self.span
        )

    def explain(self, _: Any, children: list[Any]) -> ast.Explain:
        model, *clauses = children
        given = _once(clauses)
        attributes = given.get("WITH", ())
        return ast.Explain(
            self._select("EXPLAIN"), model, attributes, given.get("USING"), given.get("INTO"), span=self.span
        )

    def run(self, _: Any, children: list[Any]) -> ast.Run:
        image, *clauses = children
        given = _once(clauses)
        return ast.Run(self.query, image, given.get("CMD", ()), given.get("INTO", ()), span=self.span)

    def optimize(self, _: Any, children: list[Any]) -> ast.Optimize:
        direction, objective, *clauses = children
        given = _once(clauses)
        verb = ast.Direction(direction.upper())
        return ast.Optimize(
            self._select(verb.value),
            verb,
            objective,
            given.get("CONSTRAINT", ()),
            given.get("WITH", ()),
            given.get("USING"),
            given["INTO"],
            span=self.span,
        )

    def show_train(self, _: Any, children: list[Any]) -> ast.ShowTrain:
        return ast.ShowTrain(children[0], span=self.span)

    def show_models(self, _meta: Any, _children: list[Any]) -> ast.ShowModels:
        return ast.ShowModels(span=self.span)

    def describe_model(self, _: Any, children: list[Any]) -> ast.DescribeModel:
        return ast.DescribeModel(children[0], span=self.span)

    def drop_model(self, _: Any, children: list[Any]) -> ast.DropModel:
        return ast.DropModel(children[-1], if_exists=len(children) == 2, span=self.span)

    def if_exists(self, _meta: Any, _children: list[Any]) -> bool:
        return True

    def show_jobs(self, _meta: Any, _children: list[Any]) -> ast.ShowJobs:
        return ast.ShowJobs(span=self.span)

    def show_job(self, _: Any, children: list[Any]) -> ast.ShowJob:
        return ast.ShowJob(children[0], span=self.span)

    def kill_job(self, _: Any, children: list[Any]) -> ast.KillJob:
        return ast.KillJob(children[0], span=self.span)

    def _select(self, verb: str) -> ast.Select:
        if self.query is None:
            raise Mistake(f"TO {verb} needs a query before it", Span(self.span.start, self.span.start + 2))
        return self.query

    # ── clauses ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def attributes(self, meta: Any, attributes: list[ast.Attribute]) -> _Clause:
        _each_once(((attribute.name, attribute.name_span) for attribute in attributes), "attribute")
        return _Clause("WITH", tuple(attributes), _span(meta))

    def attribute(self, meta: Any, children: list[Any]) -> ast.Attribute:
        name, value = children
        return ast.Attribute(name.text, value, span=_span(meta), name_span=name.span)

    def attribute_name(self, meta: Any, parts: list[Terminal]) -> ast.Name:
        return ast.Name(tuple(map(str, parts)), span=_span(meta))

    def column(self, meta: Any, children: list[Any]) -> ast.ColumnClause:
        target = children.pop() if isinstance(children[-1], str) else None
        return ast.ColumnClause(tuple(children), target, span=_span(meta))

    def star(self, meta: Any, _: list[Any]) -> ast.Star:
        return ast.Star(span=_span(meta))

    def target(self, _: Any, children: list[Terminal]) -> str:
        return str(children[0])

    def label(self, meta: Any, children: list[ast.Name]) -> _Clause:
        return _Clause("LABEL", children[0], _span(meta))

    def using(self, meta: Any, children: list[ast.Name]) -> _Clause:
        return _Clause("USING", children[0], _span(meta))

    def into(self, meta: Any, children: list[ast.Name]) -> _Clause:
        return _Clause("INTO", children[0], _span(meta))

    def into_many(self, meta: Any, children: list[ast.Name]) -> _Clause:
        return _Clause("INTO", tuple(children), _span(meta))

    def command(self, meta: Any, children: list[ast.Literal]) -> _Clause:
        return _Clause("CMD", tuple(child.value for child in children), _span(meta))

    def constraints(self, meta: Any, children: list[ast.Constraint]) -> _Clause:
        return _Clause("CONSTRAINT", tuple(children), _span(meta))

    def constraint(self, meta: Any, children: list[Any]) -> ast.Constraint:
        return ast.Constraint(*children, span=_span(meta))

    def expression(self, meta: Any, _: list[Any]) -> str:
        """The source without comments, its white space made single spaces."""
        first = bisect.bisect_left(self.tokens, meta.start_pos, key=_start)
        inside = self.tokens[first : bisect.bisect_left(self.tokens, meta.end_pos, key=_start)]
        if inside[0].upper in CLAUSES:
            raise Mistake(
                f"an expression is missing before {inside[0].text}",
                inside[0].span,
                f"write `{inside[0].text}` if this is a name in it",
            )
        words = [inside[0].text]
        for before, token in itertools.pairwise(inside):
            words.append(token.text if before.end == token.start else " " + token.text)
        return "".join(words)

    # ── names and values ────────────────────────────────────────────────────────────────────────────────────────────

    def model(self, meta: Any, children: list[Any]) -> ast.Name:
        name = children[0]
        return name if isinstance(name, ast.Name) else ast.Name((str(name),), span=_span(meta))

    def name(self, meta: Any, parts: list[Terminal]) -> ast.Name:
        return _name(meta, parts)

    def quoted_name(self, meta: Any, children: list[Terminal]) -> ast.Name:
        return ast.Name((self._text(children[0]),), span=_span(meta))

    def job(self, _: Any, children: list[Terminal]) -> str:
        terminal = children[0]
        return self._text(terminal) if terminal.type in ("SINGLE_QUOTED", "DOUBLE_QUOTED") else str(terminal)

    def number(self, meta: Any, children: list[Terminal]) -> ast.Literal:
        return ast.Literal(_number(children[0]), span=_span(meta))

    def single_quoted(self, meta: Any, children: list[Terminal]) -> ast.Literal:
        return ast.Literal(self._text(children[0]), span=_span(meta))

    double_quoted = single_quoted

    def bare_word(self, meta: Any, parts: list[Terminal]) -> ast.Name | ast.Literal:
        if len(parts) == 1 and parts[0].upper() in _CONSTANTS:
            return ast.Literal(_CONSTANTS[parts[0].upper()], span=_span(meta))
        return _name(meta, parts)

    def list_value(self, meta: Any, items: list[ast.Value]) -> ast.ListValue:
        return ast.ListValue(tuple(items), span=_span(meta))

    def call(self, meta: Any, children: list[Any]) -> ast.Call:
        function, *arguments = children
        if not isinstance(function, ast.Name):
            raise Mistake(f"{function.value} is not a function", function.span)
        keywords = [argument for argument in arguments if isinstance(argument, ast.Keyword)]
        args = arguments[: len(arguments) - len(keywords)]
        for before, argument in itertools.pairwise(arguments):
            if isinstance(before, ast.Keyword) and not isinstance(argument, ast.Keyword):
                raise Mistake("an argument without a name stands behind one with a name", argument.span)
        _each_once(((keyword.name, keyword.span) for keyword in keywords), "argument")
        return ast.Call(function, tuple(args), tuple(keywords), span=_span(meta))

    def keyword(self, meta: Any, children: list[Any]) -> ast.Keyword:
        name, value = children
        return ast.Keyword(str(name), value, span=_span(meta))

    def _text(self, terminal: Terminal) -> str:
        return string_value(str(terminal), self.dialect, Span(terminal.start_pos, terminal.end_pos))


def _span(meta: Any) -> Span:
    return Span(meta.start_pos, meta.end_pos)


def _end(span: Span) -> Span:
    return Span(span.end, span.end)


def _start(token: Token) -> int:
    return token.start


def _name(meta: Any, parts: list[Terminal]) -> ast.Name:
    return ast.Name(tuple(unquoted_name(str(part)) for part in parts), span=_span(meta))


def _number(terminal: Terminal) -> int | float:
    text = str(terminal)
    try:
        value = int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:  # Python reads no integers of more than 4,300 digits
        value = math.inf
    if math.isinf(value):
        raise Mistake("this number is too large", Span(terminal.start_pos, terminal.end_pos))
    return value


def _once(clauses: Iterable[Any]) -> dict[str, Any]:
    """The values of clauses by their keywords; a keyword given twice is a mistake. COLUMN may stand often."""
    singles = [clause for clause in clauses if isinstance(clause, _Clause)]
    _each_once(((clause.keyword, clause.span) for clause in singles), "clause")
    return {clause.keyword: clause.value for clause in singles}


def _each_once(named: Iterable[tuple[str, Span]], what: str) -> None:
    seen = set()
    for name, span in named:
        if name in seen:
            raise Mistake(f"the {what} {name} is given twice", span)
        seen.add(name)


def _each_target_once(columns: Sequence[ast.ColumnClause]) -> None:
    targets = (f"FOR {column.target}" if column.target else "without FOR" for column in columns)
    _each_once(zip(targets, (column.span for column in columns), strict=True), "COLUMN")
