"""Data sources: the databases that programs select from and write to.

`open_source(url)` gives the one behind a URL; `sqlflow_elastic.datasource.base` says what all of them guarantee.
"""

from __future__ import annotations

from sqlflow_elastic.datasource.base import BATCH_ROWS, CONNECT_SECONDS, DataSource, Mark, RowStream
from sqlflow_elastic.datasource.query import Query, write_snapshot
from sqlflow_elastic.datasource.source import open_source
from sqlflow_elastic.datasource.urls import mask_url

__all__ = [
    "BATCH_ROWS",
    "CONNECT_SECONDS",
    "DataSource",
    "Mark",
    "Query",
    "RowStream",
    "mask_url",
    "open_source",
    "write_snapshot",
]
