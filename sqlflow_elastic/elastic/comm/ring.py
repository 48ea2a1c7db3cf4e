"""The ring over TCP: each member receives from the one before it and sends to the one after it.

A large sum goes around twice in chunks, one chunk a member: on the first way round each member adds its part and passes
the sum on, so that chunk c is complete at member c - 1; on the second way the complete chunks are passed on to all. A
chunk travels in segments, and a segment is passed on as soon as it is added: the whole is one stream in and one stream
out, the second a chunk behind the first. Each member sends 2 (n - 1) / n of the buffer.

A small one goes around once, whole: everybody gets everybody's buffer and adds them up in the order of ranks. That
takes half as many hops.

Each operation begins with a header (`Header`), so that members that are not in the same one find out.
"""

from __future__ import annotations

import enum
import struct
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import operands
from sqlflow_elastic.elastic.comm.base import BytesLike, Communicator, Place, WireDtype, WorldBroken
from sqlflow_elastic.elastic.comm.link import Link
from sqlflow_elastic.elastic.comm.wire import wire_dtype

#: A buffer of at most so many bytes goes around whole.
SMALL_BYTES = 32 << 10
#: Of a segment: stays in a core's cache from the socket to the sum.
SEGMENT_BYTES = 256 << 10
#: Of a piece of a broadcast.
PIECE_BYTES = 1 << 20
#: Pieces that a member which only passes them on holds.
_HELD_PIECES = 4

_HEADER = struct.Struct("<IIQ")
_LENGTH = struct.Struct("<Q")


class _Kind(enum.IntEnum):
    SUM = 1
    WHOLE_SUM = 2
    GATHER = 3
    BROADCAST = 4


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
                link.queue(memoryview(self._header(_Kind.GATHER, len(block))))
                link.queue(block)
                block = np.empty(self._receive_header(_Kind.GATHER), np.uint8).data
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
                self._sum_in_chunks(buffer, narrow)

    def _sum_whole(self, buffer: NDArray[Any], narrow: np.dtype[Any]) -> None:
        rank, size, link = self.place.rank, self.place.size, self._link
        start, row_bytes = _HEADER.size, _HEADER.size + len(buffer) * narrow.itemsize
        rows = self._scratch_bytes(size * row_bytes).reshape(size, row_bytes)
        values = [row[start:].view(narrow) for row in rows]
        header = self._header(_Kind.WHOLE_SUM, buffer.nbytes)
        rows[rank, :start] = np.frombuffer(header, np.uint8)
        with np.errstate(all="ignore"):
            values[rank][...] = buffer
            for hop in range(size - 1):
                link.queue(rows[(rank - hop) % size].data)
                coming = rows[(rank - hop - 1) % size]
                link.receive(coming.data)
                self._check_header(_Kind.WHOLE_SUM, coming[:start].tobytes(), buffer.nbytes)
            link.drain()
            np.add(values[0], values[1], out=buffer, dtype=buffer.dtype)
            for value in values[2:]:
                np.add(buffer, value, out=buffer)

    def _sum_in_chunks(self, buffer: NDArray[Any], narrow: np.dtype[Any]) -> None:
        rank, size, link = self.place.rank, self.place.size, self._link
        pieces = -(-buffer.nbytes // (size * SEGMENT_BYTES))
        length = len(buffer)
        # What travels: the buffer itself, or its rounded copy.
        travels = buffer if narrow == buffer.dtype else self._mirror_of(length, narrow)
        incoming = self._scratch_bytes(SEGMENT_BYTES + 64)

        def segment(chunk: int, piece: int) -> slice:
            begin, end = length * chunk // size, length * (chunk + 1) // size
            return slice(begin + (end - begin) * piece // pieces, begin + (end - begin) * (piece + 1) // pieces)

        link.queue(memoryview(self._header(_Kind.SUM, buffer.nbytes)))
        for piece in range(pieces):
            part = segment(rank, piece)
            if travels is not buffer:
                travels[part] = buffer[part]
            link.queue(_raw(travels[part]))
        self._receive_header(_Kind.SUM, buffer.nbytes)
        for hop in range(2 * (size - 1)):
            chunk = (rank - hop - 1) % size
            for piece in range(pieces):
                part = segment(chunk, piece)
                here, travelling = buffer[part], travels[part]
                if hop < size - 1:
                    added = incoming[: travelling.nbytes].view(narrow)
                    link.receive(_raw(added))
                    np.add(here, added, out=here)
                    if travels is not buffer:
                        travelling[...] = here
                else:
                    link.receive(_raw(travelling))
                if travels is not buffer and hop >= size - 2:
                    here[...] = travelling  # complete: all have what travelled
                if hop < 2 * size - 3:
                    link.queue(_raw(travelling))
        link.drain()

    def _send_all(self, views: list[memoryview]) -> None:
        self._link.queue(memoryview(self._header(_Kind.BROADCAST, len(views))))
        self._link.queue(memoryview(b"".join(_LENGTH.pack(len(view)) for view in views)))
        for view in views:
            self._link.queue(view)
        self._link.drain()

    def _pass_on(self, wanted: bool, further: bool) -> list[NDArray[np.uint8]] | None:
        link = self._link
        count = self._receive_header(_Kind.BROADCAST)
        lengths = np.empty(count, "<u8")
        link.receive(_raw(lengths))
        if further:
            link.queue(memoryview(self._header(_Kind.BROADCAST, count)))
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

    def _header(self, kind: _Kind, length: int) -> bytes:
        return _HEADER.pack(kind, self._operations & 0xFFFFFFFF, length)

    def _receive_header(self, kind: _Kind, length: int | None = None) -> int:
        """The length that the previous member's header tells, which has to be ``length`` if that is given."""
        header = bytearray(_HEADER.size)
        self._link.receive(memoryview(header))
        return self._check_header(kind, header, length)

    def _check_header(self, kind: _Kind, header: bytes | bytearray, length: int | None) -> int:
        its_kind, its_number, its_length = _HEADER.unpack(header)
        number = self._operations & 0xFFFFFFFF
        if (its_kind, its_number) != (kind, number) or length not in (None, its_length):
            raise WorldBroken(
                f"members are out of step: operation {number} is {kind.name} of {length} here, "
                f"and another member's operation {its_number} is of kind {its_kind}, of {its_length}"
            )
        return int(its_length)

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
