"""What is given to a communicator, checked before a byte is sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm.base import BytesLike, Place

_DTYPES = frozenset({np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)})


def check_sum(buffer: NDArray[Any], exact: int) -> None:
    """Whether `Communicator.allreduce` takes it. Raises: TypeError, ValueError."""
    if not isinstance(buffer, np.ndarray) or buffer.dtype not in _DTYPES:
        given = getattr(buffer, "dtype", type(buffer))
        raise TypeError(f"a buffer of float32, float64 or int64 is wanted, not {given}")
    if buffer.ndim != 1 or not buffer.flags.c_contiguous or not buffer.flags.writeable:
        raise ValueError(f"a contiguous, writable vector is wanted, not one of shape {buffer.shape}")
    if not 0 <= exact <= len(buffer):
        raise ValueError(f"the last {exact} of {len(buffer)} elements cannot be exact")


def check_broadcast(
    place: Place, payload: Sequence[BytesLike] | None, root: int, receivers: Collection[int]
) -> list[memoryview]:
    """The root's buffers as bytes, none at other members. Raises: TypeError, ValueError."""
    strangers = {rank for rank in (root, *receivers) if not 0 <= rank < place.size}
    if strangers:
        raise ValueError(f"no members of a world of {place.size}: {sorted(strangers)}")
    if (payload is None) == (place.rank == root):
        raise ValueError("the root, and only the root, has a payload")
    return [as_bytes(data) for data in payload or ()]


def as_bytes(data: BytesLike) -> memoryview:
    """A flat view of an object's bytes. Raises: TypeError, ValueError."""
    if isinstance(data, np.ndarray):
        if not data.flags.c_contiguous:
            raise ValueError(f"a contiguous array is wanted, not strides {data.strides}")
        return data.reshape(-1).view(np.uint8).data
    view = memoryview(data)
    if not view.c_contiguous:
        raise ValueError("contiguous bytes are wanted")
    return view.cast("B") if view.nbytes else memoryview(b"")
