"""The ring over TCP: each member receives from the one before it and sends to the one after it.

A large sum is formed in blocks of one segment a member. A block's segments go around twice: on the first way round each
member adds its part and passes the sum on, so that segment s is complete at member s - 1; on the second way the
complete segments are passed on to all. Each member sends 2 (n - 1) / n of the buffer.

Blocks follow each other like waves, in the same rhythm at all members: at tick t each sends its own segment of block t,
and receives hop h of block t - LAG (h + 1), which it passes on, for all hops h. So bytes flow both ways all the time,
few are on the way at once, and what was added is still in the core's cache when it is sent: nearly twice as fast
as sending chunks of an n-th of the buffer, whose bytes go to memory and back at every hop.

A small one goes around once, whole: everybody gets everybody's buffer and adds them up in the order of ranks. That
takes half as many hops.

Each operation begins with a header (see `header`).
"""

from __future__ import annotations

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
from sqlflow_elastic.elastic.comm.wire import wire_dtype

#: A buffer of at most so many bytes goes around whole.
SMALL_BYTES = 32 << 10
#: Of a segment: small enough to stay in a core's cache from the socket to the sum and to the other socket.
SEGMENT_BYTES = 256 << 10
#: A hop is received so many ticks after the hop before it was sent: members need not run in lockstep.
_LAG = 2
#: Of a piece of a broadcast.
PIECE_BYTES = 1 << 20
#: Pieces that a member which only passes them on holds.
_HELD_PIECES = 4

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
        self._scratch = np.empty(0, np.uint8)
        self._mirror = np.empty(0, np.uint8)

    def allreduce(self, buffer: NDArray[Any], exact: int = 0) -> None:
        """See `Communicator.allreduce`."""
        operands.check_sum(buffer, exact)
        narrow = wire_dtype(self._wire, buffer.dtype)
        with self._operation():
            if narrow == buffer.dtype or not exact:
                self._sum(buffer, narrow)
            else:
                self._sum(buffer[: len(buffer) - exact], narrow)
                self._sum(buffer[len(buffer) - exact :], buffer.dtype)

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

    def _sum(self, buffer: NDArray[Any], narrow: np.dtype[Any]) -> None:
        if buffer.nbytes <= SMALL_BYTES:
            self._sum_whole(buffer, narrow)
        else:
            with np.errstate(all="ignore"):  # infinities and NaN are the model's
                self._sum_in_segments(buffer, narrow)

    def _sum_whole(self, buffer: NDArray[Any], narrow: np.dtype[Any]) -> None:
        rank, size, link = self.place.rank, self.place.size, self._link
        row_bytes = HEADER_BYTES + len(buffer) * narrow.itemsize
        rows = self._scratch_bytes(size * row_bytes).reshape(size, row_bytes)
        values = [row[HEADER_BYTES:].view(narrow) for row in rows]
        header = self._header(Kind.SUM_WHOLE, buffer.nbytes, narrow.char)
        rows[rank, :HEADER_BYTES] = np.frombuffer(header.pack(), np.uint8)
        with np.errstate(all="ignore"):
            values[rank][...] = buffer
            for hop in range(size - 1):
                link.queue(rows[(rank - hop) % size].data)
                coming = rows[(rank - hop - 1) % size]
                link.receive(coming.data)
                header.check(coming[:HEADER_BYTES].tobytes())
            link.drain()
            np.add(values[0], values[1], out=buffer, dtype=buffer.dtype)
            for value in values[2:]:
                np.add(buffer, value, out=buffer)

    def _sum_in_segments(self, buffer: NDArray[Any], narrow: np.dtype[Any]) -> None:
        rank, size, link = self.place.rank, self.place.size, self._link
        hops = 2 * (size - 1)
        blocks = -(-buffer.nbytes // (size * SEGMENT_BYTES))
        # What travels: the buffer itself, or its rounded copy.
        travels = buffer if narrow == buffer.dtype else self._mirror_of(len(buffer), narrow)
        incoming = self._scratch_bytes(SEGMENT_BYTES + buffer.itemsize)

        def segment(block: int, chunk: int) -> slice:
            begin, end = len(buffer) * block // blocks, len(buffer) * (block + 1) // blocks
            return slice(begin + (end - begin) * chunk // size, begin + (end - begin) * (chunk + 1) // size)

        header = self._header(Kind.SUM, buffer.nbytes, narrow.char)
        link.queue(memoryview(header.pack()))
        for tick in range(blocks + hops * _LAG):
            if tick < blocks:
                own = segment(tick, rank)
                if travels is not buffer:
                    travels[own] = buffer[own]
                link.queue(_raw(travels[own]))
            if tick == _LAG:
                header.check(self._receive_header())
            for hop in range(hops):
                block = tick - _LAG * (hop + 1)
                if not 0 <= block < blocks:
                    continue
                part = segment(block, (rank - hop - 1) % size)
                here, travelling = buffer[part], travels[part]
                if hop < size - 1:
                    added = incoming[: travelling.nbytes]
                    link.receive(added.data)
                    np.add(here, added.view(narrow), out=here)
                    if travels is not buffer:
                        travelling[...] = here
                else:
                    link.receive(_raw(travelling))
                if travels is not buffer and hop >= size - 2:
                    here[...] = travelling  # complete: all have what travelled
                if hop < hops - 1:
                    link.queue(_raw(travelling))
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

    def _header(self, kind: Kind, length: int, dtype: str = "-") -> Header:
        return Header(kind, dtype, self._operations & 0xFFFFFFFF, length)

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
