"""A thread that writes a segment, so that a server's own one never waits for a disk."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlflow_elastic.elastic.tables.segments import Ids, Numbers, SegmentWriter

_QUEUED = 4


class WritingThread:
    """Writes pieces in the order in which they are put. All methods are for one thread.

    Args:
        path: of the segment.
        publish: called in the thread when the segment is durable; may raise OSError.

    Attributes:
        failure: why there is no segment, once `ended`; "" if there is one, or if it was cancelled.
    """

    def __init__(self, path: Path, publish: Callable[[], None]) -> None:
        self.failure = ""
        self._path = path
        self._publish = publish
        self._bug: BaseException | None = None
        self._cancelled = False
        self._publishing = threading.Lock()
        self._queue: queue.Queue[tuple[int, Any, Any] | None] = queue.Queue(_QUEUED)
        self._thread = threading.Thread(target=self._run, name="snapshot", daemon=True)
        self._thread.start()

    @property
    def takes_more(self) -> bool:
        """Whether `put` and `finish` return at once."""
        return not self._queue.full()

    @property
    def ended(self) -> bool:
        """Whether all is over. Raises: what nobody expected in the thread."""
        if self._thread.is_alive():
            return False
        if self._bug is not None:
            raise self._bug
        return True

    def put(self, table: int, ids: Ids, whole: Numbers) -> None:
        """Append a piece, which nobody changes any more."""
        self._queue.put((table, ids, whole))

    def finish(self) -> None:
        """There are no more pieces."""
        self._queue.put(None)

    def cancel(self) -> None:
        """Publish nothing from now on. The thread ends when it has written what it is at."""
        with self._publishing:
            self._cancelled = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait()
        self._queue.put(None)

    def join(self, seconds: float) -> None:
        """Wait for the thread to end, for at most so long."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            with SegmentWriter(self._path) as writer:
                while (piece := self._queue.get()) is not None:
                    writer.add(*piece)
                if self._cancelled:
                    writer.abandon()
                    return
            with self._publishing:
                if not self._cancelled:
                    self._publish()
        except OSError as error:
            self.failure = str(error)
        except BaseException as error:  # noqa: BLE001 - raised where it is asked for
            self._bug = error
