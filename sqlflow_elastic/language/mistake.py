"""The language's own exception, before it is known which program it is about."""

from __future__ import annotations

from sqlflow_elastic.errors import Span


class Mistake(Exception):  # noqa: N818 - what a user made, not what we did
    """A mistake at a place of the text being parsed; `parse` turns it into a ParseError that shows the text.

    Args:
        message: what is wrong, one sentence without a full stop.
        span: the place.
        hint: what would be right, or nothing.
        unfinished: more text behind the program's end could mend it.
    """

    def __init__(self, message: str, span: Span, hint: str | None = None, *, unfinished: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint
        self.unfinished = unfinished
