"""DuckDB, the embedded default: Arrow in and out, and SELECT from CSV and Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
from pyarrow import types

from sqlflow_elastic.datasource.arrow import conform, contract_schema, regrouped
from sqlflow_elastic.datasource.base import BATCH_ROWS, Mark, RowStream
from sqlflow_elastic.datasource.engine import Engine
from sqlflow_elastic.datasource.urls import file_of

#: Types whose Arrow form the contract takes; all others (lists, structs, intervals, …) are cast to text by the engine.
_PLAIN = {
    *("boolean", "tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger", "ubigint"),
    *("hugeint", "float", "double", "decimal", "varchar", "blob", "date", "time", "uuid", "enum", "sqlnull"),
    *("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone"),
}
_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int64(): "BIGINT",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.time64("us"): "TIME",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", tz="UTC"): "TIMESTAMPTZ",
}
_CACHE = "512MB"
_LONG_READ_BYTES = 64 << 20
_HERE = "database_name = current_database() AND schema_name = current_schema()"


class DuckDB(Engine[duckdb.DuckDBPyConnection]):
    """A DuckDB file, or a database in memory. Options of the URL are DuckDB's own settings.

    A file's pages are cached in 512 MB at most, where DuckDB would take 80 % of the machine's memory: a table that is
    read once needs no more, and the training beside it does. ``?memory_limit=8GB`` gives heavy joins more.
    """

    dialect = "duckdb"
    # Errors in the middle of a stream come through Arrow, as OSError.
    driver_errors: ClassVar[tuple[type[Exception], ...]] = (duckdb.Error, OSError, pa.ArrowException)
    name_parts = ("catalog", "schema", "table")

    def __init__(self, url: str) -> None:
        self._path, options = file_of(url)
        # Names in SQL are the database's; they must never find a Python variable of ours.
        self._options: dict[str, str | bool] = {"python_enable_replacements": False, **options}
        if self._path:
            self._options.setdefault("memory_limit", _CACHE)
        self._root: duckdb.DuckDBPyConnection | None = None
        self._worker = ThreadPoolExecutor(1, "duckdb")
        super().__init__(url)

    def _connect(self) -> duckdb.DuckDBPyConnection:
        if self._root is None:
            self._root = duckdb.connect(self._path or ":memory:", config=self._options)
        return self._root.cursor()

    def _disconnect(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.close()

    def close(self) -> None:
        """See `DataSource.close`."""
        super().close()
        self._worker.shutdown()
        if self._root is not None:
            self._root.close()

    def _alive(self, connection: duckdb.DuckDBPyConnection) -> bool:
        return True

    def _is_missing(self, error: Exception) -> bool:
        return isinstance(error, duckdb.CatalogException) and "does not exist" in str(error)

    def _interrupt(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.interrupt()

    def _apart(self, connection: duckdb.DuckDBPyConnection, call: Callable[..., Any], *arguments: object) -> Any:
        """Do what may take long in another thread: waiting for it, this one hears of Ctrl-C."""
        done = self._worker.submit(call, *arguments)
        try:
            return done.result()
        except KeyboardInterrupt:
            connection.interrupt()
            wait([done])
            raise

    def _run(
        self, connection: duckdb.DuckDBPyConnection, sql: str, batch_rows: int, cleanup: ExitStack
    ) -> RowStream | int | None:
        statements = connection.extract_statements(sql)
        relation = self._apart(connection, connection.sql, sql)
        if relation is None or not statements:
            return None
        expected = statements[-1].expected_result_type
        if duckdb.ExpectedResultType.QUERY_RESULT not in expected:
            return None
        if duckdb.ExpectedResultType.CHANGED_ROWS in expected and relation.columns == ["Count"]:
            counts = relation.fetchall()
            return int(counts[0][0]) if counts else None
        return self._stream(connection, relation, relation.columns, batch_rows, cleanup)

    def _stream(
        self,
        connection: duckdb.DuckDBPyConnection,
        relation: duckdb.DuckDBPyRelation,
        names: list[str],
        batch_rows: int,
        cleanup: ExitStack,
    ) -> RowStream:
        """The rows under the names of the original SELECT: a relation over it renames doubled ones."""
        if any(kind.id not in _PLAIN for kind in relation.types):
            relation = relation.project(
                ", ".join(
                    f"{f'#{i}' if kind.id in _PLAIN else f'CAST(#{i} AS VARCHAR)'} AS {self.quote((name,))}"
                    for i, (name, kind) in enumerate(zip(relation.columns, relation.types, strict=True), start=1)
                )
            )
        reader = self._apart(connection, relation.to_arrow_reader, batch_rows)
        cleanup.callback(reader.close)
        schema = contract_schema(pa.schema(zip(names, reader.schema.types, strict=True)))
        batches = iter(lambda: self._apart(connection, next, reader, None), None)
        return RowStream(schema, self._conformed(connection, batches, schema))

    def _conformed(
        self, connection: duckdb.DuckDBPyConnection, batches: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        read = 0
        for batch in batches:
            read += batch.nbytes
            if batch.num_rows:
                yield conform(batch, schema)
        if self._path and read > _LONG_READ_BYTES:
            self._forget_pages(connection)

    def _forget_pages(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Give back the memory of the cache: what a job reads is read once, and the job needs the room."""
        ((limit,),) = connection.sql("SELECT current_setting('memory_limit')").fetchall()
        with suppress(duckdb.OutOfMemoryException):  # some are in use and stay
            connection.execute("SET memory_limit = '1MB'")
        connection.execute(f"SET memory_limit = '{limit}'")

    def probe(self, select: str, rows: int) -> pa.Table:
        """See `DataSource.probe`. The limit is put around the parsed query, so that errors point into its text."""
        with ExitStack() as cleanup:
            running = cleanup.enter_context(self._statement())
            with self._translated(running):
                relation = running.connection.sql(select)
                stream = self._stream(running.connection, relation.limit(rows), relation.columns, BATCH_ROWS, cleanup)
                return pa.Table.from_batches(stream.batches, stream.schema)

    def tables(self) -> list[str]:
        """See `DataSource.tables`."""
        rows = self._rows(
            "SELECT CASE WHEN table_schema = current_schema() THEN table_name"
            " ELSE concat(table_schema, '.', table_name) END AS name FROM information_schema.tables"
            " WHERE table_catalog = current_database() ORDER BY name"
        )
        return [row["name"] for row in rows]

    def _comment(self, table: tuple[str, ...]) -> str | None:
        *scope, name = (self.literal(part.lower()) for part in table)
        if not scope:
            where = _HERE
        elif len(scope) == 1:
            where = (
                f"({scope[0]} = lower(schema_name) AND database_name = current_database()"
                f" OR {scope[0]} = lower(database_name) AND schema_name = 'main')"
            )
        else:
            where = f"lower(database_name) = {scope[0]} AND lower(schema_name) = {scope[1]}"
        rows = self._rows(f"SELECT comment FROM duckdb_tables() WHERE lower(table_name) = {name} AND {where}")  # noqa: S608
        return rows[0]["comment"] if rows else None

    def _comments(self) -> list[tuple[tuple[str, ...], str]]:
        rows = self._rows(
            f"SELECT {_HERE} AS here, schema_name, table_name, comment FROM duckdb_tables()"  # noqa: S608
            " WHERE comment IS NOT NULL AND database_name = current_database()"
        )
        return [
            ((row["table_name"],) if row["here"] else (row["schema_name"], row["table_name"]), row["comment"])
            for row in rows
        ]

    def _load(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: tuple[str, ...],
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        mark: Mark,
    ) -> int:
        name = self.quote(table)
        columns = ", ".join(f"{self.quote((field.name,))} {_name(field.type)}" for field in schema)
        rows = 0
        connection.begin()
        try:
            connection.execute(f"CREATE OR REPLACE TABLE {name} ({columns})")
            for batch in regrouped(batches, schema, BATCH_ROWS):
                connection.register("sqlflow_elastic_rows", pa.Table.from_batches([batch]))
                connection.execute(f"INSERT INTO {name} SELECT * FROM sqlflow_elastic_rows")  # noqa: S608
                connection.unregister("sqlflow_elastic_rows")
                rows += batch.num_rows
            connection.execute(f"COMMENT ON TABLE {name} IS {self.literal(mark.value)}")
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        return rows


def _name(kind: pa.DataType) -> str:
    if types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})" if kind.precision <= 38 else "VARCHAR"
    return _NAMES[kind]
