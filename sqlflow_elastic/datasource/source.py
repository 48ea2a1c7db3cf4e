"""From a URL to its data source; a driver is imported only when its kind of URL is opened."""

from __future__ import annotations

from sqlflow_elastic.datasource.base import DataSource
from sqlflow_elastic.datasource.urls import kind_of


def open_source(url: str) -> DataSource:
    """Connect to the database behind a URL.

    ``duckdb://`` (in memory), ``duckdb:///file.db``, a path ending in .duckdb or .db, ``sqlite:///file``,
    ``mysql://user:password@host:port/db``, SQLFlow's ``mysql://user:password@tcp(host:port)/db``, and
    ``postgresql://user:password@host:port/db``.

    Raises: DataSourceError: the URL is none of these, or the database cannot be reached.
    """
    kind = kind_of(url)
    if kind == "sqlite":
        from sqlflow_elastic.datasource.sqlite import SQLite

        return SQLite(url)
    if kind == "mysql":
        from sqlflow_elastic.datasource.mysql import MySQL

        return MySQL(url)
    if kind == "postgresql":
        from sqlflow_elastic.datasource.postgresql import PostgreSQL

        return PostgreSQL(url)
    from sqlflow_elastic.datasource.duckdb import DuckDB

    return DuckDB(url)
