"""First numbers of rows: distributed as they should be, and the same whoever asks, in whatever order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sqlflow_elastic.models.tables.initial import initial_rows
from sqlflow_elastic.models.tables.spec import Distribution, Initial, Part

IDS = np.arange(20_000)
RANDOM = [Distribution.UNIFORM, Distribution.NORMAL, Distribution.TRUNCATED]
MEAN, DEVIATION = -0.3, 0.5


def part(distribution: Distribution, width: int = 8, stream: int = 2) -> Part:
    return Part(width, Initial(distribution, MEAN, DEVIATION), stream)


def below(distribution: Distribution, x: NDArray[Any]) -> NDArray[Any]:
    """The exact share of numbers below x."""
    if distribution is Distribution.UNIFORM:
        return np.clip((x - MEAN) / (DEVIATION - MEAN), 0.0, 1.0)
    normal = np.array([0.5 * math.erfc(-(each - MEAN) / DEVIATION / math.sqrt(2)) for each in x])
    if distribution is Distribution.NORMAL:
        return normal
    tail = 0.5 * math.erfc(math.sqrt(2))
    return np.clip((normal - tail) / (1 - 2 * tail), 0.0, 1.0)


@pytest.mark.parametrize("distribution", RANDOM)
def test_numbers_are_distributed_as_they_should_be(distribution: Distribution) -> None:
    numbers = np.sort(initial_rows(part(distribution), 5, IDS, "float64").ravel())
    exact = below(distribution, numbers)
    share = np.arange(len(numbers) + 1) / len(numbers)
    distance = max((share[1:] - exact).max(), (exact - share[:-1]).max())
    assert distance < 1.95 / math.sqrt(len(numbers))  # Kolmogorov and Smirnov: 1 in 1,000 is further


@pytest.mark.parametrize("distribution", RANDOM)
def test_numbers_do_not_hang_together(distribution: Distribution) -> None:
    numbers = initial_rows(part(distribution), 5, IDS, "float64")
    limit = 4.5 / math.sqrt(len(IDS))
    assert np.abs(np.corrcoef(numbers.T) - np.eye(8)).max() < limit
    assert abs(np.corrcoef(numbers[1:].ravel(), numbers[:-1].ravel())[0, 1]) < limit
    for other in (
        initial_rows(part(distribution), 6, IDS, "float64"),
        initial_rows(part(distribution, stream=3), 5, IDS, "float64"),
    ):
        assert abs(np.corrcoef(numbers.ravel(), other.ravel())[0, 1]) < limit
        assert not np.isin(numbers, other).any()


def test_a_truncated_normal_ends_at_two_deviations() -> None:
    numbers = initial_rows(part(Distribution.TRUNCATED), 5, np.arange(200_000), "float64")
    assert np.abs(numbers - MEAN).max() <= 2 * DEVIATION * (1 + 1e-6)
    assert np.abs(numbers - MEAN).max() > 1.999 * DEVIATION


@pytest.mark.parametrize("distribution", Distribution)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_number_depends_on_its_place_only(distribution: Distribution, dtype: str) -> None:
    whole = initial_rows(part(distribution), -5, IDS, dtype)
    assert whole.dtype == dtype
    order = np.random.default_rng(0).permutation(IDS)
    np.testing.assert_array_equal(initial_rows(part(distribution), -5, order, dtype), whole[order])
    pieces = [initial_rows(part(distribution), -5, piece, dtype) for piece in np.array_split(IDS, 7)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    narrow = initial_rows(part(distribution, width=3), -5, IDS, dtype)
    np.testing.assert_array_equal(narrow, whole[:, :3])


def test_ids_may_be_large_or_none() -> None:
    large = initial_rows(part(Distribution.TRUNCATED), 1, np.array([2**40, 2**62]), "float32")
    assert len(np.unique(large)) == large.size
    assert initial_rows(part(Distribution.UNIFORM), 1, np.array([], np.int64), "float32").shape == (0, 8)
