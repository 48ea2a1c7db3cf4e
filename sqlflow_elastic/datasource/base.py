"""The contract of a data source.

A data source is one database behind one URL. Implementations: DuckDB (the embedded default), SQLite, MySQL or MariaDB,
PostgreSQL. All pass tests/datasource/contract: an implementation is done when that suite passes over it.

What every implementation guarantees:

- **Text unchanged.** SQL goes to the engine as it was written.
- **Bounded memory.** `query` streams: no more than a few batches are held, whatever the size of the result.
- **Whole or nothing.** `write_table` replaces a table in one step: readers see the old one or the new one, a failure
  half way (a bad value, a lost connection, kill -9) leaves the old one. What it wrote carries a mark that goes when the
  table goes.
- **Deadlines.** Connecting waits at most `CONNECT_SECONDS`; a running query can be ended from another thread by
  `cancel`.
- **Secrets stay.** No password is in `url`, `repr`, an error or a log; every driver error becomes a `DataSourceError`.
- **One session.** Statements run one after the other on one connection, so that `USE` and temporary tables work; it is
  renewed for the next statement when it was lost. While a stream is open, other calls work too, on a connection of
  their own.
- **Threads.** One object is used by one thread at a time, but for `cancel`, which any thread may call.

Types. The engines' types arrive as Arrow types, the same for all four where the engine says what it holds: integers as
int64 (uint64 where unsigned 64-bit), floats as float64 (float32 kept where declared), decimals as decimal128 or 256,
booleans as bool (MySQL's TINYINT(1) is an int64: MySQL has no boolean), text as string, dates as date32, times of day
as time64[us], timestamps as timestamp[us] (zoned ones in UTC), bytes as binary, NULL as null. Other engine types (JSON,
UUID, enum, interval, list …) arrive as string.

- MySQL: a date with a zero in it ('0000-00-00') arrives as NULL; BIT and YEAR as integers; a TIMESTAMP as it is shown,
  in the session's zone and without one; a TIME that is a duration (negative, or of 24 hours and more) is an error.
- PostgreSQL: a numeric without precision has no scale that a column could have, and arrives as float64; infinite dates,
  and NaN in a numeric with precision, arrive as NULL.
- SQLite declares no types: a column's type is that of its declaration if its values keep to it, else of its values.
  `probe` sees the first rows only, so there its types can differ from `query`'s.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa

from sqlflow_elastic.models.mark import Mark

__all__ = ["BATCH_ROWS", "CONNECT_SECONDS", "DataSource", "Mark", "RowStream"]

CONNECT_SECONDS = 10.0
BATCH_ROWS = 65_536


@dataclass
class RowStream:
    """Rows on their way.

    ``batches`` may be read once; each is at most the asked number of rows long and has ``schema``.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class DataSource(abc.ABC):
    """One database; the module's page says what is guaranteed.

    Open it with `sqlflow_elastic.datasource.open_source(url)`.
    """

    #: sqlglot's name of the SQL spoken here: duckdb, sqlite, mysql, postgres.
    dialect: str
    #: The URL without its password (``***`` in its place).
    url: str

    @abc.abstractmethod
    def query(self, sql: str, batch_rows: int = BATCH_ROWS) -> AbstractContextManager[RowStream]:
        """Run a query and stream its rows; leaving the context ends the query, read to the end or not.

        Raises: DataSourceError: the engine refused it, or the connection was lost (on entering, or between batches).
        """

    @abc.abstractmethod
    def execute(self, sql: str) -> RowStream | int | None:
        """Run any one statement and commit it: its rows (held in memory-bounded form, read them before the next call),
        or the number of affected rows, or None where the engine has no number.

        Raises: DataSourceError.
        """

    @abc.abstractmethod
    def probe(self, select: str, rows: int) -> pa.Table:
        """The schema and at most ``rows`` first rows of a SELECT, read through a LIMIT so that the engine stops early.

        Types are as `query` would give them. Raises: DataSourceError.
        """

    @abc.abstractmethod
    def tables(self) -> list[str]:
        """Names of the tables and views here, for completion and listings: ``name``, or ``schema.name`` elsewhere."""

    @abc.abstractmethod
    def columns(self, table: tuple[str, ...]) -> pa.Schema | None:
        """The columns of a table or view given by its unquoted name parts; None if there is none of that name, which
        may have more parts than the engine's names."""

    @abc.abstractmethod
    def mark(self, table: tuple[str, ...]) -> Mark | None:
        """What this package wrote there; None for everybody else's tables and for missing ones."""

    @abc.abstractmethod
    def marked(self, mark: Mark) -> list[tuple[str, ...]]:
        """Name parts of all the tables that carry a mark."""

    @abc.abstractmethod
    def write_table(
        self, table: tuple[str, ...], schema: pa.Schema, batches: Iterable[pa.RecordBatch], mark: Mark
    ) -> int:
        """Create or replace a table with these rows, in bulk, whole or not at all; the number of rows written.

        Raises: DataSourceError: the engine refused, or the table is there and carries no mark of ours.
            Whatever ``batches`` raises passes through; the old table is left.
        """

    @abc.abstractmethod
    def drop_table(self, table: tuple[str, ...]) -> None:
        """Drop a marked table. Raises: DataSourceError: missing, or not marked."""

    @abc.abstractmethod
    def quote(self, parts: tuple[str, ...]) -> str:
        """Name parts as the engine's SQL writes them, quoted."""

    @abc.abstractmethod
    def cancel(self) -> None:
        """End what runs now, from any thread; it raises DataSourceError there. Nothing running: nothing happens."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give back the connection. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
