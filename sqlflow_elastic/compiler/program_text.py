"""The program text that a statement stands in, and errors at places of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from sqlflow_elastic.errors import CompileError, Span


@dataclass(frozen=True)
class ProgramText:
    """The whole text; spans of the statement's nodes point into it."""

    text: str

    def error(self, span: Span, message: str, hint: str | None = None) -> CompileError:
        """An error at a place, to be raised."""
        return CompileError(message, self.text, span, hint)


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint with the known word that is most like this one; None if none is like it."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean '{by_lower[close[0]]}'?" if close else None


def listing(names: Iterable[str], most: int = 8) -> str:
    """Names for a message, quoted, with commas; after ``most`` of them only how many more there are."""
    quoted = [f"'{name}'" for name in names]
    rest = len(quoted) - most
    return ", ".join(quoted[:most]) + (f" and {rest} more" if rest > 0 else "")
