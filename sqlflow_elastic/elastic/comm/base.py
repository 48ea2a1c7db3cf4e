"""The contract of a communicator: how the members of a world exchange what a training step and a state transfer need.

What every implementation guarantees:

- **One result.** What `Communicator.allreduce` leaves is equal bit by bit on all members: each element is summed once,
  in one order, and everybody gets that sum. Where the wire has a narrower dtype than the buffers, all get the same
  rounded values.
- **Members only.** Both ends of a connection prove that they know the job's token before a byte of the other's is used,
  for one world's version and for their ranks in it; what was recorded of one connection opens no other. A stranger is
  dropped, and neither delays nor breaks what goes on. The token does not travel.
- **One world.** A connection belongs to the version it was made for. Bytes of another world never enter this one.
- **Deadlines.** A call that waits without a byte from or to a neighbour for the step deadline fails. Nothing waits for
  ever, on a process that is stopped or on a machine that is gone.
- **Broken is broken for all.** A member that fails closes its connections, so its neighbours fail, and theirs: the
  whole world has it in milliseconds. After `WorldBroken` a communicator does nothing any more, and what it was given
  to write to holds anything.
- **Nothing is left behind.** `close`, `abort` and every failure free the sockets; there are no threads.

All members call the same operations in the same order, with buffers of the same lengths and dtype. One that does not is
found out (`WorldBroken`, "out of step"), not summed up. A communicator is used by one thread at a time, but for
`abort`, which any thread may call.

What travels is neither encrypted nor signed after the proof: the network between members is the cluster's own.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: What gives its bytes without a copy.
BytesLike: TypeAlias = bytes | bytearray | memoryview | NDArray[Any]


class WorldBroken(Exception):  # noqa: N818 - not an error of this process: it happens to a world
    """The ring is of no use any more: a member died, aborted or is too slow, or `Communicator.abort` was called here.

    Args:
        reason: for people: what this member saw.
        suspect: the rank it saw failing, None if it saw none. A neighbour that closed its connections because another
            one failed is named as well: a suspect that reports a broken world itself is not the dead one.
    """

    def __init__(self, reason: str, suspect: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.suspect = suspect


class WireDtype(enum.StrEnum):
    """In what dtype floats travel; sums stay in the buffer's. One no narrower than the buffer's has no effect."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


@dataclass(frozen=True)
class Place:
    """Where this process stands in a world.

    Attributes:
        version: the world's; grows with each world of a job.
        rank: 0 … size - 1.
        size: members of the world.
        next: address ("host:port") of the endpoint of rank + 1 (modulo size); not looked at in a world of one.
    """

    version: int
    rank: int
    size: int
    next: str

    def __post_init__(self) -> None:
        if not (0 <= self.version < 2**63 and 0 <= self.rank < self.size < 2**31):
            raise ValueError(f"no place in a world: version {self.version}, rank {self.rank} of {self.size}")


class Communicator(abc.ABC):
    """A member's connections in one world. Made by `comm.Endpoint.connect`; a context manager that closes itself.

    Attributes:
        place: where this member stands.
    """

    place: Place

    @abc.abstractmethod
    def allreduce(
        self, buffers: Sequence[NDArray[Any]], into: Sequence[NDArray[Any]] | None = None, exact: int = 0
    ) -> None:
        """Sum vectors over all members.

        Args:
            buffers: any number, but at least one, of contiguous vectors ``[n]``, all of one dtype: float32, float64 or
                int64. Their lengths may differ from each other, 0 among them, but not between members. Only read when
                ``into`` is given.
            into: takes the sums: for each buffer a contiguous, writable vector of its length and dtype, which is the
                buffer itself or shares no memory with any buffer or other sum; None: the buffers themselves.
            exact: so many elements at the end of the last buffer travel in their own dtype whatever the wire's is:
                counts, flags.

        Blocks until all members are in the call; fails after the step deadline without progress. One member alone:
        returns at once.

        Raises:
            WorldBroken: what takes the sums holds anything.
            TypeError, ValueError: they are no such vectors; nothing was sent.
        """

    @abc.abstractmethod
    def allgather(self, data: BytesLike) -> list[memoryview]:
        """Everybody's bytes, in the order of ranks.

        Args:
            data: this member's, contiguous, of any length, which need not be the others'. Not copied: it stands in the
                result as it is.

        Blocks as `allreduce` does.

        Raises:
            WorldBroken: see there.
            TypeError, ValueError: no contiguous bytes; nothing was sent.
        """

    @abc.abstractmethod
    def broadcast(
        self, payload: Sequence[BytesLike] | None, root: int, receivers: Collection[int]
    ) -> list[NDArray[np.uint8]] | None:
        """Send the root's buffers to the receivers, along the ring; members between pass on what comes.

        Args:
            payload: the root's buffers, any number, each contiguous and of any length; None at the others.
            root: whose they are.
            receivers: who gets them; the root among them counts for nothing.

        Returns:
            One array of uint8 ``[bytes]`` a buffer at a receiver; None at the root and at the others.

        Blocks until this member has sent and got its part (what is sent may still be under way in the network); fails
        after the step deadline without progress, however long the whole takes. Members behind the last receiver return
        at once.

        Raises:
            WorldBroken: a receiver has nothing.
            TypeError, ValueError: an argument is wrong; nothing was sent.
        """

    @abc.abstractmethod
    def abort(self, reason: str) -> None:
        """End it, from any thread and at any time: what blocks here raises `WorldBroken` with this reason at once.

        So does what is called later. The neighbours see the connections closed. Does not block.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """End it; what was sent still arrives. Does not block. Closing twice, or after `abort`, does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
