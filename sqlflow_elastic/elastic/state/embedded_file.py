"""The file of an embedded state store: made, opened, its transactions, and what SQLite says in words for people."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlflow_elastic.elastic.state.base import CALL_SECONDS
from sqlflow_elastic.errors import StoreUnavailable, why

#: "SQFs": what marks the file as one of these.
_APPLICATION = 0x53514673
_VERSION = 1
_SCHEMA = (
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
)


class StoreFile:
    """A state store's SQLite file, opened by this process; its mode is 0600, that of its journal too.

    One connection, which the threads take in turns. After an error it is given up and the next call makes a new one,
    which begins with what is on the disk.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path).absolute()
        self.closed = False
        self._turn = threading.Condition()
        self._sqlite: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._identity = _made(self.path)
        try:
            with self.reading() as sql:
                ready = self._ready(sql)
            if not ready:
                with self.writing() as sql:
                    # Another process may have been quicker.
                    if not self._ready(sql):
                        for statement in _SCHEMA:
                            sql.execute(statement)
        except BaseException:
            self.close()
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
        with self._transaction("BEGIN IMMEDIATE") as sql:
            yield sql
        with self.turn() as turn:
            turn.notify_all()

    def close(self) -> None:
        """Give the file back; may be called twice."""
        with self._turn:
            self.closed = True
            self._disconnect()
            self._turn.notify_all()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        # SQLite may wait twice for other processes: for its turn to begin, and for readers to be done to commit.
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
            found = self.path.stat()
        except OSError as error:
            raise StoreUnavailable(f"the state store {self.path} is gone: {why(error)}") from error
        if (found.st_dev, found.st_ino) != self._identity:
            raise StoreUnavailable(f"the state store {self.path} was replaced by another file")
        if self._sqlite is None:
            self._sqlite = sqlite3.connect(
                self.path, timeout=CALL_SECONDS / 2, isolation_level=None, check_same_thread=False
            )
            self._sqlite.execute("PRAGMA journal_mode = TRUNCATE").fetchall()
            self._sqlite.execute("PRAGMA synchronous = FULL")
        return self._sqlite

    def _disconnect(self) -> None:
        if self._sqlite is not None:
            self._sqlite.close()
            self._sqlite = None

    def _ready(self, sql: sqlite3.Connection) -> bool:
        """Whether the tables are there and ours; False where there is nothing yet."""
        [application] = sql.execute("PRAGMA application_id").fetchone()
        [version] = sql.execute("PRAGMA user_version").fetchone()
        if (application, version) == (_APPLICATION, _VERSION):
            return True
        if application == _APPLICATION:
            raise StoreUnavailable(f"the state store {self.path} has the version {version}, this program {_VERSION}")
        if application or version or sql.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise StoreUnavailable(f"{self.path} is no state store, but a database of something else")
        return False


def _made(path: Path) -> tuple[int, int]:
    """Make the file if it does not exist; its device and inode."""
    try:
        # Not opened and closed: closing a file gives up all locks that this process has on it.
        os.mknod(path, 0o600)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        pass
    except (OSError, ValueError) as error:
        reason = why(error) if isinstance(error, OSError) else str(error)
        raise StoreUnavailable(f"the state store {path} cannot be made: {reason}") from error
    try:
        found = path.stat()
    except OSError as error:
        raise StoreUnavailable(f"the state store {path} cannot be opened: {why(error)}") from error
    if not path.is_file():
        raise StoreUnavailable(f"the state store {path} is no file")
    return found.st_dev, found.st_ino


def _reason(path: Path, error: sqlite3.Error) -> str:
    # The low byte is the kind, the rest says where in SQLite it happened.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"the state store {path} is busy: another process holds it"
        case sqlite3.SQLITE_FULL:
            return f"the state store {path} cannot be written: {os.strerror(errno.ENOSPC)}"
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return f"the state store {path} is damaged: {error}"
        case _:
            return f"the state store {path} cannot be used: {error}"
