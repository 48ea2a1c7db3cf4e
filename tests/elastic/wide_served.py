"""``python -m tests.elastic.wide_served``: how far float64 weights of worlds of any size are from each other."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tests.elastic.tables.servers import running
from tests.elastic.test_served import Training


def trained(workers: int, servers: int) -> dict[str, Any]:
    names = [f"ps-{i}" for i in range(servers)]
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), *names) as started:
        training = Training(started, workers, "adam")
        training.run(range(workers))
        return training.weights()


def difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest, by the largest weight of its variable."""
    return max(float(np.abs(one[name] - other[name]).max() / np.abs(one[name]).max()) for name in one)


if __name__ == "__main__":
    keras.config.set_floatx("float64")
    alone = trained(1, 1)
    sys.stdout.write(f"{max(difference(alone, trained(*sizes)) for sizes in ((1, 2), (2, 1), (4, 3)))}\n")
