"""MySQL and MariaDB, through PyMySQL."""

from __future__ import annotations

import contextlib
import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pymysql
from pymysql.cursors import SSCursor
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from sqlflow_elastic.datasource.arrow import regrouped
from sqlflow_elastic.datasource.base import BATCH_ROWS, CONNECT_SECONDS, Mark, RowStream
from sqlflow_elastic.datasource.engine import Engine
from sqlflow_elastic.datasource.mysql_types import NAMES, Column, column_of, decimal_name, insert_values
from sqlflow_elastic.datasource.urls import mask_url, server_url
from sqlflow_elastic.errors import DataSourceError

#: Rows fetched at a time: few enough that Python's collector stays quiet, enough for Arrow to be quick.
_FETCH_ROWS = 512
_INSERT_BYTES = 1 << 20
_LOAD_BYTES = 1 << 22
_LOCK_SECONDS = 60
#: Tables under such a name are being written, or were left by a process that died.
_ASIDE = "sqlflow_elastic_aside_"
#: Options of the Go driver, which SQLFlow's users have in their URLs; they mean nothing here.
_GO_OPTIONS = {
    *("allowAllFiles", "allowCleartextPasswords", "allowNativePasswords", "allowOldPasswords", "checkConnLiveness"),
    *("clientFoundRows", "collation", "columnsWithAlias", "interpolateParams", "loc", "maxAllowedPacket"),
    *("multiStatements", "parseTime", "readTimeout", "rejectReadOnly", "serverPubKey", "sessionVariables"),
    *("timeout", "tls", "writeTimeout"),
}
_USE = re.compile(r"\s*(/\*.*?\*/\s*|(#|--\s)[^\n]*\n\s*)*use\s", re.IGNORECASE | re.DOTALL)
_NO_SUCH_TABLE = {1049, 1146}  # the database, or the table, is unknown
_SYSTEM = "('information_schema', 'mysql', 'performance_schema', 'sys')"

if TYPE_CHECKING:
    Connection = pymysql.connections.Connection[SSCursor]


