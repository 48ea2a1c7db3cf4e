"""What all engines do alike: connections, statements that run and end, errors without secrets, marks.

An engine's own file adds how to connect, to run a statement, to load rows, and what its catalogue looks like.

**Connections.** Statements run one after the other on one connection, so that `USE` and temporary tables work as in any
client; it is renewed when it was lost. A statement that runs while a stream is still open (writing a table from a
query's rows) gets a connection of its own.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

import pyarrow as pa

from sqlflow_elastic.datasource.arrow import contract_schema
from sqlflow_elastic.datasource.base import BATCH_ROWS, DataSource, Mark, RowStream
from sqlflow_elastic.datasource.urls import mask_url, secrets
from sqlflow_elastic.errors import DataSourceError

Connection = TypeVar("Connection")


class MissingTable(DataSourceError):  # noqa: N818
    """The engine says that there is no such table, schema or database."""


class Cancelled(DataSourceError):  # noqa: N818
    """Somebody called `cancel`."""


class _FromCaller(Exception):  # noqa: N818
    """Carries an error of the caller's rows past the translation of driver errors."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(eq=False)
class Running(Generic[Connection]):
    """A statement that runs, or whose rows are still being read."""

    connection: Connection
    cancelled: bool = False

    def check(self) -> None:
        """Raises: Cancelled: somebody cancelled it."""
        if self.cancelled:
            raise Cancelled("the statement was cancelled") from None


