"""From the text of a program to its statements."""

from __future__ import annotations

from collections.abc import Sequence

from sqlflow_elastic.errors import ParseError, Span
from sqlflow_elastic.language import ast
from sqlflow_elastic.language.boundary import is_complete_operand
from sqlflow_elastic.language.builder import build
from sqlflow_elastic.language.grammar import parse_clauses
from sqlflow_elastic.language.lexis import lexis_of
from sqlflow_elastic.language.mistake import Mistake
from sqlflow_elastic.language.quoting import FORBIDDEN
from sqlflow_elastic.language.scanner import Token
from sqlflow_elastic.language.splitter import Piece, split
from sqlflow_elastic.language.tables import select_tables
from sqlflow_elastic.language.words import QUERY_HEADS, ROW_HEADS


def parse(text: str, dialect: str = "duckdb") -> tuple[ast.Statement, ...]:
    """The statements of a program.

    Args:
        text: the program; a ``;`` ends each statement but perhaps the last.
        dialect: the data source's SQL, by its sqlglot name: duckdb, sqlite, mysql, postgres or hive.

    Raises:
        ParseError: the text is not a program; its span is the place in ``text``.
        ValueError: the dialect is not one of these.
    """
    lexis = lexis_of(dialect)
    if forbidden := FORBIDDEN.search(text):
        raise ParseError("this character is not text", FORBIDDEN.sub("\ufffd", text), Span(*forbidden.span()))
    try:
        return tuple(_statement(piece, text, dialect) for piece in split(text, lexis))
    except Mistake as mistake:
        raise ParseError(mistake.message, text, mistake.span, mistake.hint) from None


def parse_query(text: str, dialect: str = "duckdb") -> ast.Select:
    """A query by itself, without the ``;`` that may end it. Raises: ParseError: the text is none, or more than one."""
    try:
        pieces = list(split(text, lexis_of(dialect)))
        if len(pieces) == 1 and not pieces[0].clauses:
            return _select(pieces[0].sql, "here", pieces[0], text, dialect)
    except Mistake as mistake:
        raise ParseError(mistake.message, text, mistake.span, mistake.hint) from None
    raise ParseError("one query is expected here", text, Span(0, len(text)))


def is_complete(text: str, dialect: str = "duckdb") -> bool:
    """Whether a text ends with a finished statement: with a ``;`` outside of strings, comments and brackets.

    A REPL asks this to know whether to run the text or to wait for another line. A mistake that no further line can
    mend counts as finished, so that it is shown.
    """
    complete = False
    try:
        for piece in split(text, lexis_of(dialect)):
            complete = piece.closed
    except Mistake as mistake:
        return not mistake.unfinished
    return complete


def _statement(piece: Piece, text: str, dialect: str) -> ast.Statement:
    span = piece.span
    if not piece.clauses:
        return ast.PlainSQL(text[span.start : span.end], returns_rows=_returns_rows(piece), span=span)
    plan = bool(piece.sql) and piece.sql[0].upper == "EXPLAIN"
    query = piece.sql[1:] if plan else piece.sql
    select = _select(query, f"before TO {piece.clauses[1].upper}", piece, text, dialect) if query else None
    tree = parse_clauses(piece.clauses, span.end)
    statement_span = Span(query[0].start, span.end) if query else span
    statement = build(tree, dialect, piece.clauses, select, statement_span)
    if not plan:
        return statement
    if not isinstance(statement, ast.Train):
        raise Mistake("EXPLAIN shows the plan of TO TRAIN only", piece.sql[0].span)
    return ast.ExplainPlan(statement, span=span)


def _select(query: Sequence[Token], place: str, piece: Piece, text: str, dialect: str) -> ast.Select:
    """The query at a place. Its mistakes are the database's to find, but for those that cannot be meant."""
    span = Span(query[0].start, query[-1].end)
    if piece.head not in QUERY_HEADS or (query[0].upper or query[0].text) not in QUERY_HEADS:
        raise Mistake(f"what stands {place} is not a query", query[0].span, "expected SELECT, or WITH … SELECT")
    if not is_complete_operand(query):
        raise Mistake(f"the query {place} ends after '{query[-1].text}'", query[-1].span)
    if query[0].upper == "SELECT" and query[1].upper == "FROM":
        raise Mistake("SELECT names no column", query[0].span, "expected '*' or expressions before FROM")
    source = text[span.start : span.end]
    return ast.Select(source, select_tables(source, dialect, span.start), span=span)


def _returns_rows(piece: Piece) -> bool:
    return piece.head in ROW_HEADS or any(token.upper == "RETURNING" for token in piece.sql)
