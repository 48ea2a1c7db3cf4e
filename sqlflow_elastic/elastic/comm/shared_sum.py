"""A sum over members that have memory in common.

Each member sums up one part of the vector. It lays its elements of the others' parts where those find them; when all
have, it adds up its part and lays the sum where all find it; when all have, everybody takes the other parts' sums. So
an element is written and read twice on its way instead of crossing the kernel twice.

The connections carry nothing but headers, which say that a member has come so far, and show who is gone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm.header import HEADER_BYTES, Header, Kind
from sqlflow_elastic.elastic.comm.link import Link
from sqlflow_elastic.elastic.comm.schedule import Plan
from sqlflow_elastic.elastic.comm.sums import Arrays


class SharedSum:
    """See above, and `sums.Sum`.

    Args:
        plan: this member's; nothing in it is rounded.
        dtype: of the buffers.
        memory: ``[memory_bytes(plan)]`` or more, the same at all members.
    """

    def __init__(self, plan: Plan, dtype: np.dtype[Any], memory: NDArray[np.uint8]) -> None:
        self._plan = plan
        self._dtype = dtype
        *self._given, self._sums = memory[: memory_bytes(plan)].view(dtype).reshape(plan.size + 1, -1)
        self._own = _places(plan, plan.rank)
        self._others = [place for rank in range(plan.size) if rank != plan.rank for place in _places(plan, rank)]

    def run(self, link: Link, number: int, buffers: Arrays, into: Arrays) -> None:
        """See `Sum.run`."""
        plan, sums = self._plan, self._sums
        header = Header(Kind.SUM_SHARED, self._dtype.char, plan.split, number, plan.total)
        given = self._given[plan.rank]
        for buffer, here, there in self._others:
            given[there] = buffers[buffer][here]
        self._meet(link, header)
        for buffer, here, there in self._own:
            elements = [
                buffers[buffer][here] if rank == plan.rank else self._given[rank][there] for rank in range(plan.size)
            ]
            total = sums[there]
            np.add(elements[0], elements[1], out=total)
            for more in elements[2:]:
                np.add(total, more, out=total)
            into[buffer][here] = total
        self._meet(link, header)
        for buffer, here, there in self._others:
            into[buffer][here] = sums[there]

    def _meet(self, link: Link, header: Header) -> None:
        """Return when all members have come here. Raises: WorldBroken."""
        said = memoryview(header.pack())
        for _ in range(self._plan.size - 1):
            # After so many of its own rounds, the previous member has heard of as many members before it.
            link.queue(said)
            header.check(link.receive_bytes(HEADER_BYTES))
        link.drain()


def memory_bytes(plan: Plan) -> int:
    """How much memory a sum needs: a vector a member, and one for the sums."""
    return (plan.size + 1) * plan.total


def _places(plan: Plan, rank: int) -> list[tuple[int, slice, slice]]:
    """A member's part of the vector: in which buffer, where in it, and where in a vector of all elements."""
    places = []
    for piece in plan.share(rank):
        here, before = piece.elements, plan.starts[piece.part]
        # Where nothing is rounded, a part is a whole buffer.
        places.append((plan.parts[piece.part].buffer, here, slice(before + here.start, before + here.stop)))
    return places