class Engine(DataSource, Generic[Connection]):
    """A data source over a driver's connections."""

    #: What the driver raises.
    driver_errors: ClassVar[tuple[type[Exception], ...]]
    #: The character around a quoted name; doubled inside it.
    quote_character: ClassVar[str] = '"'
    #: What a table's full name is made of; fewer parts are the last ones.
    name_parts: ClassVar[tuple[str, ...]]

    def __init__(self, url: str) -> None:
        self.url = mask_url(url)
        self._secrets = secrets(url)
        self._running: list[Running[Connection]] = []
        self._unread: ExitStack | None = None
        self._closed = False
        self._free = True
        with self._translated():
            self._connection: Connection | None = self._connect()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    # What an engine adds -------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _connect(self) -> Connection:
        """A new connection, in autocommit."""

    @abc.abstractmethod
    def _disconnect(self, connection: Connection) -> None:
        """Close a connection, also a broken one."""

    @abc.abstractmethod
    def _alive(self, connection: Connection) -> bool:
        """Whether the connection still works."""

    @abc.abstractmethod
    def _run(self, connection: Connection, sql: str, batch_rows: int, cleanup: ExitStack) -> RowStream | int | None:
        """Run one statement. ``cleanup`` is closed when the rows are no longer wanted, read to the end or not."""

    @abc.abstractmethod
    def _interrupt(self, connection: Connection) -> None:
        """End what runs on the connection; called from another thread."""

    @abc.abstractmethod
    def _load(
        self,
        connection: Connection,
        table: tuple[str, ...],
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        mark: Mark,
    ) -> int:
        """Create or replace a table that may be replaced, whole or not at all; ``schema`` has the contract's types."""

    @abc.abstractmethod
    def _comment(self, table: tuple[str, ...]) -> str | None:
        """The comment of a table."""

    @abc.abstractmethod
    def _comments(self) -> list[tuple[tuple[str, ...], str]]:
        """Name parts and comment of the tables here, at least of those that carry a mark."""

    def _is_missing(self, error: Exception) -> bool:
        """Whether the driver says with this error that there is no such table."""
        raise NotImplementedError

    def _is_interrupt(self, error: Exception) -> bool:
        """Whether the driver says with this error that Ctrl-C was pressed."""
        return False

    def _message(self, error: Exception) -> str:
        """The engine's own words."""
        return str(error)

    # Running statements --------------------------------------------------------------------------------------------

    @contextmanager
    def query(self, sql: str, batch_rows: int = BATCH_ROWS) -> Iterator[RowStream]:
        """See `DataSource.query`."""
        with ExitStack() as cleanup:
            running = cleanup.enter_context(self._statement())
            with self._translated(running):
                result = self._run(running.connection, sql, batch_rows, cleanup)
            if not isinstance(result, RowStream):
                raise DataSourceError("the statement gives no rows")
            yield RowStream(result.schema, self._guarded(running, result.batches))

    def execute(self, sql: str) -> RowStream | int | None:
        """See `DataSource.execute`."""
        with ExitStack() as cleanup:
            running = cleanup.enter_context(self._statement())
            with self._translated(running):
                result = self._run(running.connection, sql, BATCH_ROWS, cleanup)
            if not isinstance(result, RowStream):
                return result
            self._unread = cleanup.pop_all()
            return RowStream(result.schema, self._to_the_end(self._guarded(running, result.batches)))

    def probe(self, select: str, rows: int) -> pa.Table:
        """See `DataSource.probe`."""
        limited = f"SELECT * FROM ({select.rstrip().rstrip(';')}\n) AS probed LIMIT {rows:d}"  # noqa: S608
        try:
            return self._table(limited)
        except Cancelled:
            raise
        except DataSourceError:
            # What is wrong may be around the SELECT only (two columns of one name), or the words are about that: run
            # the SELECT itself, which fails by itself or gives its first rows.
            with self.query(select, max(rows, 1)) as stream:
                first = next(stream.batches, None)
                return pa.Table.from_batches([] if first is None else [first.slice(0, rows)], stream.schema)

    def cancel(self) -> None:
        """See `DataSource.cancel`."""
        for running in list(self._running):
            running.cancelled = True
            with self._translated():
                self._interrupt(running.connection)

    def close(self) -> None:
        """See `DataSource.close`."""
        self._closed = True
        self._end_unread()
        if self._connection is not None:
            self._disconnect(self._connection)
            self._connection = None

    def _table(self, sql: str) -> pa.Table:
        with self.query(sql) as stream:
            return pa.Table.from_batches(stream.batches, stream.schema)

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._table(sql).to_pylist()
        return rows

    @contextmanager
    def _statement(self) -> Iterator[Running[Connection]]:
        self._end_unread()
        with self._borrowed() as connection:
            running = Running(connection)
            self._running.append(running)
            try:
                yield running
            finally:
                self._running.remove(running)

    @contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        if self._closed:
            raise DataSourceError(f"the data source {self.url} is closed")
        if not self._free:
            with self._translated():
                extra = self._connect()
            try:
                yield extra
            finally:
                self._disconnect(extra)
            return
        with self._translated():
            if self._connection is not None and not self._alive(self._connection):
                self._disconnect(self._connection)
                self._connection = None
            if self._connection is None:
                self._connection = self._connect()
        self._free = False
        try:
            yield self._connection
        except Exception:
            raise
        except BaseException:
            # Ctrl-C may have stopped the driver in the middle of a message: this connection is of no more use.
            self._disconnect(self._connection)
            self._connection = None
            raise
        finally:
            self._free = True

    def _end_unread(self) -> None:
        unread, self._unread = self._unread, None
        if unread is not None:
            unread.close()

    def _to_the_end(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        finally:
            self._end_unread()

    def _guarded(self, running: Running[Connection], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while True:
            with self._translated(running):
                batch = next(batches, None)
            running.check()
            if batch is None:
                return
            yield batch

    @contextmanager
    def _translated(self, running: Running[Connection] | None = None) -> Iterator[None]:
        """Driver errors inside become DataSourceErrors without secrets."""
        try:
            yield
        except self.driver_errors as error:
            if running is not None:
                running.check()
            if self._is_interrupt(error):
                raise KeyboardInterrupt from None
            message = self._message(error).strip()
            for secret in self._secrets:
                message = message.replace(secret, "***")
            # Not chained: the driver's own text may hold the password.
            raise (MissingTable if self._is_missing(error) else DataSourceError)(message) from None

    # Tables --------------------------------------------------------------------------------------------------------

    def columns(self, table: tuple[str, ...]) -> pa.Schema | None:
        """See `DataSource.columns`."""
        try:
            self._check_name(table)
            return self._table(f"SELECT * FROM {self.quote(table)} LIMIT 0").schema  # noqa: S608
        except MissingTable:
            return None

    def mark(self, table: tuple[str, ...]) -> Mark | None:
        """See `DataSource.mark`."""
        try:
            self._check_name(table)
            return self._mark_of(self._comment(table))
        except MissingTable:
            return None

    def _check_name(self, table: tuple[str, ...]) -> None:
        if len(table) > len(self.name_parts):
            parts = ".".join(self.name_parts)
            raise MissingTable(f"a table's name has at most {len(self.name_parts)} parts here, {parts}")

    def _mark_of(self, comment: str | None) -> Mark | None:
        return next((mark for mark in Mark if mark.value == comment), None)

    def marked(self, mark: Mark) -> list[tuple[str, ...]]:
        """See `DataSource.marked`."""
        return sorted(table for table, comment in self._comments() if comment == mark.value)

    def write_table(
        self, table: tuple[str, ...], schema: pa.Schema, batches: Iterable[pa.RecordBatch], mark: Mark
    ) -> int:
        """See `DataSource.write_table`."""
        self._check_name(table)
        self._check_replaceable(table)
        try:
            with self._statement() as running, self._translated(running):
                passed = self._passed(batches, running)
                return self._load(running.connection, table, contract_schema(schema), passed, mark)
        except _FromCaller as wrapped:
            raise wrapped.error from None

    def _passed(self, batches: Iterable[pa.RecordBatch], running: Running[Connection]) -> Iterator[pa.RecordBatch]:
        """The caller's batches; an error from there is kept apart from the driver's."""
        try:
            for batch in batches:
                running.check()
                yield batch
        except Exception as error:
            raise _FromCaller(error) from error

    def _check_replaceable(self, table: tuple[str, ...]) -> None:
        # Asked again: another writer's table may have come between the two questions.
        if self.mark(table) is None and self.columns(table) is not None and self.mark(table) is None:
            self._refuse(table)

    def _refuse(self, table: tuple[str, ...]) -> NoReturn:
        name = ".".join(table)
        raise DataSourceError(f"the table {name} is there and was not written by sqlflow-elastic; it is left as it is")

    def drop_table(self, table: tuple[str, ...]) -> None:
        """See `DataSource.drop_table`."""
        if self.columns(table) is None:
            raise DataSourceError(f"there is no table {'.'.join(table)}")
        self._check_replaceable(table)
        self.execute(f"DROP TABLE {self.quote(table)}")

    def quote(self, parts: tuple[str, ...]) -> str:
        """See `DataSource.quote`."""
        mark = self.quote_character
        return ".".join(f"{mark}{part.replace(mark, mark * 2)}{mark}" for part in parts)

    def literal(self, text: str) -> str:
        """A text as the engine's SQL writes it."""
        return "'" + text.replace("'", "''") + "'"
