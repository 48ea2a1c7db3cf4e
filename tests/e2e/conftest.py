"""The real tables on a real MariaDB, and sessions on it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

import sqlflow_elastic
from sqlflow_elastic.session import Session

DATASETS = "SQLFLOW_ELASTIC_TEST_DATASETS"
MYSQL = "SQLFLOW_ELASTIC_TEST_MYSQL"


@pytest.fixture(scope="session")
def mysql_url() -> str:
    url = os.environ.get(MYSQL)
    if not url:
        pytest.skip(f"{MYSQL} names no MariaDB server (make test starts one)")
    return url


@pytest.fixture(scope="session")
def datasets() -> Path:
    folder = os.environ.get(DATASETS)
    if not folder:
        pytest.skip(f"{DATASETS} names no folder with the example tables as MySQL scripts")
    return Path(folder)


def load_script(url: str, script: Path) -> None:
    """Run a MySQL script with the real client; the password goes through the environment."""
    parts = make_url(url)
    command = ["mariadb", "--protocol=tcp", f"--host={parts.host}", f"--port={parts.port}", f"--user={parts.username}"]
    with script.open("rb") as file:
        environment = {**os.environ, "MYSQL_PWD": parts.password or ""}
        subprocess.run(command, stdin=file, env=environment, check=True, timeout=120)


@pytest.fixture(scope="module")
def session(mysql_url: str) -> Iterator[Session]:
    with sqlflow_elastic.connect(mysql_url) as session:
        yield session
