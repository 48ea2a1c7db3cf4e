"""The file of an embedded state store: made, opened, its transactions, and what SQLite says in words for people."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlflow_elastic.elastic.state.base import CALL_SECONDS
from sqlflow_elastic.elastic.state.turnstile import Turnstile
from sqlflow_elastic.errors import StoreUnavailable, why

#: "SQFs": what marks the file as one of these.
_APPLICATION = 0x53514673
_VERSION = 1
_SCHEMA = (
    "BEGIN IMMEDIATE",
    "CREATE TABLE store (revision INTEGER NOT NULL, forgotten INTEGER NOT NULL, written INTEGER NOT NULL)",
    "INSERT INTO store VALUES (0, 0, 0)",
    "CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL, lease INTEGER)",
    "CREATE INDEX leased ON entries (lease) WHERE lease IS NOT NULL",
    # `written`: the bytes of all changes up to this one, so that the oldest can be forgotten by size.
    "CREATE TABLE changes (revision INTEGER NOT NULL, key BLOB NOT NULL, value BLOB, written INTEGER NOT NULL)",
    "CREATE INDEX revisions ON changes (revision)",
    "CREATE INDEX sizes ON changes (written, revision)",
    # A number is never used twice: the holder of a lease that has ended must not refresh another one.
    "CREATE TABLE leases (id INTEGER PRIMARY KEY AUTOINCREMENT, boot TEXT NOT NULL, ends REAL NOT NULL)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
    "COMMIT",
)


_BUSY = "the state store {} is busy: another process holds it"


class StoreFile:
    """A state store's SQLite file, opened by this process; its mode is 0600, that of the files beside it too.

    One connection, which the threads take in turns. After an error it is given up and the next call makes a new one,
    which begins with what is on the disk.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path).absolute()
        self.closed = False
        self._turn = threading.Condition()
        self._sqlite: sqlite3.Connection | None = None
        self._process = os.getpid()
        try:
            _make(self.path)
            self._identity = _identity(self.path)
            with self.reading() as sql:
                self._check(sql)
            self._writers = Turnstile(self.path.with_name(self.path.name + "-lock"))
        except (OSError, ValueError) as error:
            self._disconnect()
            reason = why(error) if isinstance(error, OSError) else str(error)
            raise StoreUnavailable(f"the state store {self.path} cannot be opened: {reason}") from error
        except BaseException:
            self._disconnect()
            raise

    @contextmanager
    def turn(self) -> Iterator[threading.Condition]:
        """The turn of this thread; the condition is notified at each write of this object and when it is closed.

        Raises:
            ValueError: the store is closed, or was opened by the process that forked this one.
        """
        if os.getpid() != self._process:
            raise ValueError("a state store is not for forked children: open one there")
        if not self._turn.acquire(timeout=CALL_SECONDS):
            raise StoreUnavailable(f"the state store {self.path} is busy in another thread")
        try:
            if self.closed:
                raise ValueError("the state store is closed")
            yield self._turn
        finally:
            self._turn.release()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees one moment of the store and changes nothing."""
        with self._transaction("BEGIN") as sql:
            yield sql

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is durable when it is left: whole, or not at all when an exception leaves it."""
        with self.turn() as turn:
            try:
                # Kept until SQLite has committed, and copied its log into the file when it is time for that.
                with self._writers.passed(CALL_SECONDS / 2), self._transaction("BEGIN IMMEDIATE") as sql:
                    yield sql
            except TimeoutError as error:
                raise StoreUnavailable(_BUSY.format(self.path)) from error
            except OSError as error:
                raise StoreUnavailable(f"the state store {self.path} cannot be locked: {why(error)}") from error
            turn.notify_all()

    def close(self) -> None:
        """Give the file back; may be called twice."""
        with self._turn:
            if not self.closed:
                self._writers.close()
            self.closed = True
            self._disconnect()
            self._turn.notify_all()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self.turn():
            try:
                sql = self._connected()
                sql.execute(begin)
                try:
                    yield sql
                    sql.execute("COMMIT")
                finally:
                    if sql.in_transaction:
                        sql.execute("ROLLBACK")
            except sqlite3.Error as error:
                self._disconnect()
                raise StoreUnavailable(_reason(self.path, error)) from error

    def _connected(self) -> sqlite3.Connection:
        try:
            found = _identity(self.path)
        except OSError as error:
            raise StoreUnavailable(f"the state store {self.path} is gone: {why(error)}") from error
        if found != self._identity:
            raise StoreUnavailable(f"the state store {self.path} was replaced by another file")
        if self._sqlite is None:
            self._sqlite = sqlite3.connect(
                self.path, timeout=CALL_SECONDS / 2, isolation_level=None, check_same_thread=False
            )
            self._sqlite.execute("PRAGMA synchronous = FULL")
        return self._sqlite

    def _disconnect(self) -> None:
        if self._sqlite is not None:
            self._sqlite.close()
            self._sqlite = None

    def _check(self, sql: sqlite3.Connection) -> None:
        [application] = sql.execute("PRAGMA application_id").fetchone()
        [version] = sql.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise StoreUnavailable(f"{self.path} is no state store, but something else")
        if version != _VERSION:
            raise StoreUnavailable(f"the state store {self.path} has the version {version}, this program {_VERSION}")


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnavailable(f"the state store {path} is no file")
    return found.st_dev, found.st_ino


def _make(path: Path) -> None:
    """Make the file if it does not exist: aside, then put in its place, so that nobody ever sees half of it."""
    if path.exists():
        return
    file, aside = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    os.close(file)
    try:
        sql = sqlite3.connect(aside, isolation_level=None)
        try:
            sql.execute("PRAGMA journal_mode = WAL").fetchall()
            sql.execute("PRAGMA synchronous = FULL")
            for statement in _SCHEMA:
                sql.execute(statement)
        finally:
            sql.close()
        # Fails where another process was quicker, where a renaming would replace what that one has made.
        with suppress(FileExistsError):
            os.link(aside, path)
    except sqlite3.Error as error:
        raise StoreUnavailable(_reason(path, error)) from error
    finally:
        Path(aside).unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _reason(path: Path, error: sqlite3.Error) -> str:
    # The low byte is the kind, the rest says where in SQLite it happened.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return _BUSY.format(path)
        case sqlite3.SQLITE_FULL:
            return f"the state store {path} cannot be written: {os.strerror(errno.ENOSPC)}"
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return f"the state store {path} is damaged: {error}"
        case _:
            return f"the state store {path} cannot be used: {error}"
