"""A trained table in a file, read row by row without loading it.

Rows stand in the ascending order of their ids:

    rows [n, width] · ids int64 [n] · JSON: spec, rows, checksums · its length (8 bytes) · "sqltable"

all little-endian. A file may stand inside of another one, such as an uncompressed member of a zip archive.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.models.tables.initial import first_rows
from sqlflow_elastic.models.tables.spec import TableSpec

_MAGIC = b"sqltable"
_TAIL = struct.Struct("<Q8s")
_CHECKED_BYTES = 8 << 20


def write_table_file(path: Path, spec: TableSpec, chunks: Iterable[tuple[NDArray[np.int64], NDArray[Any]]]) -> int:
    """Write a table whole or not at all. Returns the number of its rows.

    Args:
        path: the file; its folder is there.
        spec: what the table is.
        chunks: ids [n], ascending through all of them, and rows [n, width].
    """
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file, tempfile.TemporaryFile(dir=path.parent) as all_ids:
            count = checksum = ids_checksum = 0
            for ids, rows in chunks:
                data = np.ascontiguousarray(rows, spec.dtype).tobytes()
                id_data = np.ascontiguousarray(ids, np.int64).tobytes()
                checksum, ids_checksum = zlib.crc32(data, checksum), zlib.crc32(id_data, ids_checksum)
                file.write(data)
                all_ids.write(id_data)
                count += len(ids)
            all_ids.seek(0)
            while piece := all_ids.read(_CHECKED_BYTES):
                file.write(piece)
            said = {"spec": spec.to_json(), "rows": count, "crc": checksum, "ids_crc": ids_checksum}
            text = json.dumps(said).encode()
            file.write(text + _TAIL.pack(len(text), _MAGIC))
            file.flush()
            os.fsync(file.fileno())
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    return count


class TableFile:
    """A table in a file, mapped.

    Args:
        path: of the file.
        start, size: the bytes of the file that are the table; all of them if not given.

    Attributes:
        spec: what it is.
        count: rows that were trained.

    Raises:
        ModelStoreError: it is missing or damaged.
    """

    def __init__(self, path: Path, start: int = 0, size: int | None = None) -> None:
        self._path = path
        try:
            data = np.memmap(path, np.uint8, "r", offset=start, shape=None if size is None else (size,))
            length, magic = _TAIL.unpack(bytes(data[-_TAIL.size :]))
            said = json.loads(bytes(data[-_TAIL.size - length : -_TAIL.size]))
            self.spec = TableSpec.from_json(said["spec"])
            self.count = int(said["rows"])
            dtype, width = np.dtype(self.spec.dtype), self.spec.width
            middle = self.count * width * dtype.itemsize
            self._rows = data[:middle].view(dtype).reshape(self.count, width)
            self.ids: NDArray[np.int64] = data[middle : middle + 8 * self.count].view(np.int64)
        except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
            raise ModelStoreError(f"the table {path} is missing or damaged: {error}") from error
        if magic != _MAGIC:
            raise ModelStoreError(f"the table {path} is damaged: it does not end as one")
        self._checksums = (said["crc"], said["ids_crc"])

    def rows(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Rows, [n, width]; those that were never trained are what they begin with."""
        if not self.count:
            return first_rows(self.spec, ids)
        places = np.minimum(np.searchsorted(self.ids, ids), self.count - 1)
        rows = self._rows[places]
        lacking = np.flatnonzero(self.ids[places] != ids)
        if len(lacking):
            rows[lacking] = first_rows(self.spec, ids[lacking])
        return rows

    def check(self) -> None:
        """Read all of it. Raises: ModelStoreError: it is damaged."""
        for array, right in zip((self._rows, self.ids), self._checksums, strict=True):
            checksum = 0
            data = array.reshape(-1).view(np.uint8)
            for start in range(0, len(data), _CHECKED_BYTES):
                checksum = zlib.crc32(data[start : start + _CHECKED_BYTES].tobytes(), checksum)
            if checksum != right:
                raise ModelStoreError(f"the table {self._path} is damaged: a checksum is wrong")


class TableFiles:
    """All tables of a model, as rows are read (`elastic.served.Rows`)."""

    def __init__(self, files: Iterable[TableFile]) -> None:
        self._files = list(files)

    @property
    def specs(self) -> list[TableSpec]:
        """What they are."""
        return [file.spec for file in self._files]

    def peek(self, ids: Iterable[NDArray[np.int64]]) -> list[NDArray[Any]]:
        """Of each table the rows of some ids, [n, width]."""
        return [file.rows(each) for file, each in zip(self._files, ids, strict=True)]
