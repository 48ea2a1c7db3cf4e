"""From characters to tokens, in one pass, without reading the meaning of SQL."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from sqlflow_elastic.errors import Span
from sqlflow_elastic.language.lexis import Lexis
from sqlflow_elastic.language.mistake import Mistake


class Kind(enum.Enum):
    """What a token is; the values are the groups of the patterns in `lexis`."""

    SINGLE_QUOTED = "single"
    DOUBLE_QUOTED = "double"
    BACKTICKED = "backticked"
    WORD = "word"
    NUMBER = "number"
    DIGITS_NAME = "digits_name"
    IMAGE = "image"
    SEMICOLON = "semicolon"
    OPEN = "open"
    CLOSE = "close"
    OTHER = "other"
    END = "end"


#: Names and strings in quotes.
QUOTED = frozenset({Kind.SINGLE_QUOTED, Kind.DOUBLE_QUOTED, Kind.BACKTICKED})


class Token(NamedTuple):
    """A piece of the text that has a meaning of its own."""

    kind: Kind
    start: int
    end: int
    text: str

    @property
    def span(self) -> Span:
        """Its place."""
        return Span(self.start, self.end)

    @property
    def upper(self) -> str:
        """The word in capitals, to compare with keywords; empty for what is not a plain word."""
        return self.text.upper() if self.kind is Kind.WORD and self.text.isascii() else ""


_KINDS = {kind.value: kind for kind in Kind} | {"code": Kind.OTHER}
_UNCLOSED = {
    "'": "string",
    '"': "quoted text",
    "`": "quoted name",
    "/": "comment",
    "$": "string",
    "e": "string",
    "E": "string",
}
_QUOTED = {kind.value for kind in QUOTED}
_COMMENT_EDGE = re.compile(r"/\*|\*/")


class Scanner:
    """Reads tokens of one text at any offset, by the rules of the database's SQL or of our clauses."""

    def __init__(self, text: str, lexis: Lexis) -> None:
        self.text = text
        self.lexis = lexis

    def token(self, offset: int, clauses: bool = False) -> Token:
        """The first token at or after an offset, comments and white space skipped; of kind END at the text's end.

        Raises:
            Mistake: a string, a quoted name or a comment is never closed.
        """
        pattern = self.lexis.clauses if clauses else self.lexis.sql
        while True:
            match = pattern.match(self.text, offset)
            if match is None or (group := match.lastgroup) is None:
                return Token(Kind.END, len(self.text), len(self.text), "")
            start, end = match.span(group)
            if group == "unclosed":
                offset = self._skip_nested_comment(start, match.group(group))
                continue
            quote = self.text[end - 1]
            if group in _QUOTED and quote in "'\"`" and self.text.startswith(quote, end):
                raise _unclosed(start, self.text[start : self.text.index(quote, start) + 1])
            return Token(_KINDS[group], start, end, self.text[start:end])

    def _skip_nested_comment(self, start: int, opening: str) -> int:
        """The offset behind the nested comment at ``start``, or the mistake that this is not closed."""
        depth = 0
        if self.lexis.nested_comments and opening == "/*":
            for edge in _COMMENT_EDGE.finditer(self.text, start):
                depth += 1 if edge.group() == "/*" else -1
                if depth == 0:
                    return edge.end()
        raise _unclosed(start, opening)


def _unclosed(start: int, opening: str) -> Mistake:
    return Mistake(
        f"this {_UNCLOSED[opening[0]]} is never closed",
        Span(start, start + len(opening)),
        f"{opening} opens it",
        unfinished=True,
    )
