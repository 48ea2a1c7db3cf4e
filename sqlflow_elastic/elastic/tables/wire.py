"""What workers and servers send each other: a header of fixed length, then a body of raw arrays.

Arrays are little-endian as they lie in memory. Ids travel in 4 bytes where a table has so few of them. One connection
belongs to one worker in one world; `elastic.comm.handshake` opens it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.models.tables.spec import TableSpec

Ids = NDArray[np.int64]
Numbers = NDArray[Any]

#: What an exchange has.
GRADIENTS, LOOKUP = 1, 2
#: Of a snapshot: none is wanted where one is under way; and what is answered then.
YIELDS, YIELDED = 1, "another snapshot is under way"

_HEADER = struct.Struct("<BxxxIqQ")
HEADER_BYTES = _HEADER.size
#: No body is longer.
MOST_BYTES = 1 << 40
#: The longest first message of a stranger who knows the token.
MOST_ENTER_BYTES = 64 << 20


class Kind(IntEnum):
    """Of a message."""

    # From a worker.
    #: JSON, see `Enter`.
    ENTER = 1
    #: For a step: how many ids of each table (int64), then the ids.
    WANT = 2
    #: Of a step: learning rates (float64) and optimizers' steps (int64) of each table, then gradients.
    PUSH = 3
    #: Ids as for `WANT`: rows without making any.
    PEEK = 4
    #: After so many steps; with a tag, see `YIELDS`.
    SNAPSHOT = 5
    #: Ids as for `WANT`, then their rows: what they are if nobody said so before.
    ASSIGN = 6
    #: A worker that takes steps alone waits for work: nobody waits for it.
    IDLE = 7
    #: Of such a worker: as its tag says (`GRADIENTS`, `LOOKUP`), what `PUSH` has without ids, and ids as for `WANT`;
    #: ids are before gradients.
    EXCHANGE = 8

    # From a server.
    #: It stands at the step that was asked for.
    READY = 32
    #: Text for the user: the rows of a step are not there.
    REFUSED = 33
    #: All pushes of a step are applied: newest snapshot's step, bytes of memory, rows, steps applied (int64 each).
    APPLIED = 34
    #: Rows for a step; all of them, in the order of the ids.
    ROWS = 35
    #: Which rows of a step come now (bits), then those.
    EARLY_ROWS = 36
    #: The other rows of a step.
    LATE_ROWS = 37
    #: As asked with `PEEK`.
    PEEKED = 38
    #: The snapshot that was wanted after so many steps is finished; with a text: it failed.
    SAVED = 39
    #: To somebody who enters: that world is over.
    OVER = 40
    #: An exchange is done: as `APPLIED`, then the rows that were wanted.
    GIVEN = 41
    #: It is not done yet, as others are far behind; the server lives.
    HELD = 42


@dataclass(frozen=True)
class Header:
    """Of a message.

    Attributes:
        kind: which.
        tag: a small number, for what the kind needs one.
        step: that it is about.
        length: bytes of the body.
    """

    kind: Kind
    tag: int
    step: int
    length: int

    def pack(self) -> bytes:
        """As bytes."""
        return _HEADER.pack(self.kind, self.tag, self.step, self.length)

    @classmethod
    def unpack(cls, data: bytes | bytearray | memoryview) -> Header:
        """The inverse. Raises: ValueError: it is none."""
        kind, tag, step, length = _HEADER.unpack(data)
        if length > MOST_BYTES:
            raise ValueError(f"a message of {length} bytes")
        return cls(Kind(kind), tag, step, length)


def message(kind: Kind, step: int, parts: Sequence[Any] = (), tag: int = 0) -> list[memoryview]:
    """A message as the buffers to send."""
    body = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
    return [memoryview(Header(kind, tag, step, sum(map(len, body))).pack()), *body]


class Format:
    """How lookups of some tables are written.

    Args:
        specs: the tables.

    Attributes:
        tables: how many.
    """

    def __init__(self, specs: Sequence[TableSpec]) -> None:
        self.tables = len(specs)
        self._ids = [np.dtype(np.int32 if spec.rows < 2**31 else np.int64) for spec in specs]
        self._rows = [(np.dtype(spec.dtype), spec.width) for spec in specs]

    def ids(self, ids: Sequence[Ids]) -> list[Numbers]:
        """The parts of a body with ids of each table."""
        counts = np.array([len(each) for each in ids], np.int64)
        return [counts, *(np.ascontiguousarray(each, dtype) for each, dtype in zip(ids, self._ids, strict=True))]

    def read_ids(self, body: memoryview) -> tuple[list[Ids], memoryview]:
        """Ids of each table, and the rest of the body. Raises: ValueError: it is too short."""
        counts, body = take(body, np.dtype(np.int64), len(self._ids))
        ids = []
        for count, dtype in zip(counts.tolist(), self._ids, strict=True):
            each, body = take(body, dtype, count)
            ids.append(each.astype(np.int64, copy=False))
        return ids, body

    def read_rows(self, body: memoryview, counts: Sequence[int]) -> list[Numbers]:
        """Rows of each table, [count, width], in the body's memory. Raises: ValueError: it is not so long."""
        rows = []
        for count, (dtype, width) in zip(counts, self._rows, strict=True):
            each, body = take(body, dtype, count * width)
            rows.append(each.reshape(count, width))
        if len(body):
            raise ValueError(f"{len(body)} bytes too many")
        return rows


def take(body: memoryview, dtype: np.dtype[Any], count: int) -> tuple[Numbers, memoryview]:
    """Some numbers at the beginning of a body, in its memory, and the rest of it. Raises: ValueError: too short."""
    size = count * dtype.itemsize
    if not 0 <= size <= len(body):
        raise ValueError(f"{size} bytes are wanted, and {len(body)} are there")
    array = np.frombuffer(body[:size], dtype) if size else np.empty(0, dtype)
    return array, body[size:]
