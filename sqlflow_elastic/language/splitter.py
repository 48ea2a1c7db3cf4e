"""From a program to its statements: where each ends, and where our clauses begin in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlflow_elastic.errors import Span
from sqlflow_elastic.language.boundary import begins_clauses, is_command
from sqlflow_elastic.language.lexis import Lexis
from sqlflow_elastic.language.mistake import Mistake
from sqlflow_elastic.language.scanner import Kind, Scanner, Token
from sqlflow_elastic.language.words import ENDS_OTHER_BLOCKS, MAIN_VERBS, PLAIN_OBJECTS, QUERY_HEADS, ROUTINES

#: Brackets may stand in each other this deep in what we parse; the database's own statements have no such limit.
MAX_NESTING = 100

# Tokens from CREATE to the kind of what is created: ``CREATE DEFINER = `root`@`localhost` PROCEDURE``.
_LONGEST_CREATE = 20

_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass
class Piece:
    """One statement.

    Attributes:
        sql: the tokens that are the database's.
        clauses: the tokens that are ours: from TO on, or a whole command.
        head: the word, or the parenthesis, that says what ``sql`` does: behind EXPLAIN and behind the CTEs of WITH.
        end: the offset behind it, and behind its ``;``.
        closed: a ``;`` ends it.
    """

    sql: list[Token] = field(default_factory=list)
    clauses: list[Token] = field(default_factory=list)
    head: str = ""
    end: int = 0
    closed: bool = False

    @property
    def span(self) -> Span:
        """From its first token to its last, without the ``;``."""
        return Span((self.sql or self.clauses)[0].start, (self.clauses or self.sql)[-1].end)


def split(text: str, lexis: Lexis) -> Iterator[Piece]:
    """The statements of a program; nothing between two ``;`` is no statement.

    Raises:
        Mistake: something is never closed, or closes what is not open.
    """
    scanner = Scanner(text, lexis)
    offset = 0
    while offset < len(text):
        piece = _Reader(scanner).read(offset)
        offset = piece.end
        if piece.sql or piece.clauses:
            yield piece


class _Reader:
    """Reads one statement."""

    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.piece = Piece()
        self.brackets: list[Token] = []
        self.deepest: Token | None = None
        self.routine = False
        self.blocks: list[Token] = []

    def read(self, offset: int) -> Piece:
        piece, scanner = self.piece, self.scanner
        clauses = is_command(scanner, offset)
        while True:
            token = scanner.token(offset, clauses)
            if token.kind is Kind.END or (token.kind is Kind.SEMICOLON and not self.blocks):
                break
            offset = token.end
            if not clauses and not self.brackets:
                self._find_head(token)
            if token.kind is Kind.OPEN:
                self._open(token)
            elif token.kind is Kind.CLOSE:
                self._close(token)
            elif token.kind is Kind.WORD and not clauses:
                self._count_blocks(token)
                if not self.brackets and token.upper == "TO" and begins_clauses(scanner, piece.sql, piece.head, token):
                    clauses = True
            (piece.clauses if clauses else piece.sql).append(token)
        if self.brackets:
            opening = self.brackets[-1]
            unfinished = token.kind is Kind.END
            raise Mistake(f"this '{opening.text}' is never closed", opening.span, unfinished=unfinished)
        if self.blocks:
            raise Mistake("this BEGIN has no END", self.blocks[-1].span, unfinished=True)
        if self.deepest and clauses:
            raise Mistake(f"brackets are nested deeper than {MAX_NESTING} levels", self.deepest.span)
        piece.end = token.end
        piece.closed = token.kind is Kind.SEMICOLON
        return piece

    def _find_head(self, token: Token) -> None:
        head, word = self.piece.head, token.upper or token.text
        if not head or (head == "EXPLAIN" and word in QUERY_HEADS) or (head == "WITH" and word in MAIN_VERBS):
            self.piece.head = word

    def _open(self, token: Token) -> None:
        self.brackets.append(token)
        if len(self.brackets) > MAX_NESTING and self.deepest is None:
            self.deepest = token

    def _close(self, token: Token) -> None:
        if not self.brackets:
            raise Mistake(f"this '{token.text}' closes nothing", token.span)
        opening = self.brackets.pop()
        if _CLOSING[opening.text] != token.text:
            line = self.scanner.text.count("\n", 0, opening.start) + 1
            raise Mistake(
                f"this '{token.text}' does not close the '{opening.text}' of line {line}",
                token.span,
                f"expected '{_CLOSING[opening.text]}'",
            )

    def _count_blocks(self, token: Token) -> None:
        """Keeps the ``;`` between BEGIN and END of a trigger or routine from ending its CREATE."""
        before = self.piece.sql
        word = token.upper
        if word in ROUTINES and 0 < len(before) < _LONGEST_CREATE and before[0].upper == "CREATE":
            self.routine = PLAIN_OBJECTS.isdisjoint(token.upper for token in before)
        elif self.routine and word == "BEGIN" and before[-1].upper not in (*ROUTINES, "EXISTS"):
            self.blocks.append(token)
        elif self.blocks and word == "END" and (before[-1].kind is Kind.SEMICOLON or before[-1].upper == "BEGIN"):
            following = self.scanner.token(token.end)
            if following.upper not in ENDS_OTHER_BLOCKS:
                self.blocks.pop()
