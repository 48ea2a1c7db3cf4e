"""SQLite, through Python's own driver.

A column of SQLite may hold anything, so its type is known only when the last row is read. A result of more than one
batch is therefore spooled to a temporary Arrow file first; `sqlite_values` finds the types meanwhile.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import sys
import uuid
from collections.abc import Iterable
from contextlib import ExitStack
from typing import ClassVar
from urllib.parse import quote, urlencode

import pyarrow as pa

from sqlflow_elastic.datasource.arrow import regrouped
from sqlflow_elastic.datasource.base import BATCH_ROWS, CONNECT_SECONDS, Mark, RowStream
from sqlflow_elastic.datasource.engine import Engine
from sqlflow_elastic.datasource.sqlite_values import Spool, python_values, type_name
from sqlflow_elastic.datasource.urls import file_of
from sqlflow_elastic.errors import DataSourceError

_LOAD_BYTES = 1 << 24
_TICK_INSTRUCTIONS = 1_000_000
_VIEW = "temp.sqlflow_elastic_declared"
#: The mark is a comment in the table's CREATE statement, which SQLite keeps as it was written.
_MARK = re.compile(r"\(/\* (.+?) \*/")
_SELECT = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/)*(select|with|values)\b", re.IGNORECASE | re.DOTALL)


class SQLite(Engine[sqlite3.Connection]):
    """An SQLite file, or a database in memory. Options of the URL are those of SQLite's ``file:`` URIs."""

    dialect = "sqlite"
    # Python 3.11 answers two statements in one text with a Warning.
    driver_errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error, sqlite3.Warning)
    name_parts = ("database", "table")

    def __init__(self, url: str) -> None:
        path, options = file_of(url)
        if path:
            self._uri = f"file:{quote(path)}?{urlencode(options)}"
        else:
            # Of a name of its own, so that several connections see the same database.
            self._uri = f"file:/sqlflow-elastic-{uuid.uuid4().hex}?vfs=memdb"
        super().__init__(url)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._uri, uri=True, timeout=CONNECT_SECONDS, isolation_level=None, check_same_thread=False
        )
        # Called now and then, so that Python can handle a signal in the middle of a long query.
        connection.set_progress_handler(lambda: None, _TICK_INSTRUCTIONS)
        try:
            connection.execute("PRAGMA schema_version").fetchall()  # reads the file: is it a database?
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _disconnect(self, connection: sqlite3.Connection) -> None:
        connection.close()

    def _alive(self, connection: sqlite3.Connection) -> bool:
        return True

    def _is_missing(self, error: Exception) -> bool:
        return str(error).startswith(("no such table", "unknown database"))

    def _is_interrupt(self, error: Exception) -> bool:
        # It was not `cancel`, so it was an exception in the progress handler.
        return str(error) == "interrupted"

    def _interrupt(self, connection: sqlite3.Connection) -> None:
        connection.interrupt()

    def _run(
        self, connection: sqlite3.Connection, sql: str, batch_rows: int, cleanup: ExitStack
    ) -> RowStream | int | None:
        return self._select(connection, sql, batch_rows, cleanup, sys.maxsize)

    def _select(
        self, connection: sqlite3.Connection, sql: str, batch_rows: int, cleanup: ExitStack, limit: int
    ) -> RowStream | int | None:
        declared = _declared(connection, sql)
        cursor = connection.cursor()
        cleanup.callback(cursor.close)
        cursor.execute(sql)
        if cursor.description is None:
            return cursor.rowcount if cursor.rowcount >= 0 else None
        spool = Spool([column[0] for column in cursor.description], declared, batch_rows)
        cleanup.callback(spool.close)
        spool.fill(cursor, limit)
        return RowStream(spool.schema, spool.batches())

    def probe(self, select: str, rows: int) -> pa.Table:
        """See `DataSource.probe`. The engine works row by row: it is enough to stop asking."""
        with ExitStack() as cleanup:
            running = cleanup.enter_context(self._statement())
            with self._translated(running):
                stream = self._select(running.connection, select, BATCH_ROWS, cleanup, rows)
                if not isinstance(stream, RowStream):
                    raise DataSourceError("the statement gives no rows")
                return pa.Table.from_batches(stream.batches, stream.schema)

    def tables(self) -> list[str]:
        """See `DataSource.tables`."""
        rows = self._rows(
            "SELECT CASE schema WHEN 'main' THEN name ELSE schema || '.' || name END AS name FROM pragma_table_list"
            " WHERE type IN ('table', 'view', 'virtual') AND schema <> 'temp'"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        )
        return [row["name"] for row in rows]

    def _comment(self, table: tuple[str, ...]) -> str | None:
        catalogue = self.quote((*table[:-1], "sqlite_master"))
        rows = self._rows(
            f"SELECT sql FROM {catalogue} WHERE type = 'table'"  # noqa: S608
            f" AND lower(name) = lower({self.literal(table[-1])})"
        )
        return _mark_in(rows[0]["sql"]) if rows else None

    def _comments(self) -> list[tuple[tuple[str, ...], str]]:
        rows = self._rows(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE '%(/* sqlflow-elastic%'"
        )
        return [((row["name"],), _mark_in(row["sql"]) or "") for row in rows]

    def _load(
        self,
        connection: sqlite3.Connection,
        table: tuple[str, ...],
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        mark: Mark,
    ) -> int:
        name = self.quote(table)
        columns = ", ".join(f"{self.quote((field.name,))} {type_name(field.type)}" for field in schema)
        places = ", ".join("?" * len(schema))
        count = 0
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(f"CREATE TABLE {name} (/* {mark.value} */ {columns})")
            for batch in regrouped(batches, schema, BATCH_ROWS, _LOAD_BYTES):
                rows = zip(*(python_values(column) for column in batch.columns), strict=True)
                connection.executemany(f"INSERT INTO {name} VALUES ({places})", rows)  # noqa: S608
                count += batch.num_rows
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return count


def _declared(connection: sqlite3.Connection, sql: str) -> list[str]:
    """The declared types of a SELECT's columns, "" for expressions; empty if they cannot be had.

    The driver does not tell them, but a view over the SELECT does.
    """
    if not _SELECT.match(sql):
        return []
    try:
        connection.execute(f"CREATE TEMP VIEW {_VIEW.partition('.')[2]} AS {sql}")
    except (sqlite3.Error, sqlite3.Warning):
        return []  # whatever is wrong, running the statement says it better
    try:
        return [row[2] for row in connection.execute(f"PRAGMA temp.table_info({_VIEW.partition('.')[2]})")]
    finally:
        connection.execute(f"DROP VIEW {_VIEW}")


def _mark_in(sql: str) -> str | None:
    found = _MARK.search(sql)
    return found.group(1) if found else None
