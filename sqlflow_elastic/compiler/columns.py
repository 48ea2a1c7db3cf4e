"""COLUMN clauses: calls of feature columns become column values, checked, with the place of every mistake."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlflow_elastic.compiler.bind import Rows, field_at
from sqlflow_elastic.compiler.derive import derive, derived_category
from sqlflow_elastic.compiler.program_text import ProgramText, did_you_mean, listing
from sqlflow_elastic.errors import Span
from sqlflow_elastic.language import ast
from sqlflow_elastic.models.features import (
    Bucket,
    CategoryHash,
    CategoryId,
    Column,
    Cross,
    Dense,
    Embedding,
    Indicator,
    SeqCategoryId,
    Sparse,
    WeightedCategory,
)
from sqlflow_elastic.models.features.columns import INITIALIZERS
from sqlflow_elastic.models.zoo.declarations import Model

DELIMITERS = {"COMMA": ",", "SEMICOLON": ";", "COLON": ":", "SPACE": " ", "TAB": "\t"}

Source = str | Column
Read = Callable[["ColumnReader", ast.Value], Any]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a feature column: its name in the column's class, and how its argument is read."""

    name: str
    read: Read
    required: bool = True


@dataclass(frozen=True)
class Signature:
    """How a feature column is called; its first argument is the field, or the columns it is made of."""

    column: type[Column]
    parameters: tuple[Parameter, ...]


class ColumnReader:
    """Reads the columns of one statement.

    Args:
        program: the text, for errors.
        rows: the bound SELECT.
        label: the field that no column may read, or None.

    Attributes:
        notes: sentences about what was derived.
        written: the columns that stand in the program, and where; the others are derived.
    """

    def __init__(self, program: ProgramText, rows: Rows, label: str | None) -> None:
        self.program = program
        self.rows = rows
        self.label = label
        self.notes: list[str] = []
        self.written: dict[Column, Span] = {}

    def read(self, clause: ast.ColumnClause) -> list[Column]:
        """The columns of a clause, but for its ``*`` (see `remaining`)."""
        columns: list[Column] = []
        for value in clause.columns:
            if not isinstance(value, ast.Star):
                columns += [column for source in self.sources(value) for column in self._top(source)]
        return columns

    def remaining(self, used: Iterable[Column]) -> list[Column]:
        """Derived columns of all the fields that neither the label nor these columns are made of."""
        taken = {field for column in used for field in column.fields()} | {self.label}
        return [column for name in self.rows.names if name not in taken for column in self._derive(name)]

    def sources(self, value: ast.Value) -> list[Source]:
        """What an argument in the place of a field or column means; several where a regular expression stands in it."""
        match value:
            case ast.Name():
                return [self._field(value.text, value)]
            case ast.Literal(str() as pattern):
                return self._matching(pattern, value)
            case ast.Call():
                return list(self._call(value))
        raise self.program.error(
            value.span, "this is not a feature column", "name a field, or a column like DENSE(field, 1)"
        )

    def _field(self, name: str, node: ast.Node) -> str:
        field = field_at(self.program, self.rows, name, node.span)
        if field == self.label:
            raise self.program.error(node.span, f"field '{field}' is the label and cannot be a feature too")
        return field

    def _matching(self, pattern: str, node: ast.Literal) -> list[Source]:
        """The fields a regular expression matches as a whole; a field's own name always means that field."""
        if self.rows.find(pattern) is not None:
            return [self._field(pattern, node)]
        try:
            expression = re.compile(pattern)
        except re.error as error:
            raise self.program.error(node.span, f"'{pattern}' is not a regular expression: {error}") from None
        found: list[Source] = [name for name in self.rows.kinds if name != self.label and expression.fullmatch(name)]
        if not found:
            hint = did_you_mean(pattern, self.rows.kinds) or f"there are {listing(self.rows.names)}"
            raise self.program.error(node.span, f"'{pattern}' matches no field of the SELECT", hint)
        return found

    def _call(self, call: ast.Call) -> Iterable[Column]:
        name = call.function.text.upper()
        signature = SIGNATURES.get(name)
        if signature is None:
            message = f"there is no feature column '{call.function.text}'"
            hint = did_you_mean(name, SIGNATURES) or f"there are {', '.join(SIGNATURES)}"
            raise self.program.error(call.function.span, message, hint)
        arguments = self._arguments(name, signature, call)
        first, *rest = signature.parameters
        values = {p.name: p.read(self, arguments[p.name]) for p in rest if p.name in arguments}
        for source in first.read(self, arguments[first.name]):
            if isinstance(source, str) and signature.column in (Indicator, Embedding):
                source = derived_category(source, self.rows.kinds[source], self.rows.sample[source])
            column = signature.column(**{first.name: source}, **values)
            self._check(column, call)
            self.written.setdefault(column, call.span)
            yield column

    def _arguments(self, name: str, signature: Signature, call: ast.Call) -> dict[str, ast.Value]:
        """The arguments of a call by the names of the parameters."""
        names = [parameter.name for parameter in signature.parameters]
        usage = usage_of(name)
        if len(call.args) > len(names):
            message = f"{name} takes at most {len(names)} arguments, not {len(call.args)}"
            raise self.program.error(call.args[len(names)].span, message, f"write {usage}")
        arguments: dict[str, ast.Value] = dict(zip(names, call.args, strict=False))
        for keyword in call.keywords:
            if keyword.name not in names:
                hint = did_you_mean(keyword.name, names) or f"write {usage}"
                raise self.program.error(keyword.span, f"{name} has no argument '{keyword.name}'", hint)
            if keyword.name in arguments:
                raise self.program.error(keyword.span, f"{name} is given '{keyword.name}' twice")
            arguments[keyword.name] = keyword.value
        missing = [p.name for p in signature.parameters if p.required and p.name not in arguments]
        if missing:
            raise self.program.error(call.span, f"{name} lacks its argument {listing(missing)}", f"write {usage}")
        return arguments

    def _check(self, column: Column, node: ast.Node) -> None:
        problems = column.check(self.rows.kinds)
        if problems:
            message, _, hint = problems[0].partition("; ")
            raise self.program.error(node.span, message, hint or None)

    def _top(self, source: Source) -> list[Column]:
        """A column as it stands in the model: a bare field is derived."""
        return self._derive(source) if isinstance(source, str) else [source]

    def _derive(self, field: str) -> list[Column]:
        derived = derive(field, self.rows.kinds.get(field), self.rows.sample[field], self.rows.complete)
        if derived.note is not None and derived.note not in self.notes:
            self.notes.append(derived.note)
        return [] if derived.column is None else [derived.column]

    def error(self, value: ast.Value, message: str, hint: str | None = None) -> Exception:
        """An error at an argument."""
        return self.program.error(value.span, message, hint)


