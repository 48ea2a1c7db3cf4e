"""What workers say at a server, read, and what they are answered, written: those of a world, and those without one.

An answer names workers by rank, or by name where they take steps alone, and has the buffers to send to each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables.exchanges import Exchanges, Given
from sqlflow_elastic.elastic.tables.serving import Applied, Rows, Steps
from sqlflow_elastic.elastic.tables.wire import GRADIENTS, LOOKUP, Format, Header, Kind, message, take

#: By whom they are for.
Answers = Mapping[Hashable, list[memoryview]]
#: What a server tells of itself: its newest snapshot's step, bytes of memory, rows, steps applied; int64 [4].
Figures = Callable[[], NDArray[np.int64]]
Rates = list[tuple[float, int]]


class Talk(Protocol):
    """What is said between a server and its workers, but for what anybody may ask."""

    def handle(self, who: Any, header: Header, body: memoryview) -> Answers:
        """A worker says something. Raises: ValueError: it makes no sense."""
        ...


class WorldTalk:
    """With the members of a world.

    Args:
        steps: of the world.
        format: of its tables.
        size: of the world.
        figures: see `Figures`.
    """

    def __init__(self, steps: Steps, format: Format, size: int, figures: Figures) -> None:
        self._steps, self._format, self._size, self._figures = steps, format, size, figures

    @property
    def waits(self) -> bool:
        """Whether a member has said all of the next step, and waits for others."""
        return self._steps.waits

    def handle(self, who: int, header: Header, body: memoryview) -> Answers:
        """See `Talk`."""
        match header.kind:
            case Kind.WANT:
                ids, _ = self._format.read_ids(body)
                return self._written(self._steps.want(who, header.step, ids))
            case Kind.PUSH:
                rates, body = _rates(self._format, body)
                wanted: list[Rows] = []
                if header.tag:
                    ids, body = self._format.read_ids(body)
                    wanted = self._steps.want(who, header.step + 2, ids)
                gradients = self._format.read_rows(body, self._steps.counts(who, header.step))
                return self._written([*wanted, *self._steps.push(who, header.step, gradients, rates)])
            case _:
                raise ValueError(f"a member does not say {header.kind.name}")

    def _written(self, replies: Sequence[Applied | Rows]) -> Answers:
        """All that a member is told at once goes in one call of the system."""
        answers: dict[Hashable, list[memoryview]] = {}
        for reply in replies:
            if isinstance(reply, Applied):
                for rank in range(self._size):
                    answers.setdefault(rank, []).extend(message(Kind.APPLIED, reply.step, [self._figures()]))
                continue
            parts = [array for array in reply.rows if array.size]
            kind = Kind.LATE_ROWS if reply.late else Kind.ROWS
            if reply.early is not None:
                kind, parts = Kind.EARLY_ROWS, [np.packbits(reply.early), *parts]
            answers.setdefault(reply.rank, []).extend(message(kind, reply.step, parts))
        return answers


class LoneTalk:
    """With workers that take steps alone.

    Args:
        exchanges: theirs.
        format: of the tables.
        figures: see `Figures`.
    """

    def __init__(self, exchanges: Exchanges, format: Format, figures: Figures) -> None:
        self._exchanges, self._format, self._figures = exchanges, format, figures

    def handle(self, who: str, header: Header, body: memoryview) -> Answers:
        """See `Talk`."""
        match header.kind:
            case Kind.EXCHANGE:
                return self._exchange(who, header, body)
            case Kind.IDLE:
                return self.rests(who)
            case Kind.ASSIGN:
                ids, body = self._format.read_ids(body)
                self._exchanges.assign(ids, self._format.read_rows(body, [len(each) for each in ids]))
                return {}
            case _:
                raise ValueError(f"a worker that takes steps alone does not say {header.kind.name}")

    def rests(self, who: str) -> Answers:
        """A worker idles, or is gone."""
        return self._written(self._exchanges.rests(who))

    def still_held(self) -> Answers:
        """That workers whose rows are kept back hear something."""
        return {worker: message(Kind.HELD, 0) for worker in self._exchanges.held}

    def _exchange(self, who: str, header: Header, body: memoryview) -> Answers:
        released: list[Given] = []
        ids, rates = None, None
        if header.tag & GRADIENTS:
            rates, body = _rates(self._format, body)
        if header.tag & LOOKUP:
            ids, body = self._format.read_ids(body)
        if rates is not None:
            gradients = self._format.read_rows(body, self._exchanges.counts(who))
            released = self._exchanges.apply(who, gradients, rates)
        return self._written([*released, *self._exchanges.look_up(who, header.step, ids)])

    def _written(self, given: Iterable[Given]) -> Answers:
        return {each.worker: message(Kind.GIVEN, each.number, [self._figures(), *each.rows]) for each in given}


def _rates(format: Format, body: memoryview) -> tuple[Rates, memoryview]:
    """Learning rates and optimizers' steps of each table, and the rest of the body."""
    learning_rates, body = take(body, np.dtype(np.float64), format.tables)
    iterations, body = take(body, np.dtype(np.int64), format.tables)
    return list(zip(learning_rates.tolist(), iterations.tolist(), strict=True)), body
