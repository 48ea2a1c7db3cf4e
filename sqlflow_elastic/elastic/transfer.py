"""A state as buffers that go from one process to another, and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.checkpoints import Checkpoint
from sqlflow_elastic.errors import JobError

Bytes = NDArray[np.uint8]


def packed(checkpoint: Checkpoint) -> list[Bytes]:
    """The buffers of a state: a JSON text that says what the others are, then each array's memory, not copied."""
    arrays = {name: _memory(array) for name, array in checkpoint.arrays.items()}
    header = {
        "step": checkpoint.step,
        "description": dict(checkpoint.description),
        "arrays": [[name, array.dtype.name, list(array.shape)] for name, array in arrays.items()],
    }
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return [text, *(np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays.values())]


def unpacked(buffers: list[Bytes]) -> Checkpoint:
    """The state that `packed` made buffers of; its arrays are in their memory.

    Raises:
        JobError: they are nothing of the kind.
    """
    try:
        header = json.loads(buffers[0].tobytes())
        described = zip(header["arrays"], buffers[1:], strict=True)
        arrays = {name: _array(buffer, np.dtype(dtype), shape) for (name, dtype, shape), buffer in described}
        return Checkpoint(int(header["step"]), arrays, header["description"])
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise JobError(f"a state cannot be read: {error}") from error


def _array(buffer: Bytes, dtype: np.dtype[Any], shape: list[int]) -> NDArray[Any]:
    return buffer.view(dtype).reshape(shape)


def _memory(array: Any) -> NDArray[Any]:
    """A tensor's own memory, where Python's buffer protocol knows its dtype."""
    if isinstance(array, np.ndarray):
        return array
    try:
        return np.asarray(memoryview(array))
    except (BufferError, ValueError):
        return np.asarray(array.numpy())
