"""How the elements of a sum are parted over a ring's members, and what a member does with them, in what order.

Of several buffers, one vector is formed in thought: they follow each other in it without a gap, and segments go across
their borders. So several cost no more than one of their total length. All of it follows from the lengths alone.
"""

from __future__ import annotations

import binascii
import enum
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Self

#: Buffers of at most so many bytes together go around whole.
SMALL_BYTES = 32 << 10
#: Of a segment: small enough to stay in a core's cache from the socket to the sum and to the other socket.
SEGMENT_BYTES = 256 << 10
#: A hop is received so many ticks after the hop before it was sent: members need not run in lockstep.
_LAG = 2


class Act(enum.Enum):
    """What a member does with a segment, or, without one, with the header that comes from the previous member."""

    SEND = enum.auto()  # its own elements
    CHECK = enum.auto()  # receive the header, and compare
    ADD = enum.auto()  # receive a partial sum, add its own elements, send that on
    COMPLETE = enum.auto()  # likewise: now it is the sum
    PASS = enum.auto()  # receive the sum and send it on
    KEEP = enum.auto()  # receive the sum, which all others have


@dataclass(frozen=True, slots=True)
class Part:
    """Elements of one buffer that travel in one dtype; never empty.

    Attributes:
        buffer: which.
        begin, end: elements of it.
        narrow: whether they travel in the wire's dtype, or in their own.
        offset: bytes that travel before them when all goes around whole.
        rounded: elements before them that travel in the wire's dtype.
    """

    buffer: int
    begin: int
    end: int
    narrow: bool
    offset: int
    rounded: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What a segment has of a part.

    Attributes:
        part: which.
        elements: where they are in the part.
        raw: where their bytes are among the part's, as they travel.
        length: bytes, as they travel.
    """

    part: int
    elements: slice
    raw: slice
    length: int


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do.

    Attributes:
        act: what.
        pieces: of the segment; none of a header.
        length: bytes of the pieces, as they travel.
    """

    act: Act
    pieces: tuple[Piece, ...] = ()
    length: int = 0


@dataclass(frozen=True)
class Plan:
    """One member's way through a sum.

    Attributes:
        rank, size: which member, of how many: at least two.
        itemsize: bytes of an element in a buffer.
        wire_itemsize: bytes of an element in the wire's dtype.
        parts: of all buffers, in order.
        wire_bytes: of all elements as they travel.
        rounded: elements that travel in the wire's dtype.
        total: bytes of all buffers.
        split: checksum of 16 bits of the buffers' lengths and of how many elements are exact.
    """

    rank: int
    size: int
    itemsize: int
    wire_itemsize: int
    parts: tuple[Part, ...]
    wire_bytes: int
    rounded: int
    total: int
    split: int

    @classmethod
    def of(cls, rank: int, size: int, lengths: Sequence[int], exact: int, itemsize: int, wire_itemsize: int) -> Self:
        """A member's plan; those of all members fit together.

        Args:
            rank, size: which member, of how many: at least two.
            lengths: elements of each buffer.
            exact: so many elements at the end of the last buffer travel in their own dtype.
            itemsize: bytes of an element in a buffer.
            wire_itemsize: bytes of an element in the wire's dtype; ``itemsize``: all travel in their own.
        """
        rounds = wire_itemsize < itemsize
        ranges = [(number, 0, length, rounds) for number, length in enumerate(lengths)]
        if rounds:
            last, _, length, _ = ranges.pop()
            ranges += [(last, 0, length - exact, True), (last, length - exact, length, False)]
        parts = []
        offset = rounded = 0
        for number, begin, end, narrows in ranges:
            if begin < end:
                parts.append(Part(number, begin, end, narrows, offset, rounded))
                offset += (end - begin) * (wire_itemsize if narrows else itemsize)
                rounded += (end - begin) * narrows
        split = binascii.crc_hqx(struct.pack(f"<{len(lengths) + 1}Q", *lengths, exact), 0)
        return cls(rank, size, itemsize, wire_itemsize, tuple(parts), offset, rounded, sum(lengths) * itemsize, split)

    @property
    def whole(self) -> bool:
        """Whether it goes around whole."""
        return self.total <= SMALL_BYTES

    @cached_property
    def starts(self) -> list[int]:
        """Elements before each part, and of all."""
        return list(accumulate((part.end - part.begin for part in self.parts), initial=0))

    def share(self, rank: int) -> Iterator[Piece]:
        """A member's share of all elements, if each has one."""
        elements = self.starts[-1]
        return self._pieces(elements * rank // self.size, elements * (rank + 1) // self.size)

    def steps(self) -> Iterator[Step]:
        """What to do, if it goes in segments."""
        hops = 2 * (self.size - 1)
        elements = self.total // self.itemsize
        blocks = -(-self.total // (self.size * SEGMENT_BYTES))

        def step(act: Act, block: int, segment: int) -> Step:
            first, last = elements * block // blocks, elements * (block + 1) // blocks
            begin = first + (last - first) * segment // self.size
            end = first + (last - first) * (segment + 1) // self.size
            pieces = tuple(self._pieces(begin, end))
            return Step(act, pieces, sum(piece.length for piece in pieces))

        for tick in range(blocks + hops * _LAG):
            if tick < blocks:
                yield step(Act.SEND, tick, self.rank)
            if tick == _LAG:
                yield Step(Act.CHECK)
            for hop in range(hops):
                block = tick - _LAG * (hop + 1)
                if 0 <= block < blocks:
                    yield step(self._act(hop), block, (self.rank - hop - 1) % self.size)

    def _act(self, hop: int) -> Act:
        last = self.size - 2  # on the first way round
        if hop <= last:
            return Act.ADD if hop < last else Act.COMPLETE
        return Act.PASS if hop < 2 * last + 1 else Act.KEEP

    def _pieces(self, begin: int, end: int) -> Iterator[Piece]:
        """The parts' elements among those of all buffers."""
        starts = self.starts
        number = bisect_right(starts, begin) - 1
        while begin < end:
            stop = min(starts[number + 1], end)
            width = self._wire(self.parts[number])
            first, last = begin - starts[number], stop - starts[number]
            yield Piece(number, slice(first, last), slice(first * width, last * width), (last - first) * width)
            begin, number = stop, number + 1

    def _wire(self, part: Part) -> int:
        return self.wire_itemsize if part.narrow else self.itemsize
