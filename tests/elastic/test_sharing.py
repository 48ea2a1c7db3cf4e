"""Members of a world split rows without a gap and without an overlap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlflow_elastic.elastic.sharing import bounds


@given(st.integers(0, 10**9), st.lists(st.floats(0, 1e6), min_size=1, max_size=40).filter(lambda s: sum(s) > 1e-3))
def test_parts_cover_all_rows_in_order_and_are_off_by_less_than_one_row(rows: int, shares: list[float]) -> None:
    ends = bounds(rows, len(shares), shares)
    assert ends[0] == 0
    assert ends[-1] == rows
    for rank, share in enumerate(shares):
        assert abs(ends[rank + 1] - ends[rank] - rows * share / sum(shares)) < 1 + 1e-6 * rows / 10**6


def test_without_shares_parts_are_equal_and_lower_ranks_take_what_is_left_over() -> None:
    assert bounds(10, 4) == [0, 3, 6, 8, 10]
    assert bounds(2, 4) == [0, 1, 2, 2, 2]
    assert bounds(0, 2) == [0, 0, 0]


def test_the_largest_remainder_is_rounded_up() -> None:
    assert bounds(10, 3, (0.55, 0.28, 0.17)) == [0, 5, 8, 10]
    assert bounds(2, 2, (0.1, 0.9)) == [0, 0, 2]
    assert bounds(7, 2, (0.0, 1.0)) == [0, 0, 7]


@pytest.mark.parametrize("shares", [(1.0,), (0.5, -0.5), (0.0, 0.0), (float("nan"), 1.0), (float("inf"), 1.0)])
def test_shares_that_do_not_split_are_refused(shares: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="a world of 2 is not split by the shares"):
        bounds(10, 2, shares)
