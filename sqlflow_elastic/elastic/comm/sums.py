"""A sum as one member of a ring takes part in it; see `ring` for the ways that elements travel.

Both classes are made for the lengths of some buffers, and used for one call after the other: what does not depend on
the elements is there before the first byte comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm.header import HEADER_BYTES, Header, Kind
from sqlflow_elastic.elastic.comm.link import Link
from sqlflow_elastic.elastic.comm.schedule import Act, Part, Plan
from sqlflow_elastic.elastic.comm.scratch import Scratch

Arrays: TypeAlias = Sequence[NDArray[Any]]


class Sum(Protocol):
    """A sum of buffers of certain lengths."""

    def run(self, link: Link, number: int, buffers: Arrays, into: Arrays) -> None:
        """Take part once.

        Args:
            link: to the neighbours.
            number: of the operation.
            buffers: vectors of the plan's lengths; only read, but where they are `into` as well.
            into: takes the sums: vectors of the plan's lengths.

        Raises:
            WorldBroken: what takes the sums holds anything.
        """
        ...


class WholeSum:
    """All elements go around in one piece, and each member adds up all members'. See `Sum`.

    Args:
        plan: this member's.
        dtype: of the buffers.
        narrow: what those elements travel in that the plan has rounded.
    """

    def __init__(self, plan: Plan, dtype: np.dtype[Any], narrow: np.dtype[Any]) -> None:
        self._plan = plan
        self._dtype = dtype
        self._narrow = narrow
        #: A row a member: header and elements.
        rows = np.empty((plan.size, HEADER_BYTES + plan.wire_bytes), np.uint8)
        self._rows = [row.data for row in rows]
        #: For each part all members' elements.
        self._values: list[list[NDArray[Any]]] = []
        for part in plan.parts:
            wire = narrow if part.narrow else dtype
            begin = HEADER_BYTES + part.offset
            self._values.append(list(rows[:, begin : begin + (part.end - part.begin) * wire.itemsize].view(wire)))

    def run(self, link: Link, number: int, buffers: Arrays, into: Arrays) -> None:
        """See `Sum.run`."""
        plan, rows = self._plan, self._rows
        rank, size = plan.rank, plan.size
        header = Header(Kind.SUM_WHOLE, self._narrow.char, plan.split, number, plan.total)
        rows[rank][:HEADER_BYTES] = header.pack()
        for part, values in zip(plan.parts, self._values, strict=True):
            values[rank][...] = buffers[part.buffer][part.begin : part.end]
        for hop in range(size - 1):
            link.queue(rows[rank - hop])
            coming = rows[rank - hop - 1]
            link.receive(coming)
            header.check(coming[:HEADER_BYTES])
        link.drain()
        for part, (first, second, *others) in zip(plan.parts, self._values, strict=True):
            total = into[part.buffer][part.begin : part.end]
            np.add(first, second, out=total, dtype=self._dtype)
            for other in others:
                np.add(total, other, out=total)


class SegmentedSum:
    """Segments go around twice, one after the other as the plan has it. See `Sum`.

    Args:
        plan: this member's.
        narrow: what those elements travel in that the plan has rounded.
        incoming: holds a segment that comes.
        mirror: holds the rounded elements.
    """

    def __init__(self, plan: Plan, narrow: np.dtype[Any], incoming: Scratch, mirror: Scratch) -> None:
        self._plan = plan
        self._steps = tuple(plan.steps())
        self._longest = max(step.length for step in self._steps)
        self._narrow = narrow
        self._incoming = incoming
        self._mirror = mirror

    def run(self, link: Link, number: int, buffers: Arrays, into: Arrays) -> None:
        """See `Sum.run`."""
        plan = self._plan
        mirror = self._mirror.take(plan.rounded * self._narrow.itemsize).view(self._narrow)
        paths = [_Path.of(part, buffers[part.buffer], into[part.buffer], mirror) for part in plan.parts]
        incoming = self._incoming.take(self._longest)
        header = Header(Kind.SUM, self._narrow.char, plan.split, number, plan.total)
        link.queue(memoryview(header.pack()))
        for step in self._steps:
            act = step.act
            if act is Act.SEND:
                for piece in step.pieces:
                    path = paths[piece.part]
                    if path.rounded is not None:
                        path.rounded[piece.elements] = path.own[piece.elements]
                    link.queue(path.sends[piece.raw])
            elif act is Act.CHECK:
                header.check(link.receive_bytes(HEADER_BYTES))
            elif act is Act.ADD or act is Act.COMPLETE:
                link.receive(incoming[: step.length].data)
                at = 0
                for piece in step.pieces:
                    path = paths[piece.part]
                    total = path.total[piece.elements]
                    added = incoming[at : at + piece.length].view(path.wire)
                    np.add(path.own[piece.elements], added, out=total)
                    if path.rounded is not None:
                        path.rounded[piece.elements] = total
                        if act is Act.COMPLETE:  # all have what travelled
                            total[...] = path.rounded[piece.elements]
                    link.queue(path.travels[piece.raw])
                    at += piece.length
            else:
                for piece in step.pieces:
                    path = paths[piece.part]
                    target = path.travels[piece.raw]
                    link.receive(target)
                    if path.rounded is not None:
                        path.total[piece.elements] = path.rounded[piece.elements]
                    if act is Act.PASS:
                        link.queue(target)
        link.drain()


@dataclass(slots=True)
class _Path:
    """Where a part is on its way from this member's elements to the sum; all vectors are of the part's length.

    Attributes:
        own: this member's elements.
        total: takes the sum.
        rounded: elements as they travel, if not in their own dtype.
        wire: what they travel in.
        sends: the bytes of this member's elements.
        travels: the bytes of sums: how they come and are sent on.
    """

    own: NDArray[Any]
    total: NDArray[Any]
    rounded: NDArray[Any] | None
    wire: np.dtype[Any]
    sends: memoryview
    travels: memoryview

    @classmethod
    def of(cls, part: Part, buffer: NDArray[Any], into: NDArray[Any], mirror: NDArray[Any]) -> Self:
        """Of a part of this buffer; the mirror has room for all that is rounded."""
        own = buffer[part.begin : part.end]
        total = own if into is buffer else into[part.begin : part.end]
        if part.narrow:
            rounded = mirror[part.rounded : part.rounded + len(own)]
            travels = rounded.view(np.uint8).data
            return cls(own, total, rounded, rounded.dtype, travels, travels)
        travels = total.view(np.uint8).data
        return cls(own, total, None, own.dtype, travels if total is own else own.view(np.uint8).data, travels)
