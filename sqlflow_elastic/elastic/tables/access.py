"""How a member of a job uses tables that are on servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Numbers = NDArray[Any]


class Rows(Protocol):
    """Where rows are read."""

    def peek(self, ids: Sequence[Ids]) -> list[Numbers]:
        """Of each table the rows of some ids, [n, width]; rows that are not there yet are as they will begin."""
        ...


class Tables(Rows, Protocol):
    """The servers of a world, as a member uses them in steps; `tables.client.Session` is one.

    What fails raises `comm.WorldBroken`.
    """

    def want(self, ids: Sequence[Ids]) -> None:
        """Ask for the rows of the first two steps of a run, one after the other."""
        ...

    def rows(self) -> list[Numbers]:
        """The rows of the next step, once all servers have applied the step before it."""
        ...

    def push(
        self, gradients: Sequence[Numbers], rates: Sequence[tuple[float, int]], want: Sequence[Ids] | None = None
    ) -> None:
        """The gradients of the step whose rows were taken last; asks for those of the step after the next one.

        Args:
            gradients: of each table, [n, width].
            rates: of each table its optimizer's learning rate and the steps that it has taken.
            want: see `want`; None if there is no such step, or not yet.
        """
        ...

    def applied(self) -> Any:
        """Return when all servers have applied what was pushed last, by all members."""
        ...

    def begin_snapshot(self, step: int) -> None:
        """Between two steps, after ``step`` of them: let the servers write a snapshot aside. One member does it."""
        ...

    @property
    def snapshot_step(self) -> int:
        """Of the newest snapshot that all servers have finished, as far as is known here; -1 for none."""
        ...

    @property
    def snapshot_failure(self) -> str:
        """Why the one that was begun last here will not be finished, as far as is known; "" if it may be."""
        ...

    def snapshot(self, step: int) -> None:
        """`begin_snapshot`; return when all servers have finished it.

        Raises:
            JobError: it cannot be written.
        """
        ...
