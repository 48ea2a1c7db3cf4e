"""Tables for tests."""

from __future__ import annotations

from typing import Any

from sqlflow_elastic.models.tables.spec import Distribution, Initial, Part, Range, RowOptimizer, TableSpec

SGD = RowOptimizer("sgd", {"momentum": 0.0, "nesterov": 0.0}, ())
ADAGRAD = RowOptimizer("adagrad", {"epsilon": 1e-7}, (0.1,))


def part(width: int, stream: int, distribution: Distribution = Distribution.UNIFORM) -> Part:
    return Part(width, Initial(distribution, -1.0, 1.0), stream)


def table(
    rows: tuple[int, ...] = (30, 50), optimizer: RowOptimizer = ADAGRAD, dtype: str = "float64", **changes: Any
) -> TableSpec:
    """Categories whose rows have two parts of 3 and 1 numbers."""
    ranges = tuple(Range(f"r{i}", count, (part(3, 2 * i), part(1, 2 * i + 1))) for i, count in enumerate(rows))
    return TableSpec(**{"name": "t", "ranges": ranges, "optimizer": optimizer, "dtype": dtype, "seed": 7, **changes})
