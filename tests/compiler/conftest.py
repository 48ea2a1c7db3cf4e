"""One DuckDB with the tables and trained models that compiler tests read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlflow_elastic.datasource import DataSource, open_source
from tests.compiler.database import fill


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataSource]:
    with open_source("duckdb://") as source:
        fill(source, Path(tmp_path_factory.mktemp("models")))
        yield source
