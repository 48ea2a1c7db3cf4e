"""What each operation begins with on the wire, so that members that are not in the same one find out."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from sqlflow_elastic.elastic.comm.base import WorldBroken

_LAYOUT = struct.Struct("<BcHIQ")
HEADER_BYTES = _LAYOUT.size


class Kind(enum.IntEnum):
    """The operations, as they differ on the wire."""

    SUM = 1
    SUM_WHOLE = 2
    GATHER = 3
    BROADCAST = 4
    SUM_SHARED = 5


@dataclass(frozen=True)
class Header:
    """What a member says that it does.

    Attributes:
        kind: the operation.
        dtype: NumPy's character for what travels, of a sum.
        split: checksum of 16 bits of how the bytes of a sum are parted; 0 of other operations.
        number: of the operation in this communicator, modulo 2**32.
        length: bytes of all buffers or of the block; of a broadcast the number of buffers.
    """

    kind: Kind
    dtype: str
    split: int
    number: int
    length: int

    def pack(self) -> bytes:
        """Its bytes [HEADER_BYTES]."""
        return _LAYOUT.pack(self.kind, self.dtype.encode(), self.split, self.number, self.length)

    def check(self, data: bytes | bytearray | memoryview) -> None:
        """Whether another member does just the same. Raises: WorldBroken."""
        if data != self.pack():
            self._out_of_step(data)

    def check_operation(self, data: bytes | bytearray | memoryview) -> int:
        """The length of another member that does the same with a length of its own. Raises: WorldBroken."""
        kind, dtype, _, number, length = _LAYOUT.unpack(data)
        if (kind, dtype, number) != (self.kind, self.dtype.encode(), self.number):
            self._out_of_step(data)
        return int(length)

    def _out_of_step(self, data: bytes | bytearray | memoryview) -> None:
        kind, dtype, split, number, length = _LAYOUT.unpack(data)
        name = next((known.name for known in Kind if known == kind), f"of kind {kind}")
        raise WorldBroken(
            f"members are out of step: operation {self.number} is {self.kind.name} of {self.length} "
            f"({self.dtype}, split {self.split:04x}), but another's {number} is {name} of {length} "
            f"({dtype.decode('ascii', 'replace')}, split {split:04x})"
        )
