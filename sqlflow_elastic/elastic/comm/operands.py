"""What is given to a communicator, checked before a byte is sent."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm.base import BytesLike, Place

_DTYPES = frozenset({np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)})


def check_sum(
    buffers: Sequence[NDArray[Any]], into: Sequence[NDArray[Any]] | None, exact: int
) -> Sequence[NDArray[Any]]:
    """Where the sums go, if `Communicator.allreduce` takes these. Raises: TypeError, ValueError."""
    if not len(buffers):
        raise ValueError("at least one buffer is wanted")
    for buffer in buffers:
        _check_vector(buffer, buffers[0].dtype if buffer is not buffers[0] else None, into is None)
    if not 0 <= exact <= len(buffers[-1]):
        raise ValueError(f"the last {exact} of {len(buffers[-1])} elements cannot be exact")
    if into is None:
        into = buffers
    else:
        if len(into) != len(buffers):
            raise ValueError(f"{len(buffers)} buffers have {len(into)} vectors for their sums")
        for buffer, target in zip(buffers, into, strict=True):
            _check_vector(target, buffer.dtype, True)
            if len(target) != len(buffer):
                raise ValueError(f"the sum of {len(buffer)} elements does not fit a vector of {len(target)}")
    if len(buffers) > 1 or into[0] is not buffers[0]:
        _check_apart(buffers, into)
    return into


def _check_vector(vector: NDArray[Any], dtype: np.dtype[Any] | None, writable: bool) -> None:
    """Whether it is a vector of the dtype, or of any that can be summed."""
    if not isinstance(vector, np.ndarray) or vector.dtype not in _DTYPES:
        given = vector.dtype if isinstance(vector, np.ndarray) else type(vector)
        raise TypeError(f"a vector of float32, float64 or int64 is wanted, not {given}")
    if dtype is not None and vector.dtype != dtype:
        raise TypeError(f"vectors of one dtype are wanted, not {dtype} and {vector.dtype}")
    if vector.ndim != 1 or not vector.flags.c_contiguous:
        raise ValueError(f"a contiguous vector is wanted, not one of shape {vector.shape}, strides {vector.strides}")
    if writable and not vector.flags.writeable:
        raise ValueError("a writable vector is wanted for the sum")


def _check_apart(buffers: Sequence[NDArray[Any]], into: Sequence[NDArray[Any]]) -> None:
    """Whether no sum overwrites what another is made of, or another sum."""
    spans = []
    for buffer, target in zip(buffers, into, strict=True):
        if length := buffer.nbytes:
            written = _address(target)
            read = written if target is buffer else _address(buffer)
            spans.append((written, written + length, True))
            if read != written:
                spans.append((read, read + length, False))
    spans.sort()
    end_read = end_written = 0  # of those before
    for begin, end, writes in spans:
        if begin < end_written or (writes and begin < end_read):
            raise ValueError("a vector for a sum shares memory with another or with another's buffer")
        if writes:
            end_written = end
        else:
            end_read = max(end_read, end)


def _address(vector: NDArray[Any]) -> int:
    """Of a vector's first element; it must have one."""
    if vector.flags.writeable:  # much faster than what NumPy has for it
        return ctypes.addressof(ctypes.c_char.from_buffer(vector.data))
    return vector.ctypes.data


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
