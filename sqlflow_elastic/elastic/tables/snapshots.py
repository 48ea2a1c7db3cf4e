"""Snapshots of a server's tables, made while it serves.

Rows that changed since the last snapshot are copied piece by piece, between steps, and written by a thread. What later
steps change meanwhile is kept as it was: it takes the place of what is copied.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables.copying import TableCopy
from sqlflow_elastic.elastic.tables.manifests import Manifest, read_manifests, segment_path, write_manifest
from sqlflow_elastic.elastic.tables.segments import Ids, Numbers, SegmentError, read_segment
from sqlflow_elastic.elastic.tables.sharding import shards_of
from sqlflow_elastic.elastic.tables.table import Table, Undo
from sqlflow_elastic.elastic.tables.writing import WritingThread
from sqlflow_elastic.models.tables.spec import TableSpec

#: A server's segments may hold so many times the rows that it has; then all rows are written anew.
_MOST_OVERLAP = 2
_CLOSE_SECONDS = 10.0
_PIECE_BYTES = 4 << 20


class SnapshotError(Exception):
    """There is no snapshot of a step, or it is damaged."""


class Snapshots:
    """One server's. All methods are for one thread.

    Args:
        folder: of the job's snapshots.
        name: the server's.
        piece_bytes: copied at a time, about.

    Attributes:
        step: of the newest finished one; -1 for none.
        failure: why the last one was not finished; "" if it was.
    """

    def __init__(self, folder: Path, name: str, piece_bytes: int = _PIECE_BYTES) -> None:
        self.step = -1
        self.failure = ""
        self._folder = folder
        self._name = name
        self._piece_bytes = piece_bytes
        self._tables: list[Table] = []
        #: Those of the last finished one, with how many rows they have.
        self._segments: list[tuple[str, int]] = []
        self._running: _Snapshot | None = None
        self._cancelled: list[WritingThread] = []

    @property
    def busy(self) -> bool:
        """Whether one is under way."""
        return self._running is not None

    def of(self, tables: Sequence[Table]) -> None:
        """The tables that snapshots are of."""
        self._tables = list(tables)

    def forget(self) -> None:
        """What is written is not what the tables were made from: the next snapshot has all rows."""
        self._segments.clear()
        self.step = -1

    def begin(self, step: int, servers: Sequence[str]) -> None:
        """Begin one of the tables as they are now. One that is under way is given up."""
        self.cancel()
        written = sum(rows for _, rows in self._segments)
        whole = not self._segments or written > _MOST_OVERLAP * sum(map(len, self._tables))
        copies = [TableCopy(table, whole, self._piece_bytes) for table in self._tables]
        # No name is used twice, not even by a server of the same name that lived before.
        name = f"{step:012d}-{self._name}-{secrets.token_hex(4)}.rows"
        segments = [*([] if whole else self._segments), (name, sum(copy.rows for copy in copies))]
        manifest = Manifest(self._name, tuple(servers), tuple(each for each, _ in segments))
        thread = WritingThread(segment_path(self._folder, name), lambda: write_manifest(self._folder, step, manifest))
        self._running = _Snapshot(step, segments, copies, thread)

    def work(self, seconds: float) -> bool:
        """Go on with the one under way for about so long. Returns whether it has ended: see `step` and `failure`.

        It returns earlier where the disk is behind.
        """
        running = self._running
        if running is None or not running.work(seconds):
            return False
        self._running = None
        self.failure = running.thread.failure
        if self.failure:
            running.give_back()
        else:
            self.step, self._segments = running.step, running.segments
        return True

    def noticed(self, table: int, undo: Undo) -> None:
        """Rows of the table of an index have just been changed."""
        if self._running is not None:
            self._running.copies[table].noticed(undo)

    def cancel(self) -> None:
        """Give up the one under way; its rows will be in the next one."""
        running, self._running = self._running, None
        if running is not None:
            running.thread.cancel()
            running.give_back()
            self._cancelled = [*(each for each in self._cancelled if not each.ended), running.thread]

    def load(self, step: int, shards: NDArray[np.bool_]) -> None:
        """Put the rows of some shards into the tables, as they were after a step, whoever wrote them.

        Args:
            step: of a complete snapshot.
            shards: [SHARDS].

        Raises:
            SnapshotError: there is none, or it is damaged.
        """
        self.forget()
        manifests = manifests_of(self._folder, step)
        for index, table in enumerate(self._tables):
            for ids, whole in rows_of(self._folder, manifests, index, table.spec):
                chosen = shards[shards_of(ids)]
                if chosen.all():
                    table.put(ids, whole)
                else:
                    table.put(ids[chosen], whole[chosen])

    def close(self) -> None:
        """Give up what is under way."""
        self.cancel()
        end = time.monotonic() + _CLOSE_SECONDS
        for thread in self._cancelled:
            thread.join(max(0.0, end - time.monotonic()))


def manifests_of(folder: Path, step: int) -> list[Manifest]:
    """What the servers wrote after a step. Raises: SnapshotError: it is not complete, or cannot be read."""
    try:
        manifests = read_manifests(folder, step)
    except OSError as error:
        raise SnapshotError(f"the snapshot after step {step} cannot be read: {error}") from error
    if not manifests:
        raise SnapshotError(f"there is no snapshot of all tables after step {step}")
    return manifests


def rows_of(
    folder: Path, manifests: Sequence[Manifest], table: int, spec: TableSpec, *, check: bool = True
) -> Iterator[tuple[Ids, Numbers]]:
    """Rows of a table in a snapshot, in pieces; later ones take the place of earlier ones.

    Args:
        folder: of the snapshots.
        manifests: of the servers.
        table: its index among the tables.
        spec: what it is.
        check: see `segments.read_segment`.

    Yields:
        Ids [n], and rows with their slots [n, width * (1 + slots)]; mapped.

    Raises:
        SnapshotError: it is damaged, or of another table.
    """
    for segment in (name for manifest in manifests for name in manifest.segments):
        try:
            for ids, whole in read_segment(segment_path(folder, segment), table, check=check):
                _check(segment, spec, ids, whole)
                yield ids, whole
        except SegmentError as error:
            raise SnapshotError(f"the snapshot cannot be used: {error}") from error


def _check(segment: str, spec: TableSpec, ids: Ids, whole: Numbers) -> None:
    """Raises: SegmentError: these are no rows of the table."""
    if (whole.shape[1], whole.dtype) != (spec.width * (1 + spec.slots), np.dtype(spec.dtype)):
        raise SegmentError(f"{segment} has rows of another table than {spec.name}")
    if len(ids) and not (ids.min() >= 0 and ids.max() < spec.rows):
        raise SegmentError(f"{segment} has ids that {spec.name} has not")


class _Snapshot:
    """One that is under way.

    Attributes:
        step: after which it is.
        segments: names and rows of all that it has when it is finished.
        copies: of the tables.
        thread: that writes them.
    """

    def __init__(
        self, step: int, segments: list[tuple[str, int]], copies: Sequence[TableCopy], thread: WritingThread
    ) -> None:
        self.step = step
        self.segments = segments
        self.copies = copies
        self.thread = thread
        self._copied = False

    def work(self, seconds: float) -> bool:
        """Copy; returns whether all is over."""
        end = time.monotonic() + seconds
        while not self._copied and not self.thread.ended:
            if not self.thread.takes_more:
                return False
            self._copy()
            if time.monotonic() >= end:
                return False
        self.thread.join(max(0.0, end - time.monotonic()))
        return self.thread.ended

    def give_back(self) -> None:
        """Its rows are not written."""
        for copy in self.copies:
            copy.give_back()

    def _copy(self) -> None:
        for index, copy in enumerate(self.copies):
            if not copy.ended:
                ids, whole = copy.piece()
                if len(ids):
                    self.thread.put(index, ids, whole)
                return
        self.thread.finish()
        self._copied = True
