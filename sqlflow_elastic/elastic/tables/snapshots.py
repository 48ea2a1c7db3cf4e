"""Snapshots of a server's tables, made while it serves.

Rows that changed since the last snapshot are copied piece by piece, between steps, and written by a thread. What later
steps change meanwhile is kept as it was: it takes the place of what is copied.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables.manifests import Manifest, read_manifests, segment_path, write_manifest
from sqlflow_elastic.elastic.tables.memory import lazy_zeros
from sqlflow_elastic.elastic.tables.segments import SegmentError, SegmentWriter, read_segment
from sqlflow_elastic.elastic.tables.sharding import shards_of
from sqlflow_elastic.elastic.tables.table import Positions, Table, Undo

_PIECE_BYTES = 4 << 20
_QUEUED = 4
#: A server's segments may hold so many times the rows that it has; then all rows are written anew.
_MOST_OVERLAP = 2
_CLOSE_SECONDS = 10.0


class SnapshotError(Exception):
    """There is no snapshot of a step, or it is damaged."""


class Snapshots:
    """One server's.

    Args:
        folder: of the job's snapshots.
        name: the server's.

    Attributes:
        step: of the newest finished one; -1 for none.
        failure: why the last one was not finished; "" if it was.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.step = -1
        self.failure = ""
        self._folder = folder
        self._name = name
        self._tables: list[Table] = []
        self._segments: list[tuple[str, int]] = []
        self._number = 0
        self._running: _Snapshot | None = None

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
        overlap = sum(rows for _, rows in self._segments) > _MOST_OVERLAP * sum(map(len, self._tables))
        whole = not self._segments or overlap
        positions = [table.take_changed() for table in self._tables]
        if whole:
            positions = [np.arange(len(table), dtype=np.int32) for table in self._tables]
        kept = [] if whole else self._segments
        self._number += 1
        name = f"{step:012d}-{self._name}-{self._number}.rows"
        segments = [*kept, (name, sum(map(len, positions)))]
        manifest = Manifest(self._name, tuple(servers), tuple(each for each, _ in segments))
        self._running = _Snapshot(self._folder, step, name, manifest, segments, self._tables, positions)

    def work(self, seconds: float) -> bool:
        """Go on with the one under way for about so long. Returns whether it has ended: see `step` and `failure`."""
        running = self._running
        if running is None or not running.work(seconds):
            return False
        self._running = None
        self.failure = running.failure
        if running.failure:
            running.give_back()
        else:
            self.step, self._segments = running.step, running.segments
        return True

    def noticed(self, table: int, undo: Undo) -> None:
        """Rows have just been changed."""
        if self._running is not None:
            self._running.noticed(table, undo)

    def cancel(self) -> None:
        """Give up the one under way; its rows will be in the next one."""
        if self._running is not None:
            self._running.cancel()
            self._running.give_back()
            self._running = None

    def load(self, step: int, shards: NDArray[np.bool_]) -> None:
        """Put the rows of some shards into the tables, as they were after a step, whoever wrote them.

        Args:
            step: of a complete snapshot.
            shards: [SHARDS].

        Raises:
            SnapshotError: there is none, or it is damaged.
        """
        for index, table in enumerate(self._tables):
            for ids, whole in rows_of(self._folder, step, index):
                chosen = shards[shards_of(ids)]
                table.put(ids[chosen], whole[chosen])

    def close(self) -> None:
        """Give up what is under way."""
        self.cancel()


