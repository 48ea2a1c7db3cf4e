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
    ├── StorageError           this machine does not take a file: a full disk, no permission
    ├── StoreUnavailable       the state of the jobs cannot be read or written
    └── JobError               a job ended without its result
        └── JobCancelled       … because somebody asked for that
"""

from __future__ import annotations

import errno
import os
import unicodedata
from dataclasses import dataclass

#: A longer line of a program is shown only around the place of its mistake, in so many characters.
_SHOWN = 160

#: What has its reason in the machine and not in this package.
_REFUSALS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE}
)


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
        line, place = _around(line, self.column - 1)
        width = max(1, min(self.span.end - self.span.start, len(line) - place))
        margin = "".join("\t" if c == "\t" else _pad(c) for c in line[:place])
        carets = "".join("^" * len(_pad(c)) for c in line[place : place + width]) or "^"
        return f"line {self.line}, column {self.column}: {head}\n  {line}\n  {margin}{carets}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.text, self.span, self.hint)


def _around(line: str, place: int) -> tuple[str, int]:
    """A line, or the piece of a long one around a place in it; and where the place is in that."""
    if len(line) <= _SHOWN:
        return line, place
    begin = max(0, min(place - _SHOWN // 2, len(line) - _SHOWN))
    before, after = "…" * (begin > 0), "…" * (begin + _SHOWN < len(line))
    return f"{before}{line[begin : begin + _SHOWN]}{after}", place - begin + len(before)


def _pad(character: str) -> str:
    """Spaces as wide as the character in a terminal: East Asian wide ones take two cells."""
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


class StorageError(SQLFlowError):
    """This machine does not take a file: a full disk, no permission, a folder that is none."""

    @classmethod
    def of(cls, error: Exception, what: str) -> StorageError | None:
        """An error that is the machine's; None for one that may be a mistake in this package.

        Args:
            error: what the operating system said, or a library that quotes it.
            what: what could not be done: "the job's folder /x cannot be written".
        """
        number = error.errno if isinstance(error, OSError) else None
        reasons = [
            os.strerror(refusal) for refusal in _REFUSALS if refusal == number or os.strerror(refusal) in str(error)
        ]
        return cls(f"{what}: {reasons[0]}") if reasons else None


class StoreUnavailable(SQLFlowError):  # noqa: N818 - it may be there again in a moment
    """The state store cannot be opened, reached or written. Never holds a password or a value of the store."""


def why(error: OSError) -> str:
    """What the operating system says of a failure: "No space left on device"."""
    return os.strerror(error.errno) if error.errno else str(error)


class JobError(SQLFlowError):
    """A job ended without its result."""


class JobCancelled(JobError):  # noqa: N818 - what was asked for is no error
    """A job was stopped because somebody asked for that."""
