"""One database of its own for each test, on each of the four engines."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlflow_elastic.datasource import DataSource, open_source
from tests.services import MYSQL_VARIABLE, POSTGRESQL_VARIABLE

KINDS = ["duckdb", "sqlite", "mysql", "postgresql"]
SERVERS = {"mysql": MYSQL_VARIABLE, "postgresql": POSTGRESQL_VARIABLE}


def server_url(kind: str) -> str:
    """The URL of the test server; skips the test without one."""
    variable = SERVERS[kind]
    if variable not in os.environ:
        pytest.skip(f"{variable} is not set: run under python -m tests.services run --")
    return os.environ[variable]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def url(kind: str, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    if kind not in SERVERS:
        yield f"{kind}:///{tmp_path}/data.db"
        return
    server = server_url(kind)
    name = f"test_{uuid.uuid4().hex}"
    with open_source(server) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{server.rpartition('/')[0]}/{name}"
        finally:
            admin.execute(f"DROP DATABASE {name}" + (" WITH (FORCE)" if kind == "postgresql" else ""))


@pytest.fixture
def source(url: str) -> Iterator[DataSource]:
    with open_source(url) as opened:
        yield opened
