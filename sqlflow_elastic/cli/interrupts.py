"""Ctrl-C: once stops the running program cleanly, twice ends the command at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sqlflow_elastic.session import Session

_SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def interrupts(session: Session) -> Iterator[None]:
    """Inside, SIGINT and SIGTERM cancel what the session runs; a second one ends this process, and its jobs with it."""
    interrupted = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)
            os._exit(128 + number)
        interrupted = True
        session.cancel()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
