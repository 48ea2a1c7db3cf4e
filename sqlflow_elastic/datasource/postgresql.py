"""PostgreSQL, through psycopg's wrapper of libpq.

A SELECT is described first, for its types and its errors, then read with ``COPY (SELECT …) TO STDOUT`` as CSV, which
Arrow parses: several times faster than fetching rows, and streaming by nature.
"""

from __future__ import annotations

import contextlib
import logging
import re
import select
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import ClassVar

import psycopg
import pyarrow as pa
from psycopg import errors, pq
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from sqlflow_elastic.datasource.arrow import regrouped
from sqlflow_elastic.datasource.base import BATCH_ROWS, CONNECT_SECONDS, Mark, RowStream
from sqlflow_elastic.datasource.engine import Engine
from sqlflow_elastic.datasource.postgresql_types import (
    arrow_type,
    batch_from_csv,
    batch_from_texts,
    batch_to_csv,
    type_name,
)
from sqlflow_elastic.datasource.urls import mask_url, server_url
from sqlflow_elastic.errors import DataSourceError

_READ_BYTES = 1 << 24
_LOAD_BYTES = 1 << 22
_LOCK_SECONDS = 60

# What it says there comes as an exception as well; without a handler Python would print it.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

#: Statements with rows that COPY takes; others (SHOW, EXPLAIN, CALL …) have few rows and are read as they come.
_COPIED = re.compile(
    r"(\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with|values|table|insert|update|delete|merge)\b", re.IGNORECASE | re.DOTALL
)
#: The last one: the name is of another database.
_NO_SUCH_TABLE = (errors.UndefinedTable, errors.InvalidSchemaName, errors.FeatureNotSupported)
_COPYING = {pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_BOTH}

Connection = psycopg.Connection[tuple[object, ...]]


class PostgreSQL(Engine[Connection]):
    """A PostgreSQL server. Options of the URL are libpq's."""

    dialect = "postgres"
    driver_errors: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)
    name_parts = ("database", "schema", "table")

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(server_url(url)).set(drivername="postgresql+psycopg")
            _, self._options = parsed.get_dialect()().create_connect_args(parsed)
        except (ArgumentError, ValueError):
            raise DataSourceError(f"cannot read the URL {mask_url(url)}") from None
        super().__init__(url)

    def _connect(self) -> Connection:
        connection = psycopg.connect(
            **{**self._options, "connect_timeout": int(CONNECT_SECONDS), "client_encoding": "utf8", "autocommit": True}
        )
        # How dates and bytes are written; the order of day and month in the user's literals stays.
        connection.execute("SET datestyle = ISO; SET bytea_output = hex")
        return connection

    def _disconnect(self, connection: Connection) -> None:
        connection.close()

    def _alive(self, connection: Connection) -> bool:
        try:
            connection.execute("")
        except psycopg.Error:
            return False
        return True

    def _is_missing(self, error: Exception) -> bool:
        return isinstance(error, _NO_SUCH_TABLE)

    def _interrupt(self, connection: Connection) -> None:
        connection.cancel_safe(timeout=CONNECT_SECONDS)

    def _run(self, connection: Connection, sql: str, batch_rows: int, cleanup: ExitStack) -> RowStream | int | None:
        wire = connection.pgconn
        wire.send_prepare(b"", sql.encode())
        _results(wire)
        wire.send_describe_prepared(b"")
        described = _results(wire)
        if described.nfields and _COPIED.match(sql):
            schema = _schema(described)
            wire.send_query(b"COPY (%s\n) TO STDOUT (FORMAT csv)" % sql.rstrip().rstrip(";").encode())
            _result(wire)
            cleanup.callback(self._end, connection)
            return RowStream(schema, _copied(wire, schema, batch_rows))
        wire.send_query_prepared(b"", None)
        result = _results(wire)
        if result.status in _COPYING:
            connection.close()
            raise psycopg.NotSupportedError("COPY from or to the client is not available here")
        if result.nfields:
            schema = _schema(result)
            return RowStream(schema, _fetched(result, schema, batch_rows))
        return result.command_tuples

    def _end(self, connection: Connection) -> None:
        """End a COPY, read to the end or not."""
        wire = connection.pgconn
        if wire.transaction_status != pq.TransactionStatus.ACTIVE:
            return
        with contextlib.suppress(psycopg.Error):
            self._interrupt(connection)
            for _ in _copy_rows(wire):
                pass
            _results(wire)

    def tables(self) -> list[str]:
        """See `DataSource.tables`."""
        rows = self._rows(
            "SELECT CASE WHEN table_schema = current_schema() THEN table_name"
            " ELSE concat(table_schema, '.', table_name) END AS name FROM information_schema.tables"
            " WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY name"
        )
        return [row["name"] for row in rows]

    def _comment(self, table: tuple[str, ...]) -> str | None:
        name = self.literal(self.quote(table))
        comment: str | None = self._rows(f"SELECT obj_description(to_regclass({name}), 'pg_class') AS c")[0]["c"]
        return comment

    def _comments(self) -> list[tuple[tuple[str, ...], str]]:
        marks = ", ".join(self.literal(mark.value) for mark in Mark)
        rows = self._rows(
            "SELECT nspname AS place, relname AS name, pg_table_is_visible(pg_class.oid) AS here, description"  # noqa: S608
            " FROM pg_description JOIN pg_class ON pg_class.oid = objoid AND classoid = 'pg_class'::regclass"
            " JOIN pg_namespace ON pg_namespace.oid = relnamespace"
            f" WHERE objsubid = 0 AND description IN ({marks})"
        )
        return [((row["name"],) if row["here"] else (row["place"], row["name"]), row["description"]) for row in rows]

    def _load(
        self,
        connection: Connection,
        table: tuple[str, ...],
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        mark: Mark,
    ) -> int:
        name = f"sqlflow_elastic_aside_{uuid.uuid4().hex}"
        aside = self.quote((*table[:-1], name))
        columns = ", ".join(f"{self.quote((field.name,))} {type_name(field.type)}" for field in schema)
        count = 0
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'".encode())
            cursor.execute(f"CREATE TABLE {aside} ({columns})".encode())
            with cursor.copy(f"COPY {aside} FROM STDIN (FORMAT csv)".encode()) as copy:
                for batch in regrouped(batches, schema, BATCH_ROWS, _LOAD_BYTES):
                    copy.write(batch_to_csv(batch))
                    count += batch.num_rows
            cursor.execute(f"COMMENT ON TABLE {aside} IS {self.literal(mark.value)}".encode())
            # One after the other: two that both find no table would both give theirs the name.
            name_lock = f"hashtextextended({self.literal(self.quote(table))}, 0)"
            cursor.execute(f"SELECT pg_advisory_xact_lock({name_lock})".encode())
            self._check_replaceable(table)
            cursor.execute(f"DROP TABLE IF EXISTS {self.quote(table)}".encode())
            cursor.execute(f"ALTER TABLE {aside} RENAME TO {self.quote(table[-1:])}".encode())
        return count


