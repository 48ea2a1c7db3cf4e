"""The tables that a query reads."""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqlflow_elastic.errors import Span
from sqlflow_elastic.language.ast import Name


def select_tables(text: str, dialect: str, offset: int = 0) -> tuple[Name, ...]:
    """The tables and files that a query reads, each once, in the order of the text; not its CTEs.

    What sqlglot does not understand may still be right for the database, which will say so: then there are none.

    Args:
        text: the query.
        dialect: the sqlglot name of its dialect.
        offset: where the query stands in the program, for the names' spans.
    """
    try:
        query = sqlglot.parse_one(text, dialect=dialect)
    except (SqlglotError, RecursionError):
        return ()
    tables: dict[Name, None] = {}
    for table in sorted(_read(query), key=_start):
        parts = [part for part in table.parts if isinstance(part, exp.Identifier)]
        name = Name(tuple(part.name for part in parts), span=Span(offset + _start(table), offset + _end(table)))
        tables.setdefault(name)
    return tuple(tables)


def _read(query: exp.Expr) -> Iterator[exp.Table]:
    for table in query.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and not (len(table.parts) == 1 and _names_cte(table)):
            yield table


def _names_cte(table: exp.Table) -> bool:
    """Whether a table's name is that of a CTE where it stands: in any query around it, but its own CTE's."""
    name = table.name.lower()
    inside: exp.Expr = table
    while inside.parent is not None:
        around = inside.parent
        for cte in _visible_ctes(around, inside):
            if cte.alias.lower() == name:
                return True
        inside = around
    return False


def _visible_ctes(query: exp.Expr, inside: exp.Expr) -> Iterator[exp.CTE]:
    """The CTEs that the part ``inside`` of a query or of a WITH may name."""
    if isinstance(query, exp.With):
        for cte in query.expressions:
            if cte is inside and not query.recursive:
                return
            yield cte
    elif (with_ := query.args.get("with_")) is not None and with_ is not inside:
        yield from with_.expressions


def _start(table: exp.Table) -> int:
    return int(table.parts[0].meta.get("start", 0))


def _end(table: exp.Table) -> int:
    return int(table.parts[-1].meta.get("end", -1)) + 1
