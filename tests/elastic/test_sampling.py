"""The order of samples: every row once an epoch, from (rows, seed, epoch) alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sqlflow_elastic.elastic.sampling import WINDOW, SampleOrder, batch_indices

WINDOWS = st.sampled_from([(8, 4), (16, 4), (64, 16), (1024, 1024)])


@given(st.integers(1, 300), st.integers(0, 2**63), st.integers(0, 5), WINDOWS)
def test_an_epoch_takes_every_row_once(rows: int, seed: int, epoch: int, window: tuple[int, int]) -> None:
    order = SampleOrder(rows, seed, window=window[0], block=window[1])
    assert sorted(order.take(epoch, 0, rows)) == list(range(rows))


@given(st.integers(1, 300), st.integers(0, 99), WINDOWS, st.data())
def test_a_piece_is_the_same_as_in_the_whole(
    rows: int, seed: int, window: tuple[int, int], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, rows))
    stop = data.draw(st.integers(start, rows + 10))
    whole = SampleOrder(rows, seed, window=window[0], block=window[1]).take(3, 0, rows)
    piece = SampleOrder(rows, seed, window=window[0], block=window[1]).take(3, start, stop)
    assert piece.tolist() == whole[start:stop].tolist()


def test_the_order_depends_on_seed_and_epoch() -> None:
    orders = [batch_indices(50, seed, epoch, 0, 10, 5).tolist() for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4


def test_the_last_batch_has_the_rows_that_are_left() -> None:
    assert len(batch_indices(10, 0, 0, 0, 3, 4)) == 10
    assert len(batch_indices(10, 0, 0, 2, 1, 4)) == 2


def test_beyond_a_window_a_step_reads_from_one_window_of_blocks_only() -> None:
    order = SampleOrder(1000, 0, window=64, block=16)
    rows = order.take(0, 0, 64)
    assert len(set(rows // 16)) == 4
    assert rows.tolist() != sorted(rows)


def test_one_pass_over_a_map_larger_than_a_window_meets_every_row_once(tmp_path: Path) -> None:
    count = WINDOW + WINDOW // 2 + 7
    rows = np.memmap(tmp_path / "rows", np.int32, "w+", shape=(count,))
    rows[:] = np.arange(count)
    seen = np.zeros(count, np.int8)
    order = SampleOrder(count, 1)
    for start in range(0, count, 500_000):
        seen[rows[order.take(0, start, start + 500_000)]] += 1
    assert (seen == 1).all()
