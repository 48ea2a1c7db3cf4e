"""The clusters that the contract of `cluster.base` is tested on.

Each is tested from both sides: as the process sees it that holds it, and as a master does that is connected.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlflow_elastic.cluster import LocalCluster, connect
from tests.cluster.runner import SLOTS, Runner

GRACE = 0.3


@pytest.fixture(params=["held", "connected"])
def runner(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Runner]:
    with LocalCluster(preload=(), slots=SLOTS, grace=GRACE) as cluster:
        if request.param == "held":
            yield Runner(cluster, tmp_path)
        else:
            with connect(cluster.address) as connected:
                yield Runner(connected, tmp_path)
