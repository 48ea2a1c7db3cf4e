"""Binding: what a SELECT gives, as the database says it."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sqlflow_elastic.compiler.program_text import ProgramText, did_you_mean, listing
from sqlflow_elastic.datasource.base import DataSource
from sqlflow_elastic.errors import DataSourceError, Span
from sqlflow_elastic.language import ast
from sqlflow_elastic.models.features import Kind
from sqlflow_elastic.models.features.raw import kind_of

#: So many first rows of a SELECT are looked at.
SAMPLE_ROWS = 1000

#: How the engines name what they do not know: in quotes, or behind these words.
_NAMED = re.compile(
    r"""['"`]([^'"`]+)['"`]|no such [\w ]+: (\S+)|with name (\S+)|function (?!with name)([\w.]+)""", re.IGNORECASE
)
_CLAUSES = frozenset({"SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "ON"})
_HINT = re.compile(r"HINT:|Did you mean|Candidate bindings")


@dataclass(frozen=True)
class Rows:
    """A bound SELECT.

    Attributes:
        select: its text.
        sample: its first rows, `SAMPLE_ROWS` at most.
        complete: whether these are all of its rows.
    """

    select: str
    sample: pa.Table
    complete: bool

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """The fields that features and labels can be made of, in the order of the SELECT."""
        kinds = ((field.name, _kind(field.type)) for field in self.sample.schema)
        return {name: kind for name, kind in kinds if kind is not None}

    @property
    def names(self) -> list[str]:
        """All fields, usable or not."""
        return list(self.sample.schema.names)

    def find(self, name: str) -> str | None:
        """The field of a name: exactly that one, or the only one that differs in case."""
        if name in self.sample.schema.names:
            return name
        alike = [field for field in self.sample.schema.names if field.lower() == name.lower()]
        return alike[0] if len(alike) == 1 else None


def bind(program: ProgramText, select: ast.Select, source: DataSource) -> Rows:
    """Ask the database for a SELECT's schema and first rows.

    Raises: CompileError: the database refused something that it names, it gives no row, or two columns of one name.
        DataSourceError: the database could not be asked, or refused it for another reason.
    """
    try:
        rows = sample(select.text, source)
    except DataSourceError as error:
        message, *more = str(error).splitlines()
        span = _place(select, message)
        if span is None:
            raise
        hints = [line.removeprefix("HINT:").strip() for line in more if _HINT.match(line)]
        raise program.error(span, f"the database says: {message}", hints[0] if hints else None) from error
    twice = [name for name, count in Counter(rows.names).items() if count > 1]
    if twice:
        message = f"the SELECT gives more than one column named {listing(twice)}"
        raise program.error(select.span, message, "give each its own name with AS")
    if rows.sample.num_rows == 0:
        raise program.error(select.span, "the SELECT gives no row")
    return rows


def _place(select: ast.Select, message: str) -> Span | None:
    """Where in a SELECT the thing stands that an error of the database names; None if it names none of its words."""
    for found in _NAMED.finditer(message):
        name = next(filter(None, found.groups()))
        for word in (name, name.rpartition(".")[2]):
            at = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", select.text, re.IGNORECASE)
            if at and word.upper() not in _CLAUSES:
                return Span(select.span.start + at.start(), select.span.start + at.end())
    return None


def sample(select: str, source: DataSource) -> Rows:
    """A SELECT's schema and first rows, unchecked."""
    table = source.probe(select, SAMPLE_ROWS)
    return Rows(select, _bytes_as_text(table), complete=table.num_rows < SAMPLE_ROWS)


def _bytes_as_text(table: pa.Table) -> pa.Table:
    """Columns of bytes that are text in UTF-8 as text: some engines call a long text that."""
    for index, field in enumerate(table.schema):
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            with contextlib.suppress(pa.ArrowInvalid):
                table = table.set_column(index, field.name, table.column(index).cast(pa.string()))
    return table


def _kind(type_: pa.DataType) -> Kind | None:
    """The kind of a field; None also for bytes that are no text."""
    return None if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) else kind_of(type_)


def field_at(program: ProgramText, rows: Rows, name: str, span: Span) -> str:
    """The usable field that a name at a place of the program means. Raises: CompileError."""
    found = rows.find(name)
    if found is None:
        hint = did_you_mean(name, rows.kinds) or f"there are {listing(rows.names)}"
        raise program.error(span, f"the SELECT gives no field '{name}'", hint)
    if found not in rows.kinds:
        type_ = rows.sample.schema.field(found).type
        raise program.error(span, f"field '{found}' is of type {type_}, which no feature can be made of")
    return found