def input_of(program: ProgramText, clause: ast.ColumnClause, model: Model) -> str:
    """The input that a COLUMN clause is for."""
    if clause.target in model.inputs:
        return str(clause.target)
    if clause.target is None and len(model.inputs) == 1:
        return model.inputs[0]
    if clause.target is None:
        message = f"{model.name} has several inputs: say which one these columns are for"
        raise program.error(clause.span, message, f"add FOR {' or FOR '.join(model.inputs)}")
    hint = did_you_mean(clause.target, model.inputs) or f"it has {listing(model.inputs)}"
    raise program.error(clause.span, f"{model.name} has no input '{clause.target}'", hint)


def usage_of(name: str) -> str:
    """How a feature column is written: ``BUCKET(source, boundaries)``."""
    parameters = SIGNATURES[name].parameters
    required = ", ".join(p.name for p in parameters if p.required)
    optional = "".join(f"[, {p.name}" for p in parameters if not p.required)
    return f"{name}({required}{optional}{']' * optional.count('[')})"


# ── arguments ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _one_field(reader: ColumnReader, value: ast.Value) -> list[Source]:
    if isinstance(value, ast.Call):
        raise reader.error(value, "a field is expected here, not another column")
    return reader.sources(value)


def _source(reader: ColumnReader, value: ast.Value) -> list[Source]:
    return reader.sources(value)


def _source_list(reader: ColumnReader, value: ast.Value) -> list[list[Source]]:
    if not isinstance(value, ast.ListValue):
        raise reader.error(value, "a list of columns is expected here", "write CROSS([a, b], n)")
    return [[source for item in value.items for source in reader.sources(item)]]


