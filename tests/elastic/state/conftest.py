from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlflow_elastic.elastic.state import StateStore, open_store
from tests.services import ETCD_VARIABLE


@pytest.fixture
def etcd_url() -> str:
    """An etcd, and a prefix in it that nobody else uses."""
    if ETCD_VARIABLE not in os.environ:
        pytest.skip(f"{ETCD_VARIABLE} names no etcd")
    return f"{os.environ[ETCD_VARIABLE]}/{uuid.uuid4().hex}"


@pytest.fixture(params=["embedded", "etcd"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty state store."""
    if request.param == "embedded":
        return f"file://{tmp_path}/state.db"
    url: str = request.getfixturevalue("etcd_url")
    return url


@pytest.fixture
def store(url: str) -> Iterator[StateStore]:
    with open_store(url) as store:
        yield store
