"""Steps of workers that wait for nobody, at one server: gradients are applied as they come. No sockets, no clock.

One server, the first, sees to it that no worker is too far ahead of the slowest one: it keeps the rows for the next
step of such a worker back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables.clocks import Clocks
from sqlflow_elastic.elastic.tables.serving import OutOfStepError
from sqlflow_elastic.elastic.tables.store import TableStore
from sqlflow_elastic.elastic.tables.table import Ids, Positions
from sqlflow_elastic.models.tables.initial import with_first_slots

Numbers = NDArray[Any]


@dataclass(frozen=True)
class Given:
    """The answer to an exchange.

    Attributes:
        worker: whose it is.
        number: of the exchange, as the worker counts.
        rows: of each table; none where none were wanted.
    """

    worker: str
    number: int
    rows: list[Numbers]


class Exchanges:
    """See the module's page.

    Args:
        store: the tables.
        staleness: see `Clocks`; None at all servers but the first.
    """

    def __init__(self, store: TableStore, staleness: int | None) -> None:
        self._store = store
        self._clocks = None if staleness is None else Clocks(staleness)
        #: What each worker looked up last.
        self._positions: dict[str, list[Positions]] = {}
        self._held: dict[str, int] = {}

    @property
    def held(self) -> list[str]:
        """The workers whose rows are kept back."""
        return list(self._held)

    def counts(self, worker: str) -> list[int]:
        """How many rows of each table a worker has gradients of. Raises: OutOfStepError: it looked up none."""
        if worker not in self._positions:
            raise OutOfStepError(f"{worker} has looked up nothing")
        return [len(each) for each in self._positions[worker]]

    def look_up(self, worker: str, number: int, ids: Sequence[Ids] | None) -> list[Given]:
        """A worker wants rows, or is to be told only that its gradients are applied.

        Raises:
            OutOfStepError: its rows are kept back.
            ValueError: an id is out of range, or a row of a dense table was never given.
        """
        if worker in self._held:
            raise OutOfStepError(f"{worker} does not wait for its rows")
        if ids is None:
            self._positions.pop(worker, None)
            return [Given(worker, number, [])]
        for table, own in zip(self._store.tables, ids, strict=True):
            if table.spec.dense and (table.where(own) < 0).any():
                raise OutOfStepError(f"rows of {table.spec.name} were never given")
        self._positions[worker] = [table.find(own) for table, own in zip(self._store.tables, ids, strict=True)]
        self._held[worker] = number
        return self._released()

    def apply(self, worker: str, gradients: Sequence[Numbers], rates: Sequence[tuple[float, int]]) -> list[Given]:
        """Apply a worker's gradients of the rows that it looked up last. Returns what others waited for.

        Raises:
            OutOfStepError: it looked up none, or waits for them.
        """
        if worker in self._held:
            raise OutOfStepError(f"{worker} does not wait for its rows")
        self.counts(worker)
        self._store.apply([(self._positions.pop(worker), gradients)], rates)
        if self._clocks is not None:
            self._clocks.stepped(worker)
        return self._released()

    def rests(self, worker: str) -> list[Given]:
        """A worker idles, or is gone. Returns what others waited for."""
        self._held.pop(worker, None)
        self._positions.pop(worker, None)
        if self._clocks is not None:
            self._clocks.rests(worker)
        return self._released()

    def assign(self, ids: Sequence[Ids], rows: Sequence[Numbers]) -> None:
        """Give rows of each table their first numbers; those that are there stay as they are."""
        for table, own, numbers in zip(self._store.tables, ids, rows, strict=True):
            new = table.where(own) < 0
            table.put(own[new], with_first_slots(table.spec, numbers[new]))

    def _released(self) -> list[Given]:
        given = []
        for worker, number in list(self._held.items()):
            if self._clocks is None or self._clocks.may_go_on(worker):
                del self._held[worker]
                tables = zip(self._store.tables, self._positions[worker], strict=True)
                given.append(Given(worker, number, [table.read(own) for table, own in tables]))
        return given
