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

import contextlib
import struct
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import operands
from sqlflow_elastic.elastic.comm.base import BytesLike, Communicator, Place, WireDtype, WorldBroken
from sqlflow_elastic.elastic.comm.header import HEADER_BYTES, Header, Kind
from sqlflow_elastic.elastic.comm.link import Link
from sqlflow_elastic.elastic.comm.schedule import Plan
from sqlflow_elastic.elastic.comm.scratch import Scratch
from sqlflow_elastic.elastic.comm.shared_memory import SharedMemory
from sqlflow_elastic.elastic.comm.shared_sum import SharedSum, memory_bytes
from sqlflow_elastic.elastic.comm.sums import SegmentedSum, Sum, WholeSum
from sqlflow_elastic.elastic.comm.wire import wire_dtype

#: Of a piece of a broadcast.
PIECE_BYTES = 1 << 20
#: Pieces that a member which only passes them on holds.
_HELD_PIECES = 4
#: Of the memory that members have in common, at most; larger sums go over their connections.
SHARED_BYTES = 512 << 20
#: Sums whose buffers differ in lengths or dtype that are kept ready: training makes the same few again and again.
_KEPT_SUMS = 16

_LENGTH = struct.Struct("<Q")


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
        self._scratch, self._mirror = Scratch(), Scratch()
        self._memory: NDArray[np.uint8] | None = None
        #: Whether members have shown that they have no memory in common.
        self._apart = False
        self._sums: dict[tuple[tuple[int, ...], int, np.dtype[Any]], Sum] = {}

    def allreduce(
        self, buffers: Sequence[NDArray[Any]], into: Sequence[NDArray[Any]] | None = None, exact: int = 0
    ) -> None:
        """See `Communicator.allreduce`."""
        targets = operands.check_sum(buffers, into, exact)
        with self._operation(), np.errstate(all="ignore"):  # infinities and NaN are the model's
            known = self._sum_of(tuple(map(len, buffers)), exact, buffers[0].dtype)
            known.run(self._link, self._operations, buffers, targets)

    def allgather(self, data: BytesLike) -> list[memoryview]:
        """See `Communicator.allgather`."""
        own = operands.as_bytes(data)
        with self._operation():
            return self._gathered(own)

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
                self._sums.clear()
                self._memory = None
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
            self._operations = (self._operations + 1) % 2**32
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

    def _gathered(self, own: memoryview) -> list[memoryview]:
        rank, size, link = self.place.rank, self.place.size, self._link
        blocks = [own] * size
        for hop in range(size - 1):
            block = blocks[(rank - hop) % size]
            header = self._header(Kind.GATHER, len(block))
            link.queue(memoryview(header.pack()))
            link.queue(block)
            block = np.empty(header.check_operation(link.receive_bytes(HEADER_BYTES)), np.uint8).data
            link.receive(block)
            blocks[(rank - hop - 1) % size] = block
        link.drain()
        return blocks

    def _sum_of(self, lengths: tuple[int, ...], exact: int, dtype: np.dtype[Any]) -> Sum:
        """The sum of such buffers, made for the first of them."""
        key = lengths, exact, dtype
        known = self._sums.get(key)
        if known is None:
            narrow = wire_dtype(self._wire, dtype)
            plan = Plan.of(self.place.rank, self.place.size, lengths, exact, dtype.itemsize, narrow.itemsize)
            if plan.whole:
                known = WholeSum(plan, dtype, narrow)
            elif not plan.rounded and (memory := self._memory_of(memory_bytes(plan))) is not None:
                known = SharedSum(plan, dtype, memory)
            else:
                known = SegmentedSum(plan, narrow, self._scratch, self._mirror)
            if len(self._sums) == _KEPT_SUMS:
                self._sums.clear()
            self._sums[key] = known
        return known

    def _memory_of(self, size: int) -> NDArray[np.uint8] | None:
        """So many bytes or more that all members have in common; None if they have not. All ask for them at once."""
        if self._apart or size > SHARED_BYTES:
            return None
        if self._memory is None or len(self._memory) < size:
            self._memory = self._new_memory(size)
            self._apart = self._memory is None
        return self._memory

    def _new_memory(self, size: int) -> NDArray[np.uint8] | None:
        offer = b""
        with contextlib.ExitStack() as opened:
            memory = None
            if self.place.rank == 0:
                with contextlib.suppress(OSError):
                    memory = opened.enter_context(contextlib.closing(SharedMemory.make(size)))
                    offer = memory.offer()
            offer = bytes(self._gathered(memoryview(offer))[0])
            if memory is None:
                with contextlib.suppress(OSError, ValueError):
                    memory = opened.enter_context(contextlib.closing(SharedMemory.accept(offer, size)))
            every = self._gathered(memoryview(bytes([memory is not None])))
            return memory.keep() if memory is not None and all(each[0] for each in every) else None

    def _send_all(self, views: list[memoryview]) -> None:
        self._link.queue(memoryview(self._header(Kind.BROADCAST, len(views)).pack()))
        self._link.queue(memoryview(b"".join(_LENGTH.pack(len(view)) for view in views)))
        for view in views:
            self._link.queue(view)
        self._link.drain()

    def _pass_on(self, wanted: bool, further: bool) -> list[NDArray[np.uint8]] | None:
        link = self._link
        count = self._header(Kind.BROADCAST, 0).check_operation(self._link.receive_bytes(HEADER_BYTES))
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
        held = self._scratch.take(_HELD_PIECES * PIECE_BYTES).reshape(_HELD_PIECES, PIECE_BYTES)
        for number, begin in enumerate(range(0, total, PIECE_BYTES)):
            self._link.drain(_HELD_PIECES - 1)
            piece = held[number % _HELD_PIECES, : min(PIECE_BYTES, total - begin)].data
            self._link.receive(piece)
            self._link.queue(piece)
        self._link.drain()

    def _header(self, kind: Kind, length: int) -> Header:
        return Header(kind, "-", 0, self._operations, length)


def _raw(array: NDArray[Any]) -> memoryview:
    return array.view(np.uint8).data
