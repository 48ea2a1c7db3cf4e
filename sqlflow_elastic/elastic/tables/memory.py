"""Arrays that take memory only where they are used."""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Linux: promise no memory for it. Python's module has had a name for it since 3.13 only.
_NO_RESERVE = 0x4000


def lazy_zeros(shape: tuple[int, ...], dtype: Any, *, filled: bool = False) -> NDArray[Any]:
    """Zeros, whose pages take memory when they are first written. It is freed with the array.

    Args:
        shape, dtype: the array's.
        filled: it is written from its beginning on without gaps, so pages may be large ones, which random access is
            faster in. They take up to 2 MB more.

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
    if filled:
        with contextlib.suppress(OSError):  # a kernel without large pages
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype).reshape(shape)


def release(array: NDArray[Any], first: int) -> None:
    """Give back the memory of a lazy array from the index ``first`` on. There are zeros again."""
    start = first * array[:1].nbytes
    page = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    array.reshape(-1).view(np.uint8)[start:page] = 0
    if page < array.nbytes:
        _pages(array).madvise(mmap.MADV_DONTNEED, page, array.nbytes - page)


def _pages(array: Any) -> mmap.mmap:
    while not isinstance(array, mmap.mmap):
        array = array.obj if isinstance(array, memoryview) else array.base
    return array
