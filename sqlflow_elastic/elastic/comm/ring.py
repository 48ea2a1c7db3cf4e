"""The ring over TCP: each member receives from the one before it and sends to the one after it.

A large sum is formed in blocks of one segment a member. A block's segments go around twice: on the first way round each
member adds its part and passes the sum on, so that segment s is complete at member s - 1; on the second way the
complete segments are passed on to all. Each member sends 2 (n - 1) / n of the vector.

Blocks follow each other like waves, in the same rhythm at all members: at tick t each sends its own segment of block t,
and receives hop h of block t - LAG (h + 1), which it passes on, for all hops h. So bytes flow both ways all the time,
few are on the way at once, and what was added is still in the core's cache when it is sent: nearly twice as fast
as sending chunks of an n-th of the buffer, whose bytes go to memory and back at every hop.

A small one goes around once, whole: everybody gets everybody's elements and adds them up in the order of ranks. That
takes half as many hops. Several buffers are summed as one vector; what is done with which segment, and when, is in
`schedule`.

Each operation begins with a header (see `header`).
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import operands
from sqlflow_elastic.elastic.comm.base import BytesLike, Communicator, Place, WireDtype, WorldBroken
from sqlflow_elastic.elastic.comm.header import HEADER_BYTES, Header, Kind
from sqlflow_elastic.elastic.comm.link import Link
from sqlflow_elastic.elastic.comm.schedule import Act, Part, Plan
from sqlflow_elastic.elastic.comm.schedule import plan as plan_of
from sqlflow_elastic.elastic.comm.wire import wire_dtype

#: Of a piece of a broadcast.
PIECE_BYTES = 1 << 20
#: Pieces that a member which only passes them on holds.
_HELD_PIECES = 4

_LENGTH = struct.Struct("<Q")

Arrays: TypeAlias = Sequence[NDArray[Any]]


@dataclass(frozen=True, slots=True)
class _Path:
    """Where a part of a sum is, from this member's elements to the sum; all vectors of the part's length.

    Attributes:
        own: this member's elements; only read, but where they are `total` as well.
        total: takes the sum.
        rounded: elements in the wire's dtype; None if they travel in their own.
        wire: what they travel in.
        sends: the bytes of ``own`` that are sent.
        travels: bytes of sums, as they come and are sent on.
    """

    own: NDArray[Any]
    total: NDArray[Any]
    rounded: NDArray[Any] | None
    wire: np.dtype[Any]
    sends: memoryview
    travels: memoryview

    @classmethod
    def of(cls, part: Part, buffer: NDArray[Any], into: NDArray[Any], mirror: NDArray[Any]) -> Self:
        """Of a part of a buffer; ``mirror`` has room for all that is rounded."""
        own, total = buffer[part.begin : part.end], into[part.begin : part.end]
        if not part.narrow:
            return cls(own, total, None, own.dtype, _raw(own), _raw(total))
        rounded = mirror[part.rounded : part.rounded + len(own)]
        return cls(own, total, rounded, rounded.dtype, _raw(rounded), _raw(rounded))


class Ring(Communicator):
    """See `Communicator`.

    Args:
        place: in a world of at least two.
        link: the connections; closed with this object.
        wire: what floats travel in.
    """

    def __init__(self, place: Place, link: Link, wire: WireDtype | None) -> None:
        self.place = place
        self._link = link
        self._wire = wire
        self._in_use = threading.Lock()
        self._operations = 0
        self._scratch = np.empty(0, np.uint8)
        self._mirror = np.empty(0, np.uint8)

    def allreduce(
        self, buffers: Sequence[NDArray[Any]], into: Sequence[NDArray[Any]] | None = None, exact: int = 0
    ) -> None:
        """See `Communicator.allreduce`."""
        targets = operands.check_sum(buffers, into, exact)
        dtype = buffers[0].dtype
        narrow = wire_dtype(self._wire, dtype)
        lengths = tuple(map(len, buffers))
        plan = plan_of(self.place.rank, self.place.size, lengths, exact, dtype.itemsize, narrow.itemsize)
        with self._operation(), np.errstate(all="ignore"):  # infinities and NaN are the model's
            if plan.whole:
                self._sum_whole(plan, buffers, targets, narrow)
            else:
                self._sum_in_segments(plan, buffers, targets, narrow)

    def allgather(self, data: BytesLike) -> list[memoryview]:
        """See `Communicator.allgather`."""
        own = operands.as_bytes(data)
        rank, size, link = self.place.rank, self.place.size, self._link
        blocks = [own] * size
        with self._operation():
            for hop in range(size - 1):
                block = blocks[(rank - hop) % size]
                header = self._header(Kind.GATHER, len(block))
                link.queue(memoryview(header.pack()))
                link.queue(block)
                block = np.empty(header.check_operation(self._receive_header()), np.uint8).data
                link.receive(block)
                blocks[(rank - hop - 1) % size] = block
            link.drain()
        return blocks

    def broadcast(
        self, payload: Sequence[BytesLike] | None, root: int, receivers: Collection[int]
    ) -> list[NDArray[np.uint8]] | None:
        """See `Communicator.broadcast`."""
        views = operands.check_broadcast(self.place, payload, root, receivers)
        rank, size = self.place.rank, self.place.size
        distance = (rank - root) % size
        last = max(((receiver - root) % size for receiver in receivers), default=0)
        with self._operation():
            if distance > last or not last:
                return None
            if rank == root:
                self._send_all(views)
                return None
            return self._pass_on(wanted=rank in receivers, further=distance < last)

    def abort(self, reason: str) -> None:
        """See `Communicator.abort`."""
        self._end(WorldBroken(reason))

    def close(self) -> None:
        """See `Communicator.close`."""
        self._end(WorldBroken("the communicator is closed"))

    def _end(self, broken: WorldBroken) -> None:
        self._link.end(broken)
        self._free()

    def _free(self) -> None:
        """Free an ended link if no operation uses it: each operation comes here at its end, when others may use it."""
        if self._link.has_ended and self._in_use.acquire(blocking=False):
            try:
                self._link.close()
            finally:
                self._in_use.release()

    @contextmanager
    def _operation(self) -> Iterator[None]:
        """Around each operation: only one at a time, and what fails in it ends the link."""
        if not self._in_use.acquire(blocking=False):
            self._link.check()  # `abort` may be freeing it
            raise RuntimeError("a communicator is used by one thread at a time")
        try:
            self._link.check()
            self._operations += 1
            yield
        except WorldBroken as broken:
            self._link.end(broken)
            raise
        except BaseException as error:  # half of its bytes are on the way: nothing can follow them
            self._link.end(WorldBroken(f"an operation ended with {type(error).__name__}"))
            raise
        finally:
            self._in_use.release()
            self._free()

    def _sum_whole(self, plan: Plan, buffers: Arrays, into: Arrays, narrow: np.dtype[Any]) -> None:
        rank, size, link = plan.rank, plan.size, self._link
        dtype = buffers[0].dtype
        row_bytes = HEADER_BYTES + plan.wire_bytes
        rows = self._scratch_bytes(size * row_bytes).reshape(size, row_bytes)
        header = self._header(Kind.SUM_WHOLE, plan.total, narrow.char, plan.split)
        rows[rank, :HEADER_BYTES] = np.frombuffer(header.pack(), np.uint8)
        values = []
        for part in plan.parts:
            wire = narrow if part.narrow else dtype
            begin = HEADER_BYTES + part.offset
            values.append(rows[:, begin : begin + (part.end - part.begin) * wire.itemsize].view(wire))
            values[-1][rank] = buffers[part.buffer][part.begin : part.end]
        for hop in range(size - 1):
            link.queue(rows[(rank - hop) % size].data)
            coming = rows[(rank - hop - 1) % size]
            link.receive(coming.data)
            header.check(coming[:HEADER_BYTES].tobytes())
        link.drain()
        for part, (first, second, *others) in zip(plan.parts, values, strict=True):
            total = into[part.buffer][part.begin : part.end]
            np.add(first, second, out=total, dtype=dtype)
            for other in others:
                np.add(total, other, out=total)

    def _sum_in_segments(self, plan: Plan, buffers: Arrays, into: Arrays, narrow: np.dtype[Any]) -> None:
        link = self._link
        mirror = self._mirror_of(plan.rounded, narrow)
        paths = [_Path.of(part, buffers[part.buffer], into[part.buffer], mirror) for part in plan.parts]
        incoming = self._scratch_bytes(plan.longest)
        header = self._header(Kind.SUM, plan.total, narrow.char, plan.split)
        link.queue(memoryview(header.pack()))
        for step in plan.steps:
            act = step.act
            if act is Act.CHECK:
                header.check(self._receive_header())
            elif act is Act.SEND:
                for piece in step.pieces:
                    path = paths[piece.part]
                    if path.rounded is not None:
                        path.rounded[piece.begin : piece.end] = path.own[piece.begin : piece.end]
                    link.queue(path.sends[piece.at : piece.at + piece.length])
            elif act is Act.ADD or act is Act.COMPLETE:
                link.receive(incoming[: step.length].data)
                at = 0
                for piece in step.pieces:
                    path = paths[piece.part]
                    total = path.total[piece.begin : piece.end]
                    added = incoming[at : at + piece.length].view(path.wire)
                    at += piece.length
                    np.add(path.own[piece.begin : piece.end], added, out=total)
                    if path.rounded is not None:
                        path.rounded[piece.begin : piece.end] = total
                        if act is Act.COMPLETE:  # all have what travelled
                            total[...] = path.rounded[piece.begin : piece.end]
                    link.queue(path.travels[piece.at : piece.at + piece.length])
            else:
                for piece in step.pieces:
                    path = paths[piece.part]
                    target = path.travels[piece.at : piece.at + piece.length]
                    link.receive(target)
                    if path.rounded is not None:
                        path.total[piece.begin : piece.end] = path.rounded[piece.begin : piece.end]
                    if act is Act.PASS:
                        link.queue(target)
        link.drain()

    def _send_all(self, views: list[memoryview]) -> None:
        self._link.queue(memoryview(self._header(Kind.BROADCAST, len(views)).pack()))
        self._link.queue(memoryview(b"".join(_LENGTH.pack(len(view)) for view in views)))
        for view in views:
            self._link.queue(view)
        self._link.drain()

    def _pass_on(self, wanted: bool, further: bool) -> list[NDArray[np.uint8]] | None:
        link = self._link
        count = self._header(Kind.BROADCAST, 0).check_operation(self._receive_header())
        lengths = np.empty(count, "<u8")
        link.receive(_raw(lengths))
        if further:
            link.queue(memoryview(self._header(Kind.BROADCAST, count).pack()))
            link.queue(_raw(lengths))
        if not wanted:
            self._pass_through(int(lengths.sum()))
            return None
        arrays = [np.empty(int(length), np.uint8) for length in lengths]
        for array in arrays:
            for begin in range(0, len(array), PIECE_BYTES):
                piece = array[begin : begin + PIECE_BYTES].data
                link.receive(piece)
                if further:
                    link.queue(piece)
        link.drain()
        return arrays

    def _pass_through(self, total: int) -> None:
        """Send on so many bytes, through a few pieces of memory."""
        held = self._scratch_bytes(_HELD_PIECES * PIECE_BYTES).reshape(_HELD_PIECES, PIECE_BYTES)
        for number, begin in enumerate(range(0, total, PIECE_BYTES)):
            self._link.drain(_HELD_PIECES - 1)
            piece = held[number % _HELD_PIECES, : min(PIECE_BYTES, total - begin)].data
            self._link.receive(piece)
            self._link.queue(piece)
        self._link.drain()

    def _header(self, kind: Kind, length: int, dtype: str = "-", split: int = 0) -> Header:
        return Header(kind, dtype, split, self._operations & 0xFFFFFFFF, length)

    def _receive_header(self) -> bytearray:
        data = bytearray(HEADER_BYTES)
        self._link.receive(memoryview(data))
        return data

    def _scratch_bytes(self, count: int) -> NDArray[np.uint8]:
        if len(self._scratch) < count:
            self._scratch = np.empty(count, np.uint8)
        return self._scratch[:count]

    def _mirror_of(self, length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        count = length * dtype.itemsize
        if len(self._mirror) < count:
            self._mirror = np.empty(count, np.uint8)
        return self._mirror[:count].view(dtype)


def _raw(array: NDArray[Any]) -> memoryview:
    return array.view(np.uint8).data
