"""For which step rows are wanted, compiled: one pass over the rows of a lookup."""

from __future__ import annotations

from typing import Any

from sqlflow_elastic.elastic.tables.compiled import compiled


@compiled
def mark(marks: Any, positions: Any, step: int) -> None:
    """Rows are wanted for a step; one that is wanted for a later step stays so."""
    for position in positions:
        if marks[position] < step:
            marks[position] = step


@compiled
def unmarked(marks: Any, positions: Any, step: int, chosen: Any) -> None:
    """Which rows are not wanted for a step: bool [n], in ``chosen``."""
    for i in range(len(positions)):
        chosen[i] = marks[positions[i]] != step
