"""The parser of our clauses, made from ``grammar/extended_sql.lark``."""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lark import Lark, Tree, UnexpectedToken
from lark import Token as Terminal
from lark.lexer import Lexer

from sqlflow_elastic.errors import Span
from sqlflow_elastic.language.expectation import unexpected
from sqlflow_elastic.language.scanner import Kind, Token

_PUNCTUATION = {
    "=": "EQUAL",
    ",": "COMMA",
    ".": "DOT",
    "*": "STAR",
    "(": "LPAR",
    ")": "RPAR",
    "[": "LSQB",
    "]": "RSQB",
}


class _TerminalLexer(Lexer):  # type: ignore[misc]
    """Names the scanner's tokens as the grammar does: a word is a keyword where the parser takes that keyword.

    Never within brackets: the parser's look-ahead is merged over the places where a name may stand, and would take the
    keywords behind an expression for possible inside of its brackets.
    """

    __future_interface__ = 2

    def __init__(self, conf: Any) -> None:
        self.keywords = _keywords(conf.terminals)

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Terminal]:
        states = parser_state.parse_conf.states
        depth = 0
        for token in lexer_state.text:
            depth += (token.kind is Kind.OPEN) - (token.kind is Kind.CLOSE)
            name = _PUNCTUATION.get(token.text) if token.kind not in _VALUE_KINDS else token.kind.name
            if name is None:
                name = "OPERATOR"
            elif token.kind is Kind.WORD:
                word = token.upper
                taken = depth == 0 and word in self.keywords and word in states[parser_state.position]
                name = word if taken else "NAME"
            yield Terminal(name, token.text, start_pos=token.start, end_pos=token.end)


_VALUE_KINDS = frozenset(Kind) - {Kind.OPEN, Kind.CLOSE, Kind.OTHER}


@functools.cache
def _parser() -> Lark:
    grammar = importlib.resources.files("sqlflow_elastic.grammar").joinpath("extended_sql.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", lexer=_TerminalLexer, propagate_positions=True)


def keywords() -> frozenset[str]:
    """The keywords of the grammar."""
    return _keywords(_parser().terminals)


def _keywords(terminals: Iterable[Any]) -> frozenset[str]:
    return frozenset(terminal.name for terminal in terminals if terminal.pattern.value.isalpha())


def parse_clauses(tokens: Sequence[Token], end: int) -> Tree[Terminal]:
    """The tree of our clauses, or of a command of ours.

    Args:
        tokens: from TO on, or the whole command.
        end: where the statement ends, for a mistake that is found there.

    Raises:
        Mistake: the tokens are not what the grammar says.
    """
    try:
        return _parser().parse(tokens)
    except UnexpectedToken as error:
        accepted = error.interactive_parser.accepts()
        found = None if error.token.type == "$END" else Span(error.token.start_pos, error.token.end_pos)
        raise unexpected(tokens, found, Span(end, end), accepted) from None
