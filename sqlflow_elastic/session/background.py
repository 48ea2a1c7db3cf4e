"""Blocking calls in a thread of their own, so that the one who waits can be interrupted and can interrupt them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from sqlflow_elastic.errors import DataSourceError, JobCancelled
from sqlflow_elastic.events import Event

T = TypeVar("T")
Emit = Callable[[Event], None]

_AHEAD = 4  # events a call may be ahead of who reads them
_LOOK_SECONDS = 0.1
_STOP_SECONDS = 10.0


class Background:
    """One thread for all calls to one data source, one call at a time.

    Args:
        interrupt: ends the call that runs now, if one does; may be called from any thread, again and again.
        cancelled: set from any thread to end the call that runs.
    """

    def __init__(self, interrupt: Callable[[], None], cancelled: threading.Event) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="sqlflow-elastic-database")
        self._interrupt = interrupt
        self._cancelled = cancelled

    def run(self, call: Callable[[Emit], T]) -> Generator[Event, None, T]:
        """Yield the events that ``call`` emits while it runs; the generator's value is its own.

        When the generator is closed, or anything is raised in it, the call has ended by the time it is left.

        Raises:
            JobCancelled: ``cancelled`` was set.
            DataSourceError: the call does not end although it was interrupted.
            Whatever the call raises.
        """
        emitted: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        ahead = threading.Semaphore(_AHEAD)
        stopped = threading.Event()

        def emit(event: Event) -> None:
            ahead.acquire()
            if stopped.is_set():
                ahead.release()
                raise JobCancelled("the statement was stopped")
            emitted.put(event)

        future = self._executor.submit(call, emit)
        future.add_done_callback(lambda _: emitted.put(None))
        try:
            while True:
                if self._cancelled.is_set():
                    raise JobCancelled("the statement was stopped")
                try:
                    event = emitted.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    continue
                if event is None:
                    return future.result()
                ahead.release()
                yield event
        finally:
            stopped.set()
            ahead.release()
            deadline = time.monotonic() + _STOP_SECONDS
            while not future.done():
                if time.monotonic() > deadline:
                    raise DataSourceError("the data source does not end the statement")
                self._interrupt()
                wait([future], timeout=_LOOK_SECONDS)

    def ask(self, call: Callable[[], T], seconds: float | None) -> T:
        """A call's value. Raises: TimeoutError: another call runs, or this one takes longer than that."""
        future = self._executor.submit(call)
        try:
            return future.result(seconds)
        finally:
            future.cancel()

    def close(self) -> None:
        """End the thread."""
        self._executor.shutdown()
