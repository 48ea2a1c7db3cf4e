"""What rows cost: as much as there are, and nothing once they are dropped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sqlflow_elastic.elastic.tables.memory import lazy_zeros, release
from sqlflow_elastic.elastic.tables.sharding import SHARDS
from sqlflow_elastic.elastic.tables.table import Table
from sqlflow_elastic.models.tables.spec import Distribution, Initial, Part, Range, TableSpec
from tests.elastic.tables.specs import SGD

MEBI = 1 << 20


def wide(rows: int) -> Table:
    part = Part(16, Initial(Distribution.CONSTANT), 0)
    return Table(TableSpec("t", (Range("r", rows, (part,)),), SGD, "float32", 0))


def test_three_of_fifty_million_rows_take_what_three_take() -> None:
    served = wide(50_000_000)
    ids = np.unique(np.random.default_rng(0).integers(0, 50_000_000, 3_000_000))
    before = resident()
    for piece in np.array_split(ids, 30):
        served.find(piece)
    grown = resident() - before
    assert len(served) == len(ids)
    assert 0.8 * served.memory < grown < 1.1 * served.memory + 32 * MEBI
    assert served.memory < 50_000_000 * 64 / 5


def test_dropped_rows_are_given_back_and_dropping_takes_no_room() -> None:
    served = wide(1_000_000)
    for piece in np.array_split(np.arange(1_000_000), 10):
        served.find(piece)
    before = resident()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
    peak = status("VmHWM")
    served.keep(np.arange(SHARDS) < SHARDS // 4)
    assert status("VmHWM") - peak < 24 * MEBI  # of 64 MiB of rows
    assert before - resident() > 0.6 * 64 * MEBI
    served.clear()
    assert before - resident() > 0.9 * 64 * MEBI


def test_what_was_released_is_zero_and_the_rest_is_not() -> None:
    for first in (0, 1, 1023, 1024, 1500, 4999, 5000):
        array = lazy_zeros((5000, 3), np.float32, filled=True)
        array[...] = 1.0
        release(array, first)
        assert (array[:first] == 1.0).all()
        assert not array[first:].any()
        array[first:] = 2.0
        assert (array[first:] == 2.0).all()


def test_an_empty_array_can_be_released() -> None:
    release(lazy_zeros((0, 3), np.float32), 0)


def test_no_address_space_is_no_memory() -> None:
    with pytest.raises(MemoryError, match="no room for"):
        lazy_zeros((1 << 50, 16), np.float32)


def resident() -> int:
    return status("RssAnon")


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(lines.split(f"{name}:")[1].split()[0]) << 10
