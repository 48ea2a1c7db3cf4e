"""The errors of this package: one small tree.

A user's mistake raises one of these and is shown as its message, never as a traceback; anything else that escapes is a
bug of ours and keeps its traceback.

    SQLFlowError
    ├── ProgramError           a place in the program text is wrong; prints line, column and a caret line
    │   ├── ParseError         the text is not a statement of the language
    │   └── CompileError       a statement that means nothing here: unknown field, model, attribute, wrong type …
    ├── DataSourceError        the database refused or could not be reached
    ├── DataError              a value in the data is wrong (text in a number column, a NULL label, …)
    ├── ModelStoreError        a stored model is missing, damaged or not a model
    └── JobError               a job ended without its result
        └── JobCancelled       … because somebody asked for that
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Span:
    """A piece of the program text, as offsets in characters: ``text[start:end]``."""

    start: int
    end: int


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """The line and column, both counted from 1, of an offset in a text."""
    line_start = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, offset) + 1, offset - line_start + 1


class SQLFlowError(Exception):
    """Root of every error that a user may see."""


class ProgramError(SQLFlowError):
    """A mistake at a place of the program text.

    Args:
        message: what is wrong, one sentence without a full stop.
        text: the whole program text the span points into.
        span: the place.
        hint: what would be right ("did you mean 'petal_width'?"), or nothing.
    """

    def __init__(self, message: str, text: str, span: Span, hint: str | None = None) -> None:
        self.message = message
        self.text = text
        self.span = span
        self.hint = hint
        self.line, self.column = line_and_column(text, span.start)
        super().__init__(str(self))

    def __str__(self) -> str:
        """``message; hint`` at ``line L, column C``, then the line and a caret line under the place."""
        head = self.message if self.hint is None else f"{self.message}; {self.hint}"
        start = self.text.rfind("\n", 0, self.span.start) + 1
        stop = self.text.find("\n", start)
        line = self.text[start : stop if stop >= 0 else len(self.text)].rstrip("\r")
        width = max(1, min(self.span.end - self.span.start, len(line) - (self.column - 1)))
        margin = "".join("\t" if c == "\t" else _pad(c) for c in line[: self.column - 1])
        carets = "".join("^" * len(_pad(c)) for c in line[self.column - 1 : self.column - 1 + width]) or "^"
        return f"line {self.line}, column {self.column}: {head}\n  {line}\n  {margin}{carets}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.text, self.span, self.hint)


def _pad(character: str) -> str:
    """Spaces as wide as the character in a terminal: East Asian wide ones take two cells."""
    import unicodedata

    return "  " if unicodedata.east_asian_width(character) in "WF" else " "


class ParseError(ProgramError):
    """The text is not a statement of the language."""


class CompileError(ProgramError):
    """A well-formed statement that means nothing against this data source and these models."""


class DataSourceError(SQLFlowError):
    """The data source refused a statement or could not be reached. Never holds a password."""


class DataError(SQLFlowError):
    """A value of the data cannot be used; names the value, the field and the statement's SELECT."""


class ModelStoreError(SQLFlowError):
    """A stored model is missing, damaged, or the table of that name is not a model."""


class JobError(SQLFlowError):
    """A job ended without its result."""


class JobCancelled(JobError):  # noqa: N818 - what was asked for is no error
    """A job was stopped because somebody asked for that."""
