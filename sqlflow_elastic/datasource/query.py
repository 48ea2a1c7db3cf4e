"""A SELECT's rows on their way into a snapshot."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

from sqlflow_elastic.datasource.base import DataSource
from sqlflow_elastic.datasource.source import open_source
from sqlflow_elastic.elastic.snapshot import Snapshot, SnapshotWriter
from sqlflow_elastic.errors import DataSourceError

#: The environment variable with the URL that a `Query` without one reads from.
DATASOURCE_VARIABLE = "SQLFLOW_ELASTIC_DATASOURCE"


def write_snapshot(
    source: DataSource, select: str, into: str, on_rows: Callable[[int], None] | None = None
) -> Snapshot:
    """Read a SELECT once, in bounded memory, into a new snapshot.

    Args:
        source: the database.
        select: the SELECT, sent unchanged.
        into: storage URL or local folder of the snapshot.
        on_rows: called after every batch with the number of rows written so far.

    Raises:
        DataSourceError: the database refused, or was lost on the way; no snapshot is left then.
        DataError: there is a snapshot already.
    """
    with (
        source.query(select) as stream,
        SnapshotWriter(into, stream.schema, select) as writer,
        ThreadPoolExecutor(1) as pool,
    ):
        # One batch is written while the next one is fetched.
        writing: deque[Future[None]] = deque()
        for batch in chain(stream.batches, [None]):
            if writing:
                writing.popleft().result()
                if on_rows is not None:
                    on_rows(writer.rows)
            if batch is not None:
                writing.append(pool.submit(writer.write, batch))
    return Snapshot.open(into)


@dataclass(frozen=True)
class Query:
    """A SELECT on a data source, as a generated program holds it: without credentials.

    Attributes:
        select: the SELECT.
        url: the data source; None: what the environment variable ``SQLFLOW_ELASTIC_DATASOURCE`` names.
    """

    select: str
    url: str | None = None

    def snapshot(self, into: str, on_rows: Callable[[int], None] | None = None) -> Snapshot:
        """Read the rows into a new snapshot; see `write_snapshot`."""
        url = self.url or os.environ.get(DATASOURCE_VARIABLE)
        if not url:
            raise DataSourceError(f"no data source: set {DATASOURCE_VARIABLE} to its URL")
        with open_source(url) as source:
            return write_snapshot(source, self.select, into, on_rows)
