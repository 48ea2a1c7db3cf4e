"""A world of one: nothing to exchange."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import operands
from sqlflow_elastic.elastic.comm.base import BytesLike, Communicator, Place, WorldBroken


class Alone(Communicator):
    """See `Communicator`. No socket; every call returns at once."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._ended: str | None = None

    def allreduce(
        self, buffers: Sequence[NDArray[Any]], into: Sequence[NDArray[Any]] | None = None, exact: int = 0
    ) -> None:
        """See `Communicator.allreduce`."""
        targets = operands.check_sum(buffers, into, exact)
        self._check_alive()
        for buffer, target in zip(buffers, targets, strict=True):
            if target is not buffer:
                target[...] = buffer

    def allgather(self, data: BytesLike) -> list[memoryview]:
        """See `Communicator.allgather`."""
        self._check_alive()
        return [operands.as_bytes(data)]

    def broadcast(
        self, payload: Sequence[BytesLike] | None, root: int, receivers: Collection[int]
    ) -> list[NDArray[np.uint8]] | None:
        """See `Communicator.broadcast`."""
        operands.check_broadcast(self.place, payload, root, receivers)
        self._check_alive()
        return None

    def abort(self, reason: str) -> None:
        """See `Communicator.abort`."""
        self._ended = self._ended or reason

    def close(self) -> None:
        """See `Communicator.close`."""
        self.abort("closed")

    def _check_alive(self) -> None:
        if self._ended is not None:
            raise WorldBroken(self._ended)