class MySQL(Engine["Connection"]):
    """A MySQL or MariaDB server. Options of the URL are PyMySQL's."""

    dialect = "mysql"
    driver_errors: ClassVar[tuple[type[Exception], ...]] = (pymysql.Error,)
    quote_character = "`"
    name_parts = ("database", "table")

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(server_url(url)).set(drivername="mysql+pymysql")
            _, self._options = parsed.get_dialect()().create_connect_args(parsed)
        except (ArgumentError, ValueError):
            raise DataSourceError(f"cannot read the URL {mask_url(url)}") from None
        for option in _GO_OPTIONS:
            self._options.pop(option, None)
        self._database: str | None = self._options.pop("database", None)
        # As bytes: PyMySQL would encode a text in Latin-1, which no server expects.
        self._options["password"] = (parsed.password or "").encode()
        super().__init__(url)

    def _connect(self) -> Connection:
        try:
            connection = pymysql.connect(
                **{
                    **self._options,
                    "database": self._database,
                    "charset": "utf8mb4",
                    # Values stay bytes: Arrow parses a column of them faster than Python its values one by one.
                    "use_unicode": False,
                    "conv": {},
                    "cursorclass": SSCursor,
                    "autocommit": True,
                    "connect_timeout": CONNECT_SECONDS,
                    "read_timeout": CONNECT_SECONDS,
                    "init_command": f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}",
                }
            )
        except TypeError as error:
            raise DataSourceError(f"cannot use the URL {self.url}: {error}") from None
        # The deadline was for connecting; a query may take longer.
        connection._read_timeout = None  # type: ignore[attr-defined]
        return connection

    def _disconnect(self, connection: Connection) -> None:
        with contextlib.suppress(pymysql.Error):
            connection.close()

    def _alive(self, connection: Connection) -> bool:
        try:
            connection.ping(reconnect=False)
        except pymysql.Error:
            return False
        return True

    def _is_missing(self, error: Exception) -> bool:
        return bool(error.args) and error.args[0] in _NO_SUCH_TABLE

    def _message(self, error: Exception) -> str:
        return str(error.args[1] if len(error.args) > 1 else error)

    def _interrupt(self, connection: Connection) -> None:
        killer = self._connect()
        try:
            # What has ended meanwhile cannot be killed, and need not.
            with contextlib.suppress(pymysql.Error):
                killer.query(f"KILL QUERY {connection.thread_id()}")  # type: ignore[no-untyped-call]
        finally:
            self._disconnect(killer)

    def _run(self, connection: Connection, sql: str, batch_rows: int, cleanup: ExitStack) -> RowStream | int | None:
        cursor = connection.cursor()
        cursor.execute(sql)
        if cursor.description is None:
            affected = cursor.rowcount
            cursor.close()
            if _USE.match(sql):
                self._database = self._one(connection, "SELECT DATABASE()")
            return affected
        cleanup.push(partial(self._end, connection, cursor))
        columns = [column_of(field) for field in cursor._result.fields]  # type: ignore[attr-defined]
        schema = pa.schema([column.field for column in columns])
        return RowStream(schema, _batches(cursor, columns, schema, batch_rows))

    def _end(
        self,
        connection: Connection,
        cursor: SSCursor,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """End a result, read to the end or not."""
        if kind is not None and not issubclass(kind, Exception):
            # Ctrl-C may have come in the middle of a packet: there is no reading on.
            self._disconnect(connection)
        result = cursor._result  # type: ignore[attr-defined]
        if not connection.open:
            result.unbuffered_active = False
        if result.unbuffered_active:
            # The server would send all the rest.
            self._interrupt(connection)
        with contextlib.suppress(pymysql.Error):
            cursor.close()

    def _one(self, connection: Connection, sql: str) -> str | None:
        """The only value of a query, as text."""
        with connection.cursor() as cursor:
            cursor.execute(sql)
            rows = cursor.fetchall()
        return rows[0][0].decode() if rows and rows[0][0] is not None else None

    def tables(self) -> list[str]:
        """See `DataSource.tables`."""
        rows = self._rows(
            "SELECT IF(table_schema <=> DATABASE(), table_name, CONCAT(table_schema, '.', table_name)) AS name"  # noqa: S608
            f" FROM information_schema.tables WHERE table_schema NOT IN {_SYSTEM}"
            f" AND table_name NOT LIKE '{_ASIDE}%' ORDER BY name"
        )
        return [row["name"] for row in rows]

    def literal(self, text: str) -> str:
        """See `Engine.literal`; what a backslash means depends on a setting of the session, hence hexadecimal."""
        return f"CONVERT(X'{text.encode().hex()}' USING utf8mb4)"

    def _comment_query(self, table: tuple[str, ...]) -> str:
        schema = self.literal(table[0]) if len(table) > 1 else "DATABASE()"
        name = self.literal(table[-1])
        return (
            "SELECT table_comment AS comment FROM information_schema.tables"  # noqa: S608
            f" WHERE table_schema = {schema} AND table_name = {name}"
            # For that comparison 'sales', 'Sales' and 'salés' are one; for the server they are not.
            f" AND {_same('table_schema', schema)} AND {_same('table_name', name)}"
        )

    def _comment(self, table: tuple[str, ...]) -> str | None:
        rows = self._rows(self._comment_query(table))
        return rows[0]["comment"] if rows else None

    def _comments(self) -> list[tuple[tuple[str, ...], str]]:
        marks = ", ".join(self.literal(mark.value) for mark in Mark)
        rows = self._rows(
            "SELECT table_schema <=> DATABASE() AS here, table_schema AS place, table_name AS name,"  # noqa: S608
            f" table_comment AS comment FROM information_schema.tables WHERE table_comment IN ({marks})"
        )
        return [
            ((row["name"],) if row["here"] else (row["place"], row["name"]), row["comment"])
            for row in rows
            if not row["name"].startswith(_ASIDE)
        ]

    def _load(
        self,
        connection: Connection,
        table: tuple[str, ...],
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        mark: Mark,
    ) -> int:
        database = table[0] if len(table) > 1 else self._database
        if database is None:
            raise DataSourceError(f"no database is selected: write database.{table[-1]}, or USE one")
        target = self.quote((database, table[-1]))
        name = f"{_ASIDE}{uuid.uuid4().hex}"
        aside, old = self.quote((database, name)), self.quote((database, f"{name}_old"))
        columns = ", ".join(f"{self.quote((field.name,))} {_type_name(field.type)}" for field in schema)
        # Held as long as this connection lives: a table whose lock is free was left by a dead process.
        self._one(connection, f"SELECT GET_LOCK('{name}', 0)")
        try:
            self._drop_leftovers(connection, database)
            connection.query(f"CREATE TABLE {aside} ({columns}) CHARACTER SET utf8mb4 COMMENT '{mark.value}'")
            rows = self._insert(connection, aside, schema, batches)
            with self._alone(connection, target):
                present = self._one(connection, self._comment_query((database, table[-1])))
                if present is None:
                    connection.query(f"RENAME TABLE {aside} TO {target}")
                elif self._mark_of(present) is None:
                    self._refuse(table)
                else:
                    connection.query(f"RENAME TABLE {target} TO {old}, {aside} TO {target}")
                    connection.query(f"DROP TABLE {old}")
        except BaseException:
            with contextlib.suppress(pymysql.Error):
                connection.rollback()
                connection.query(f"DROP TABLE IF EXISTS {aside}")
            raise
        finally:
            with contextlib.suppress(pymysql.Error):
                self._one(connection, f"SELECT RELEASE_LOCK('{name}')")
        return rows

    @contextlib.contextmanager
    def _alone(self, connection: Connection, target: str) -> Iterator[None]:
        """One after the other: two that both find no table would both give theirs the name."""
        lock = f"sqlflow_elastic_{hashlib.sha1(target.encode(), usedforsecurity=False).hexdigest()}"
        self._one(connection, f"SELECT GET_LOCK('{lock}', {_LOCK_SECONDS})")
        try:
            yield
        finally:
            with contextlib.suppress(pymysql.Error):
                self._one(connection, f"SELECT RELEASE_LOCK('{lock}')")

    def _drop_leftovers(self, connection: Connection, database: str) -> None:
        marks = ", ".join(self.literal(mark.value) for mark in Mark)
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT table_name FROM information_schema.tables WHERE table_schema = {self.literal(database)}"  # noqa: S608
                f" AND table_name LIKE '{_ASIDE}%' AND table_comment IN ({marks})"
            )
            names = [row[0].decode() for row in cursor.fetchall()]
        for name in names:
            lock = name.removesuffix("_old")
            if self._one(connection, f"SELECT IS_FREE_LOCK('{lock}')") == "1":
                connection.query(f"DROP TABLE IF EXISTS {self.quote((database, name))}")

    def _insert(self, connection: Connection, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        backslashes = "NO_BACKSLASH_ESCAPES" not in (self._one(connection, "SELECT @@sql_mode") or "")
        head = f"INSERT INTO {table} VALUES ".encode()  # noqa: S608
        count = 0
        connection.begin()
        for batch in regrouped(batches, schema, BATCH_ROWS, _LOAD_BYTES):
            for values in insert_values(batch, backslashes, _INSERT_BYTES):
                connection.query(head + values)
            count += batch.num_rows
        connection.commit()
        return count


def _same(column: str, name: str) -> str:
    """The condition that a name in the catalogue is this one, as the server tells names apart."""
    sides = (f"CAST(IF(@@lower_case_table_names = 0, {side}, LOWER({side})) AS BINARY)" for side in (column, name))
    return " = ".join(sides)


def _batches(cursor: SSCursor, columns: list[Column], schema: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    count = 0
    while rows := cursor.fetchmany(min(_FETCH_ROWS, batch_rows - count)):
        arrays = [column.array(values) for column, values in zip(columns, zip(*rows, strict=True), strict=True)]
        held.append(pa.record_batch(arrays, schema=schema))
        count += len(rows)
        if count == batch_rows:
            yield pa.concat_batches(held)
            held, count = [], 0
    if held:
        yield pa.concat_batches(held)


def _type_name(kind: pa.DataType) -> str:
    return NAMES.get(kind) or decimal_name(kind)
