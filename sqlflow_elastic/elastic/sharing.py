"""How the members of a world split rows: contiguous parts in the order of their ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence


def bounds(rows: int, size: int, shares: Sequence[float] = ()) -> list[int]:
    """Where each rank's part begins, and ``rows`` at the end: rank r has the rows ``[bounds[r], bounds[r + 1])``.

    Rounded by largest remainder, the lower rank first where remainders are equal. Parts may be empty.

    Args:
        rows: to split.
        size: of the world.
        shares: each rank's, in any unit; empty: equal ones.

    Raises:
        ValueError: shares that are not one number of at least 0 a rank, some above 0.
    """
    shares = shares or (1.0,) * size
    total = math.fsum(shares)
    if len(shares) != size or min(shares) < 0 or not 0 < total < math.inf:
        raise ValueError(f"a world of {size} is not split by the shares {tuple(shares)}")
    quotas = [rows * share / total for share in shares]
    parts = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(size), key=lambda rank: (parts[rank] - quotas[rank], rank))
    for rank in by_remainder[: rows - sum(parts)]:
        parts[rank] += 1
    result = [0]
    for part in parts:
        result.append(result[-1] + part)
    return result
