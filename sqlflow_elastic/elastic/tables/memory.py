"""Arrays that take memory only where they are used."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Linux: promise no memory for it. Python's module has had a name for it since 3.13 only.
_NO_RESERVE = 0x4000


def lazy_zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros, whose pages take memory when they are first written. It is freed with the array.

    Raises:
        MemoryError: the process has no address space for it.
    """
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if not size:
        return np.zeros(shape, dtype)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"no room for {size:,} bytes: {error}") from error
    return np.frombuffer(pages, dtype).reshape(shape)