def rows_of(folder: Path, step: int, table: int) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Ids and rows with slots of a table after a step, in pieces; later ones take the place of earlier ones.

    Raises:
        SnapshotError: there is no complete snapshot, or it is damaged.
    """
    manifests = read_manifests(folder, step)
    if not manifests:
        raise SnapshotError(f"there is no snapshot of all tables after step {step}")
    try:
        for manifest in manifests:
            for segment in manifest.segments:
                yield from read_segment(segment_path(folder, segment), table)
    except SegmentError as error:
        raise SnapshotError(f"the snapshot of step {step} is damaged: {error}") from error


class _Snapshot:
    """One that is under way."""

    def __init__(
        self,
        folder: Path,
        step: int,
        name: str,
        manifest: Manifest,
        segments: list[tuple[str, int]],
        tables: Sequence[Table],
        positions: Sequence[Positions],
    ) -> None:
        self.step = step
        self.segments = segments
        self.failure = ""
        self._folder, self._name, self._manifest = folder, name, manifest
        self._tables = tables
        self._positions = positions
        self._table = self._row = 0
        self._overlays = [_Overlay(table) for table in tables]
        self._queue: queue.Queue[tuple[int, Any, Any] | None] = queue.Queue(_QUEUED)
        self._cancelled = False
        self._ended = False
        self._thread = threading.Thread(target=self._write, name="snapshot", daemon=True)
        self._thread.start()

    def work(self, seconds: float) -> bool:
        """Copy; returns whether all is over."""
        end = time.monotonic() + seconds
        while self._thread.is_alive() and not self._ended:
            if self._queue.full():  # nobody else puts
                return False
            self._queue.put(self._piece())
            self._next()
            if time.monotonic() >= end:
                return False
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def noticed(self, table: int, undo: Undo) -> None:
        """Keep rows as they were, where they are still to be copied."""
        if table < self._table or self._ended:
            return
        after = 0
        if table == self._table and self._row < len(self._positions[table]):
            after = int(self._positions[table][self._row])
        chosen = undo.positions >= after
        self._overlays[table].keep(undo.positions[chosen], undo.before[chosen])

    def cancel(self) -> None:
        """There will be no snapshot."""
        self._cancelled = True
        while self._thread.is_alive():
            try:
                self._queue.put(None, timeout=0.01)
            except queue.Full:
                continue
            self._thread.join(_CLOSE_SECONDS)
            return

    def give_back(self) -> None:
        """Its rows are not written."""
        for table, positions in zip(self._tables, self._positions, strict=True):
            table.mark_changed(positions)

    def _piece(self) -> tuple[int, Any, Any] | None:
        if self._table == len(self._tables):
            return None
        table = self._tables[self._table]
        rows = max(1, _PIECE_BYTES // table.spec.row_bytes)
        positions = self._positions[self._table][self._row : self._row + rows]
        whole = table.whole(positions)
        self._overlays[self._table].lay_over(positions, whole)
        return self._table, table.ids_at(positions), whole

    def _next(self) -> None:
        if self._table == len(self._tables):
            self._ended = True
            return
        self._row += max(1, _PIECE_BYTES // self._tables[self._table].spec.row_bytes)
        if self._row >= len(self._positions[self._table]):
            self._table, self._row = self._table + 1, 0

    def _write(self) -> None:
        try:
            with SegmentWriter(segment_path(self._folder, self._name)) as writer:
                while (piece := self._queue.get()) is not None:
                    writer.add(*piece)
                if self._cancelled:
                    writer.abandon()
                    return
            write_manifest(self._folder, self.step, self._manifest)
        except OSError as error:
            self.failure = str(error)


class _Overlay:
    """Rows as they were when a snapshot began."""

    def __init__(self, table: Table) -> None:
        self._place_of = lazy_zeros((table.spec.rows,), np.int32)
        self._rows = np.empty((0, table.spec.width * (1 + table.spec.slots)), table.spec.dtype)
        self._count = 0

    def keep(self, positions: Positions, before: NDArray[Any]) -> None:
        """Keep rows that were not kept before."""
        new = self._place_of[positions] == 0
        positions, before = positions[new], before[new]
        end = self._count + len(positions)
        if end > len(self._rows):
            grown = np.empty((2 * end, self._rows.shape[1]), self._rows.dtype)
            grown[: self._count] = self._rows[: self._count]
            self._rows = grown
        self._rows[self._count : end] = before
        self._place_of[positions] = np.arange(self._count + 1, end + 1)
        self._count = end

    def lay_over(self, positions: Positions, whole: NDArray[Any]) -> None:
        """Put kept rows in the place of what they are now."""
        if self._count:
            places = self._place_of[positions]
            chosen = places > 0
            whole[chosen] = self._rows[places[chosen] - 1]