def _integer(reader: ColumnReader, value: ast.Value) -> int:
    if isinstance(value, ast.Literal) and type(value.value) is int and value.value > 0:
        return value.value
    raise reader.error(value, "an integer of at least 1 is expected here")


def _shape(reader: ColumnReader, value: ast.Value) -> int:
    """A number, or a list whose product it is, as SQLFlow programs write it."""
    if not isinstance(value, ast.ListValue):
        return _integer(reader, value)
    shape = 1
    for item in value.items:
        shape *= _integer(reader, item)
    return shape


def _numbers(reader: ColumnReader, value: ast.Value) -> list[float]:
    items = value.items if isinstance(value, ast.ListValue) else (value,)
    numbers = [item.value for item in items if isinstance(item, ast.Literal) and type(item.value) in (int, float)]
    if len(numbers) < len(items):
        raise reader.error(value, "a list of numbers is expected here", "like [0, 10, 100]")
    return numbers  # type: ignore[return-value]


def _word(reader: ColumnReader, value: ast.Value) -> str:
    if isinstance(value, ast.Name):
        return value.text
    if isinstance(value, ast.Literal) and isinstance(value.value, str):
        return value.value
    raise reader.error(value, "a word or a string is expected here")


def _lower_word(reader: ColumnReader, value: ast.Value) -> str:
    return _word(reader, value).lower()


def _initializer(reader: ColumnReader, value: ast.Value) -> str:
    word = _lower_word(reader, value)
    if word not in INITIALIZERS:
        hint = did_you_mean(word, INITIALIZERS) or f"there are {', '.join(sorted(INITIALIZERS))}"
        raise reader.error(value, f"there is no initializer '{word}'", hint)
    return word


def _delimiter(reader: ColumnReader, value: ast.Value) -> str:
    """A delimiter as text or by name; empty text means the usual comma, as in SQLFlow programs."""
    word = _word(reader, value)
    named = DELIMITERS.get(word.upper(), word) or ","
    if isinstance(value, ast.Name) and named == word:
        hint = did_you_mean(word, DELIMITERS) or f"there are {', '.join(DELIMITERS)}, or write the character in quotes"
        raise reader.error(value, f"there is no delimiter '{word}'", hint)
    return named


_FIELD = Parameter("field", _one_field)
_SOURCE = Parameter("source", _source)
_CATEGORY = Parameter("category", _source)
_N = Parameter("n", _integer)
_DENSE = Signature(
    Dense,
    (
        _FIELD,
        Parameter("shape", _shape),
        Parameter("delimiter", _delimiter, required=False),
        Parameter("dtype", _lower_word, required=False),
    ),
)
_SPARSE = Signature(
    Sparse,
    (
        _FIELD,
        Parameter("shape", _shape),
        Parameter("delimiter", _delimiter, required=False),
        Parameter("dtype", _lower_word, required=False),
        Parameter("kv_delimiter", _delimiter, required=False),
        Parameter("key_dtype", _lower_word, required=False),
    ),
)

#: The feature columns of the language.
SIGNATURES: dict[str, Signature] = {
    "DENSE": _DENSE,
    "NUMERIC": _DENSE,
    "SPARSE": _SPARSE,
    "BUCKET": Signature(Bucket, (_SOURCE, Parameter("boundaries", _numbers))),
    "CATEGORY_ID": Signature(CategoryId, (_SOURCE, _N)),
    "SEQ_CATEGORY_ID": Signature(SeqCategoryId, (_SOURCE, _N)),
    "CATEGORY_HASH": Signature(CategoryHash, (_SOURCE, _N)),
    "WEIGHTED_CATEGORY": Signature(WeightedCategory, (_CATEGORY,)),
    "CROSS": Signature(Cross, (Parameter("columns", _source_list), _N)),
    "INDICATOR": Signature(Indicator, (_CATEGORY,)),
    "EMBEDDING": Signature(
        Embedding,
        (
            _CATEGORY,
            Parameter("size", _integer),
            Parameter("combiner", _lower_word, required=False),
            Parameter("initializer", _initializer, required=False),
        ),
    ),
}
