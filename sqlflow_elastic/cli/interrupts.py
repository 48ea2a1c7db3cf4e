"""Ctrl-C, SIGTERM and a closed terminal: once stops the running program cleanly, twice ends the command at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sqlflow_elastic.session import Session

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def interrupts(session: Session) -> Iterator[None]:
    """Inside, SIGINT, SIGTERM and SIGHUP cancel what the session runs; a second one ends this process and its jobs."""
    interrupted = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)
            os._exit(128 + number)
        interrupted = True
        session.cancel()

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
