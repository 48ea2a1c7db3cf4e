"""Rows of tables in a file: pieces one behind the other, each with its checksum.

A piece is a line (the CRC-32 of its JSON, and the JSON: table, rows, numbers in a row, dtype, CRC-32 of the arrays),
then ids (int64), then rows with their slots, all little-endian; the line is filled up so that arrays can be mapped. The
last line says how many pieces there are: a file that ends before it was cut off.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Numbers = NDArray[Any]

_LINE_BYTES = 256
_ALIGNMENT = 64


class SegmentError(Exception):
    """A file is missing, cut off or damaged. The text says which, and how it is seen."""


class SegmentWriter:
    """Writes a file that appears whole or not at all: under its name once `close` returns.

    Until then it is beside it: with a dot before its name, and the process behind it.

    Args:
        path: of the file; its folder is made.

    Raises: OSError.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._aside = path.with_name(f".{path.name}.{os.getpid()}")
        self._file = self._aside.open("wb")
        self._pieces = 0

    def add(self, table: int, ids: Ids, whole: Numbers) -> None:
        """Append rows of a table: ids [n], and the rows with their slots [n, w]. Raises: OSError."""
        ids, whole = np.ascontiguousarray(ids, "<i8"), np.ascontiguousarray(whole)
        whole = whole.astype(whole.dtype.newbyteorder("<"), copy=False)
        said = {"table": table, "rows": len(ids), "width": whole.shape[1], "dtype": whole.dtype.str}
        self._line({**said, "crc": _checksum(ids, whole)})
        for array in (ids, whole):
            self._file.write(array.data if array.size else b"")
            self._file.write(b"\0" * (-array.nbytes % _ALIGNMENT))
        self._pieces += 1

    def close(self) -> None:
        """The file is durable, under its name. Raises: OSError: it is not, and nothing is left of it."""
        if self._file.closed:
            return
        try:
            self._line({"pieces": self._pieces})
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._aside.replace(self._path)
        except BaseException:
            self.abandon()
            raise
        sync_folder(self._path.parent)

    def abandon(self) -> None:
        """There will be no file."""
        with contextlib.suppress(OSError):  # what was not written yet is written now, and may find no room
            self._file.close()
        self._aside.unlink(missing_ok=True)

    def _line(self, said: dict[str, Any]) -> None:
        text = json.dumps(said).encode()
        self._file.write((b"%08x " % zlib.crc32(text) + text).ljust(_LINE_BYTES - 1) + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()


def read_segment(path: Path, table: int, *, check: bool = True) -> Iterator[tuple[Ids, Numbers]]:
    """The pieces of a table in a file, mapped: ids [n], rows with slots [n, w].

    Args:
        path: of the file.
        table: whose rows.
        check: the arrays' checksums. Without it only what is used of them is read; a file that was cut off is seen
            either way.

    Raises:
        SegmentError: it is missing, cut off or damaged.
    """
    try:
        data = np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise SegmentError(f"{path.name} cannot be read: {error}") from error
    at = pieces = 0
    while True:
        try:
            said = _said(bytes(data[at : at + _LINE_BYTES]))
            at += _LINE_BYTES
            if "pieces" in said:
                break
            count, width, dtype = said["rows"], said["width"], np.dtype(said["dtype"])
            ids = data[at : at + 8 * count].view("<i8")
            at += _padded(8 * count)
            size = count * width * dtype.itemsize
            whole = data[at : at + size].view(dtype).reshape(count, width)
            at += _padded(size)
        except (KeyError, TypeError, ValueError) as error:
            raise SegmentError(f"{path.name} is damaged or cut off: {error}") from error
        pieces += 1
        if said["table"] == table:
            if check and _checksum(ids, whole) != said["crc"]:
                raise SegmentError(f"{path.name} is damaged: a checksum is wrong")
            yield ids, whole
    if said["pieces"] != pieces:
        raise SegmentError(f"{path.name} is damaged: it has {pieces} pieces of {said['pieces']}")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises: OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _said(line: bytes) -> dict[str, Any]:
    """Raises: ValueError: it is not as it was written."""
    checksum, _, text = line.rstrip().partition(b" ")
    if len(line) != _LINE_BYTES or int(checksum, 16) != zlib.crc32(text):
        raise ValueError("a line does not say what was written")
    said: dict[str, Any] = json.loads(text)
    return said


def _checksum(ids: Ids, whole: Numbers) -> int:
    return zlib.crc32(whole.data, zlib.crc32(ids.data)) if ids.size else 0


def _padded(size: int) -> int:
    return size + -size % _ALIGNMENT
