"""Quotes put around names and strings, and taken off again."""

from __future__ import annotations

import re

from sqlglot.dialects import Dialect
from sqlglot.errors import TokenError

from sqlflow_elastic.errors import Span
from sqlflow_elastic.language.lexis import IMAGE, NAME, lexis_of
from sqlflow_elastic.language.mistake import Mistake

# What no database takes and no terminal shows.
FORBIDDEN = re.compile("[\0\ud800-\udfff]")

# As bare words these would be read as something else than names.
_NOT_BARE = frozenset({"TRUE", "FALSE", "NONE", "IF"})


def unquoted_name(source: str) -> str:
    """The name that a part of a name in the source says: ``\\`a b\\``` and ``"a b"`` say ``a b``."""
    quote = source[0]
    return source[1:-1].replace(quote * 2, quote) if quote in '`"' else source


def quoted_name(name: str) -> str:
    """The name as it stands in our clauses: bare if it can, in backticks otherwise."""
    if NAME.fullmatch(name) and name.upper() not in _NOT_BARE:
        return name
    return "`" + name.replace("`", "``") + "`"


def quoted_model(name: str) -> str:
    """The only part of a model's name: an image stays bare."""
    return name if IMAGE.fullmatch(name) else quoted_name(name)


def string_value(source: str, dialect: str, span: Span) -> str:
    """The text that a string in the source stands for, by the escapes of the dialect.

    Raises:
        Mistake: it stands for a character that no text may hold.
    """
    quote = source[0]
    if quote in "'\"" and not (lexis_of(dialect).backslash and "\\" in source):
        return source[1:-1].replace(quote * 2, quote)
    try:
        # Hive's own SQL takes 'it''s' for two strings; in our clauses a doubled quote is a quote in every dialect.
        value = quote.join(token.text for token in Dialect.get_or_raise(dialect).tokenize(source))
    except TokenError:
        raise Mistake("this string cannot be read", span) from None
    if FORBIDDEN.search(value):
        raise Mistake("this string holds a character that is not text", span)
    return value


def quoted_string(value: str, dialect: str) -> str:
    """The text as a string of our clauses, between single quotes."""
    if lexis_of(dialect).backslash:
        value = value.replace("\\", "\\\\")
    return "'" + value.replace("'", "\\'" if lexis_of(dialect).backslash else "''") + "'"
