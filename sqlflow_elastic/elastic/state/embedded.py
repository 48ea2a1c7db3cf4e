"""The state store of one machine: one SQLite file that several processes read and write.

- SQLite keeps a write-ahead log and syncs it at each commit: what `write` returned survives a power loss, half a write
  of a killed process is no write, and readers neither wait nor let wait.
- Writers take turns at a lock of our own, held until SQLite has committed and, when it is time for that, has copied its
  log into the file. SQLite's own way to wait is unfair: of several busy writers some would never get on. And before
  version 3.51.3, Debian's among them, it can lose pages when one process commits while another one copies.
- The changes are kept beside the entries, so that watches of other processes find each of them; the oldest are
  forgotten. Watches of the same object are woken, those of others look every `_POLL_SECONDS`.
- Leases run by the machine's monotonic clock, which all its processes share: setting the time neither ends nor prolongs
  one. A lease of an earlier boot has ended. Reads pass over keys whose lease has ended; the next write or watch deletes
  them.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from sqlflow_elastic.elastic.state.base import (
    NOTHING_EXPECTED,
    Change,
    Conflict,
    Entry,
    HistoryLost,
    Lease,
    LeaseLost,
    StateStore,
    Watch,
    check_seconds,
    check_write,
    encoded_key,
    encoded_prefix,
    prefix_end,
)
from sqlflow_elastic.elastic.state.embedded_file import StoreFile

_POLL_SECONDS = 0.05
#: The changes that are kept: of so many revisions, and of them the last so many bytes.
_HISTORY_REVISIONS = 10_000
_HISTORY_BYTES = 32 << 20

_ENDED = "(boot <> :boot OR ends <= :now)"
_LIVE = f"(lease IS NULL OR EXISTS (SELECT 1 FROM leases WHERE id = lease AND NOT {_ENDED}))"  # noqa: S608 - constants
_WITHIN = "key >= :begin AND key < :end"


class EmbeddedStore(StateStore):
    """A state store in one file of this machine.

    Args:
        path: the file; it is made if it does not exist.
    """

    def __init__(self, path: str) -> None:
        self._file = StoreFile(path)

    def __repr__(self) -> str:
        return f"EmbeddedStore({str(self._file.path)!r})"

    def get(self, key: str) -> Entry | None:
        """See `StateStore.get`."""
        return next(iter(self._entries("key = :key", {"key": encoded_key(key)})), None)

    def list(self, prefix: str) -> list[Entry]:
        """See `StateStore.list`."""
        return [*self._entries(_WITHIN, _bounds(prefix))]

    def write(
        self,
        changes: Mapping[str, bytes | None],
        expect: Mapping[str, int] = NOTHING_EXPECTED,
        lease: Lease | None = None,
    ) -> int:
        """See `StateStore.write`."""
        check_write(changes, expect, lease)
        if lease is not None and not (isinstance(lease, EmbeddedLease) and lease.file is self._file):
            raise ValueError("the lease is one of another store")
        with self._file.writing() as sql:
            _collect(sql)
            for key, revision in expect.items():
                found = sql.execute("SELECT revision FROM entries WHERE key = ?", (encoded_key(key),)).fetchone()
                if revision != (found[0] if found else 0):
                    raise Conflict(f"{key!r} has the revision {found[0] if found else 0}, not {revision}")
            number = None
            if lease is not None:
                number = lease.number
                if sql.execute("SELECT 1 FROM leases WHERE id = ?", (number,)).fetchone() is None:
                    raise LeaseLost("the lease has ended")
            return _apply(sql, {encoded_key(key): value for key, value in changes.items()}, number)

    def watch(self, prefix: str, after: int | None = None) -> Watch:
        """See `StateStore.watch`."""
        return EmbeddedWatch(self._file, prefix, after)

    def lease(self, seconds: float) -> Lease:
        """See `StateStore.lease`."""
        check_seconds(seconds)
        return EmbeddedLease(self._file, seconds)

    def close(self) -> None:
        """See `StateStore.close`."""
        self._file.close()

    def _entries(self, condition: str, values: Mapping[str, bytes]) -> Sequence[Entry]:
        with self._file.reading() as sql:
            rows = sql.execute(
                f"SELECT key, value, revision FROM entries WHERE {condition} AND {_LIVE} ORDER BY key",  # noqa: S608
                {**values, **_clock()},
            ).fetchall()
        return [Entry(key.decode(), value, revision) for key, value, revision in rows]


class EmbeddedLease(Lease):
    """A lease, as a row of the file."""

    def __init__(self, file: StoreFile, seconds: float) -> None:
        self.file = file
        self.seconds = seconds
        with file.writing() as sql:
            self.number = sql.execute(
                "INSERT INTO leases (boot, ends) VALUES (:boot, :now + :seconds)", {**_clock(), "seconds": seconds}
            ).lastrowid

    def refresh(self) -> None:
        """See `Lease.refresh`."""
        with self.file.writing() as sql:
            if not sql.execute(
                f"UPDATE leases SET ends = :now + :seconds WHERE id = :id AND NOT {_ENDED}",  # noqa: S608
                {**_clock(), "seconds": self.seconds, "id": self.number},
            ).rowcount:
                raise LeaseLost("the lease has ended")

    def revoke(self) -> None:
        """See `Lease.revoke`."""
        with self.file.writing() as sql:
            _end(sql, [self.number])


class EmbeddedWatch(Watch):
    """A watch that reads on in the changes of the file."""

    def __init__(self, file: StoreFile, prefix: str, after: int | None) -> None:
        self._file = file
        self._bounds = _bounds(prefix)
        self._closed = False
        with file.reading() as sql:
            revision, forgotten = sql.execute("SELECT revision, forgotten FROM store").fetchone()
            self._revision: int = revision if after is None else after
            if not forgotten <= self._revision <= revision:
                raise HistoryLost(f"the state store knows the changes after {forgotten} up to {revision}, not {after}")
            #: The keys that were there as far as the watch has told, so that it can tell that they are gone even where
            #: their deletion is forgotten.
            self._known = {
                key
                for (key,) in sql.execute(
                    f"SELECT key FROM entries WHERE {_WITHIN} UNION "  # noqa: S608
                    f"SELECT key FROM changes WHERE {_WITHIN} AND revision > :revision",
                    {**self._bounds, "revision": self._revision},
                )
            }

    def next(self, seconds: float) -> list[Change]:
        """See `Watch.next`."""
        deadline = time.monotonic() + seconds
        if self._closed:
            raise ValueError("the watch is closed")
        with self._file.turn() as turn:
            while True:
                changes = self._read()
                patience = deadline - time.monotonic()
                if changes or patience <= 0:
                    return changes
                turn.wait(min(_POLL_SECONDS, patience))
                if self._closed or self._file.closed:
                    return []

    def close(self) -> None:
        """See `Watch.close`."""
        self._closed = True

    def _read(self) -> list[Change]:
        self._collect()
        with self._file.reading() as sql:
            revision, forgotten = sql.execute("SELECT revision, forgotten FROM store").fetchone()
            if revision == self._revision:
                return []
            query: dict[str, bytes | int] = {**self._bounds, "revision": self._revision}
            if forgotten <= self._revision:
                found = sql.execute(
                    f"SELECT key, value, revision FROM changes WHERE revision > :revision AND {_WITHIN} "  # noqa: S608
                    "ORDER BY revision, rowid",
                    query,
                ).fetchall()
            else:
                found = self._last_changes(sql, query, revision)
        self._revision = revision
        for key, value, _ in found:
            (self._known.discard if value is None else self._known.add)(key)
        return [Change(key.decode(), value, at) for key, value, at in found]

    def _last_changes(
        self, sql: sqlite3.Connection, query: Mapping[str, bytes | int], revision: int
    ) -> list[tuple[bytes, bytes | None, int]]:
        """The last change of each key, found without the history."""
        there = {key for (key,) in sql.execute(f"SELECT key FROM entries WHERE {_WITHIN}", query)}  # noqa: S608
        written = sql.execute(
            f"SELECT key, value, revision FROM entries WHERE {_WITHIN} AND revision > :revision "  # noqa: S608
            "ORDER BY revision, rowid",
            query,
        ).fetchall()
        return [*written, *((key, None, revision) for key in sorted(self._known - there))]

    def _collect(self) -> None:
        with self._file.reading() as sql:
            ended = sql.execute(f"SELECT 1 FROM leases WHERE {_ENDED}", _clock()).fetchone()  # noqa: S608
        if ended:
            with self._file.writing() as sql:
                _collect(sql)


def _apply(sql: sqlite3.Connection, changes: Mapping[bytes, bytes | None], lease: int | None) -> int:
    """Within a transaction, make changes and remember them; the revision."""
    last, forgotten, written = sql.execute("SELECT revision, forgotten, written FROM store").fetchone()
    revision: int = last
    for key, value in changes.items():
        if value is not None:
            sql.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", (key, value, last + 1, lease))
        elif not sql.execute("DELETE FROM entries WHERE key = ?", (key,)).rowcount:
            continue
        revision = last + 1
        written += len(key) + len(value or b"")
        sql.execute("INSERT INTO changes VALUES (?, ?, ?, ?)", (revision, key, value, written))
    if revision == last:
        return revision
    outgrown = sql.execute("SELECT max(revision) FROM changes WHERE written <= ?", (written - _HISTORY_BYTES,))
    forgotten = max(forgotten, revision - _HISTORY_REVISIONS, outgrown.fetchone()[0] or 0)
    sql.execute("DELETE FROM changes WHERE revision <= ?", (forgotten,))
    sql.execute("UPDATE store SET revision = ?, forgotten = ?, written = ?", (revision, forgotten, written))
    return revision


def _collect(sql: sqlite3.Connection) -> None:
    """Within a transaction, delete the keys of the leases that have ended."""
    ended = sql.execute(f"SELECT id FROM leases WHERE {_ENDED} ORDER BY ends", _clock()).fetchall()  # noqa: S608
    _end(sql, [number for (number,) in ended])


def _end(sql: sqlite3.Connection, leases: Sequence[int | None]) -> None:
    """Within a transaction, delete leases and their keys, these in one revision."""
    keys: dict[bytes, bytes | None] = {}
    for number in leases:
        keys.update((key, None) for (key,) in sql.execute("SELECT key FROM entries WHERE lease = ?", (number,)))
        sql.execute("DELETE FROM leases WHERE id = ?", (number,))
    _apply(sql, keys, None)


def _bounds(prefix: str) -> dict[str, bytes]:
    begin = encoded_prefix(prefix)
    return {"begin": begin, "end": prefix_end(begin)}


def _clock() -> dict[str, str | float]:
    """The boot and the seconds since then: what all processes of the machine agree on."""
    return {"boot": _boot(), "now": time.clock_gettime(time.CLOCK_MONOTONIC)}


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