def _schema(result: pq.abc.PGresult) -> pa.Schema:
    return pa.schema(
        [
            ((result.fname(i) or b"").decode(), arrow_type(result.ftype(i), result.fmod(i)))
            for i in range(result.nfields)
        ]
    )


def _wait(wire: pq.abc.PGconn, events: int) -> None:
    """Wait for the server without holding Python's lock, so that other threads can cancel."""
    poll = select.poll()
    poll.register(wire.socket, events)
    poll.poll()
    wire.consume_input()


def _result(wire: pq.abc.PGconn) -> pq.abc.PGresult | None:
    """The next result of what was sent. Raises: psycopg.Error: it is an error."""
    while wire.flush():
        _wait(wire, select.POLLIN | select.POLLOUT)
    while wire.is_busy():
        _wait(wire, select.POLLIN)
    result = wire.get_result()
    if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
        error = errors.error_from_result(result)
        while wire.get_result() is not None:
            pass
        raise error
    return result


def _results(wire: pq.abc.PGconn) -> pq.abc.PGresult:
    """The only result of what was sent."""
    first = result = _result(wire)
    while result is not None and result.status not in _COPYING:
        result = _result(wire)
    if first is None:
        raise psycopg.OperationalError("the server gave no answer")
    return first


def _copy_rows(wire: pq.abc.PGconn) -> Iterator[memoryview]:
    """The rows of a COPY, to its end. The loop over all rows of a table: it is kept short."""
    receive = wire.get_copy_data
    while True:
        size, row = receive(1)
        if size > 0:
            yield row
        elif size == 0:
            _wait(wire, select.POLLIN)
        else:
            return


def _copied(wire: pq.abc.PGconn, schema: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    # Copied at once: many rows that are kept as objects would keep Python's collector busy.
    data = bytearray()
    count = longest = 0
    for row in _copy_rows(wire):
        data += row
        count += 1
        if len(row) > longest:
            longest = len(row)
        if count == batch_rows or len(data) >= _READ_BYTES:
            yield batch_from_csv(data, longest, schema)
            data = bytearray()
            count = longest = 0
    _results(wire)
    if data:
        yield batch_from_csv(data, longest, schema)


def _fetched(result: pq.abc.PGresult, schema: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, result.ntuples, batch_rows):
        stop = min(start + batch_rows, result.ntuples)
        yield batch_from_texts(
            [[result.get_value(row, column) for row in range(start, stop)] for column in range(result.nfields)], schema
        )
