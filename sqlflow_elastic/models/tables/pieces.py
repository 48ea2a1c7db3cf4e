"""A file that is elsewhere, of which pieces are copied here when they are needed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import fs

#: What is read at least.
PIECE_BYTES = 1 << 20
#: Pieces that are read at once at most; memory is theirs.
_PIECES_AT_ONCE = 16


class PiecesOf:
    """A file on a file system, as `table_file.Content`: each piece is read once, and kept on the local disk.

    The copy is a sparse file without a name: it takes as much room as was read, and goes with the process.

    Args:
        storage: the file system.
        path: of the file in it.
        name: what to call the file in messages.
        folder: where there is room for a copy.

    Raises: OSError: the file is not there.
    """

    def __init__(self, storage: fs.FileSystem, path: str, name: str, folder: Path) -> None:
        self.name = name
        info = storage.get_file_info(path)
        if info.type is not fs.FileType.File:
            raise FileNotFoundError("it is not there")
        size = int(info.size)
        self._file = storage.open_input_file(path)
        self._copy = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives as long as this object
        self._copy.truncate(max(size, 1))
        self.data: NDArray[np.uint8] = np.memmap(self._copy, np.uint8, "r+", shape=(max(size, 1),))[:size]
        self._have = np.zeros(-(-size // PIECE_BYTES), np.bool_)

    def need(self, starts: NDArray[np.int64], length: int) -> None:
        """Read the pieces that are not there yet; neighbouring ones in one request. Raises: OSError."""
        if not len(starts) or not length:
            return
        if int(starts.max()) + length > len(self.data):
            raise OSError("it is too short")
        first, last = np.unique(np.stack([starts, starts + length - 1]) // PIECE_BYTES, axis=1)
        # Each range may cover several pieces: +1 where one begins, -1 behind its end.
        covered = np.zeros(len(self._have) + 1, np.int64)
        np.add.at(covered, first, 1)
        np.add.at(covered, last + 1, -1)
        lacking = np.flatnonzero((np.cumsum(covered)[:-1] > 0) & ~self._have)
        runs = np.split(lacking, np.flatnonzero(np.diff(lacking) > 1) + 1)
        for run in runs:
            for at in range(0, len(run), _PIECES_AT_ONCE):
                self._read(run[at : at + _PIECES_AT_ONCE])

    def _read(self, pieces: NDArray[np.int64]) -> None:
        start = int(pieces[0]) * PIECE_BYTES
        stop = min((int(pieces[-1]) + 1) * PIECE_BYTES, len(self.data))
        try:
            read = self._file.read_at(stop - start, start)
        except pa.ArrowException as error:
            raise OSError(str(error)) from error
        if len(read) != stop - start:
            raise OSError("it is shorter than it was")
        self.data[start:stop] = np.frombuffer(read, np.uint8)
        self._have[pieces] = True
