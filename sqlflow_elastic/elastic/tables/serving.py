"""The steps of one world at one server: who gets which rows when. No sockets, no clock.

A member wants rows for a step, gets them, and pushes their gradients. A step is applied when all members have pushed.
Rows for step k are what step k - 1 leaves behind. Those that nobody wanted for step k - 1 are that already after step k
- 2, so they go out then: *early*, while the members compute step k - 1. That is known only if by then all members have
said what they want for step k - 1; if not, all rows wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables.marks import mark, unmarked
from sqlflow_elastic.elastic.tables.memory import lazy_zeros
from sqlflow_elastic.elastic.tables.store import TableStore
from sqlflow_elastic.elastic.tables.table import Ids, Positions

Numbers = NDArray[Any]


class OutOfStepError(ValueError):
    """A member said what makes no sense at this step."""


@dataclass(frozen=True)
class Rows:
    """Rows that a member gets.

    Attributes:
        rank: whom.
        step: that it wanted them for.
        rows: of each table.
        early: None where these are all rows of the step that were not sent before; else which of all its rows these
            are, bool [rows].
        late: whether others were sent before.
    """

    rank: int
    step: int
    rows: list[Numbers]
    early: NDArray[np.bool_] | None = None
    late: bool = False


@dataclass(frozen=True)
class Applied:
    """All members are told that a step is applied."""

    step: int


@dataclass
class _Want:
    """What a member wants for a step; ``waiting``: of each table, which rows wait, where some went out early."""

    positions: list[Positions]
    waiting: list[Positions] | None = None


class Steps:
    """The steps of one world.

    Args:
        store: the tables, at the step where the world begins.
        size: members of the world.
    """

    def __init__(self, store: TableStore, size: int) -> None:
        self._store = store
        self._size = size
        self._wants: dict[tuple[int, int], _Want] = {}
        self._pushed: dict[int, tuple[list[Positions], Sequence[Numbers]]] = {}
        #: For each row the last even step, and the last odd one, that somebody wanted it for.
        self._wanted_for = [
            [lazy_zeros((table.spec.rows,), np.int32) for table in store.tables] for _ in ("even", "odd")
        ]
        self._begun = store.step

    @property
    def waits(self) -> bool:
        """Whether some members have pushed the next step, and others have not."""
        return bool(self._pushed)

    def want(self, rank: int, step: int, ids: Sequence[Ids]) -> list[Rows]:
        """A member wants rows for a step, which is the next one or the one after it.

        Raises:
            OutOfStepError: it is another one, or it wanted some before.
            ValueError: an id is out of range.
        """
        applied = self._store.step
        if not applied < step <= applied + 3 or (step, rank) in self._wants:
            raise OutOfStepError(f"rank {rank} wants rows for step {step}, and {applied} are applied")
        positions = [table.find(each) for table, each in zip(self._store.tables, ids, strict=True)]
        for marks, own in zip(self._wanted_for[step % 2], positions, strict=True):
            # Another member may have wanted some for two steps later.
            mark(marks, own, step - self._begun)
        self._wants[step, rank] = want = _Want(positions)
        return self._rest(rank, step, want) if step == applied + 1 else []

    def counts(self, rank: int, step: int) -> list[int]:
        """How many rows of each table a member wanted for a step. Raises: OutOfStepError: it did not."""
        want = self._wants.get((step, rank))
        if want is None:
            raise OutOfStepError(f"rank {rank} wanted no rows for step {step}")
        return [len(each) for each in want.positions]

    def push(
        self, rank: int, step: int, gradients: Sequence[Numbers], rates: Sequence[tuple[float, int]]
    ) -> list[Applied | Rows]:
        """A member's gradients of the rows that it wanted for a step.

        Returns what follows: nothing until all members have pushed.

        Raises:
            OutOfStepError: it is not the next step, or the member did not want any for it, or has pushed before.
        """
        want = self._wants.get((step, rank))
        if step != self._store.step + 1 or want is None or rank in self._pushed:
            raise OutOfStepError(f"rank {rank} pushes step {step}, and {self._store.step} are applied")
        if [len(each) for each in gradients] != [len(each) for each in want.positions]:
            raise OutOfStepError(f"rank {rank} pushes other rows than it wanted for step {step}")
        self._pushed[rank] = want.positions, gradients
        if len(self._pushed) < self._size:
            return []
        self._store.apply([self._pushed[each] for each in range(self._size)], rates)
        self._pushed.clear()
        for each in range(self._size):
            del self._wants[step, each]
        return [Applied(step), *self._due(step + 1), *self._early(step + 2)]

    def _due(self, step: int) -> list[Rows]:
        """What is left of the rows for the next step."""
        wants = {rank: self._wants.get((step, rank)) for rank in range(self._size)}
        return [rows for rank, want in wants.items() if want is not None for rows in self._rest(rank, step, want)]

    def _early(self, step: int) -> list[Rows]:
        """Rows for the step after the next one that the next one leaves as they are."""
        if not all((step - 1, rank) in self._wants for rank in range(self._size)):
            return []
        rows = []
        before = step - 1 - self._begun
        for rank in range(self._size):
            want = self._wants.get((step, rank))
            if want is None:
                continue
            early = [
                _unmarked(marks, own, before)
                for marks, own in zip(self._wanted_for[(step - 1) % 2], want.positions, strict=True)
            ]
            now = [own[chosen] for own, chosen in zip(want.positions, early, strict=True)]
            if not sum(map(len, now)):
                continue
            want.waiting = [own[~chosen] for own, chosen in zip(want.positions, early, strict=True)]
            rows.append(Rows(rank, step, self._read(now), early=np.concatenate(early)))
        return rows

    def _rest(self, rank: int, step: int, want: _Want) -> list[Rows]:
        """What a member has not got yet; nothing is not sent."""
        positions = want.positions if want.waiting is None else want.waiting
        if not sum(map(len, positions)):
            return []
        return [Rows(rank, step, self._read(positions), late=want.waiting is not None)]

    def _read(self, positions: Sequence[Positions]) -> list[Numbers]:
        return [table.read(own) for table, own in zip(self._store.tables, positions, strict=True)]


def _unmarked(marks: NDArray[np.int32], positions: Positions, step: int) -> NDArray[np.bool_]:
    chosen = np.empty(len(positions), np.bool_)
    unmarked(marks, positions, step, chosen)
    return chosen
