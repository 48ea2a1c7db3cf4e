"""A trained table in a file, read row by row without loading it.

Rows stand in the ascending order of their ids:

    rows [n, width] · ids int64 [n] · index: the first id of each 4,096, int64 · JSON: spec, rows, checksums · its
    length (8 bytes) · "sqltable"

all little-endian. To find a row, the index is read and then only a part of the ids. A file may stand inside of another
one, such as an uncompressed member of a zip archive.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.models.tables.initial import first_rows
from sqlflow_elastic.models.tables.spec import TableSpec

_MAGIC = b"sqltable"
_TAIL = struct.Struct("<Q8s")
_CHECKED_BYTES = 8 << 20
#: Ids for each one in the index; a power of two.
_INDEXED = 4096

Ids = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def write_table_file(path: Path, spec: TableSpec, chunks: Iterable[tuple[Ids, NDArray[Any]]]) -> int:
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
            index = []
            for ids, rows in chunks:
                data = np.ascontiguousarray(rows, spec.dtype).tobytes()
                id_data = np.ascontiguousarray(ids, np.int64).tobytes()
                checksum, ids_checksum = zlib.crc32(data, checksum), zlib.crc32(id_data, ids_checksum)
                file.write(data)
                all_ids.write(id_data)
                index.append(ids[-count % _INDEXED :: _INDEXED])
                count += len(ids)
            all_ids.seek(0)
            while piece := all_ids.read(_CHECKED_BYTES):
                file.write(piece)
            index_data = np.concatenate([np.empty(0, np.int64), *index]).tobytes()
            file.write(index_data)
            said = {"spec": spec.to_json(), "rows": count, "crc": [checksum, ids_checksum, zlib.crc32(index_data)]}
            text = json.dumps(said).encode()
            file.write(text + _TAIL.pack(len(text), _MAGIC))
            file.flush()
            os.fsync(file.fileno())
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    return count


class Content(Protocol):
    """The bytes of a table's file."""

    @property
    def name(self) -> str:
        """What to call the file in messages."""
        ...

    @property
    def data(self) -> Bytes:
        """All of it, [bytes]; what was not asked for by `need` may be zeros."""
        ...

    def need(self, starts: NDArray[np.int64], length: int) -> None:
        """Have ``length`` bytes from each of some places on in `data`. Raises: OSError."""
        ...


class MappedContent:
    """A local file, or a part of one, mapped.

    Args:
        path: of the file.
        start, size: the bytes of the file that are the table; all of them if not given.

    Raises: OSError, ValueError: it cannot be mapped.
    """

    def __init__(self, path: Path, start: int = 0, size: int | None = None) -> None:
        self.name = str(path)
        self.data: Bytes = np.memmap(path, np.uint8, "r", offset=start, shape=None if size is None else (size,))

    def need(self, starts: NDArray[np.int64], length: int) -> None:
        """All is there."""


class TableFile:
    """A table in a file.

    Args:
        file: a local path, or content that is somewhere else.

    Attributes:
        name: what to call it in messages.
        spec: what it is.
        count: rows that were trained.
        bytes: of the file.
        digest: of its end, which has the checksums of all of it: two files with the same one are the same.

    Raises:
        ModelStoreError: it is missing or damaged.
    """

    def __init__(self, file: Path | Content) -> None:
        self.name = str(file) if isinstance(file, Path) else file.name
        try:
            content = MappedContent(file) if isinstance(file, Path) else file
            text = _end(content)
            said = json.loads(text)
            self.spec = TableSpec.from_json(said["spec"])
            self.count = int(said["rows"])
            dtype, width = np.dtype(self.spec.dtype), self.spec.width
            ids_at = self.count * width * dtype.itemsize
            index_at = ids_at + 8 * self.count
            indexed = -(-self.count // _INDEXED)
            checksum, ids_checksum, index_checksum = map(int, said["crc"])
            content.need(np.array([index_at]), 8 * indexed)
        except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
            raise self._damaged(str(error)) from error
        self.bytes = len(content.data)
        if self.bytes != index_at + 8 * indexed + len(text) + _TAIL.size:
            raise self._damaged("it is too short or too long")
        self.digest = hashlib.sha256(text).hexdigest()
        self._content = content
        self._rows = content.data[:ids_at].view(dtype).reshape(self.count, width)
        self._ids = content.data[ids_at:index_at].view(np.int64)
        self._index = np.array(content.data[index_at : index_at + 8 * indexed].view(np.int64))
        self._ids_at = ids_at
        if zlib.crc32(self._index.tobytes()) != index_checksum:
            raise self._damaged("a checksum is wrong")
        self._checksums = checksum, ids_checksum

    def rows(self, ids: Ids) -> NDArray[Any]:
        """Rows, [n, width]; those that were never trained are what they begin with.

        Raises: ModelStoreError: the file cannot be read.
        """
        if not self.count or not len(ids):
            return first_rows(self.spec, ids)
        try:
            places = self._places(ids)
            found = self._ids[places] == ids
            self._content.need(places[found] * self._row_bytes, self._row_bytes)
        except OSError as error:
            raise self._damaged(str(error)) from error
        rows = np.empty((len(ids), self.spec.width), self.spec.dtype)
        rows[found] = self._rows[places[found]]
        lacking = np.flatnonzero(~found)
        if len(lacking):
            rows[lacking] = first_rows(self.spec, ids[lacking])
        return rows

    def ids(self, start: int, stop: int) -> Ids:
        """Those of [start, stop) that were trained, ascending. Raises: ModelStoreError: the file cannot be read."""
        if not self.count:
            return self._ids
        try:
            before = np.array([start, stop]) - 1
            places = self._places(before)
            first, last = (places + (self._ids[places] <= before)).tolist()
            self._content.need(np.array([self._ids_at + 8 * first]), 8 * (last - first))
        except OSError as error:
            raise self._damaged(str(error)) from error
        return self._ids[first:last]

    def chunks(self, rows: int) -> Iterator[tuple[Ids, NDArray[Any]]]:
        """All trained rows in the order of their ids: ids [n] and rows [n, width], so many at a time.

        Raises: ModelStoreError: the file cannot be read.
        """
        for start in range(0, self.count, rows):
            stop = min(start + rows, self.count)
            try:
                self._content.need(np.array([start * self._row_bytes]), (stop - start) * self._row_bytes)
                self._content.need(np.array([self._ids_at + 8 * start]), 8 * (stop - start))
            except OSError as error:
                raise self._damaged(str(error)) from error
            yield self._ids[start:stop], self._rows[start:stop]

    def check(self) -> None:
        """Read all of it. Raises: ModelStoreError: it is damaged."""
        checksum = ids_checksum = 0
        for ids, rows in self.chunks(max(1, _CHECKED_BYTES // self._row_bytes)):
            checksum, ids_checksum = zlib.crc32(rows.tobytes(), checksum), zlib.crc32(ids.tobytes(), ids_checksum)
        if (checksum, ids_checksum) != self._checksums:
            raise self._damaged("a checksum is wrong")

    @property
    def _row_bytes(self) -> int:
        return self.spec.width * np.dtype(self.spec.dtype).itemsize

    def _places(self, ids: Ids) -> NDArray[np.int64]:
        """Where ids are, or the greatest ones below them; 0 for those below all. Only parts of the ids are read."""
        blocks = np.maximum(np.searchsorted(self._index, ids, "right") - 1, 0)
        places = blocks * _INDEXED
        starts = np.unique(places)
        for some in (starts[starts + _INDEXED <= self.count], starts[starts + _INDEXED > self.count]):
            if len(some):
                self._content.need(self._ids_at + 8 * some, 8 * min(_INDEXED, self.count - int(some[-1])))
        step = _INDEXED // 2
        while step:
            further = np.minimum(places + step, self.count - 1)
            places = np.where((places + step < self.count) & (self._ids[further] <= ids), further, places)
            step //= 2
        return places

    def _damaged(self, what: str) -> ModelStoreError:
        return damaged(self.name, what)


def damaged(name: str, what: str) -> ModelStoreError:
    """A table's file of some name is not as it was written."""
    return ModelStoreError(
        f"the model's table {name} is missing or damaged ({what}); put it back as it was, or train the model again"
    )


def _end(content: Content) -> bytes:
    """The JSON at the end. Raises: OSError, ValueError, struct.error: there is none."""
    size = len(content.data)
    content.need(np.array([max(0, size - _TAIL.size)]), min(size, _TAIL.size))
    length, magic = _TAIL.unpack(bytes(content.data[-_TAIL.size :]))
    start = size - _TAIL.size - length
    if magic != _MAGIC or start < 0:
        raise ValueError("it does not end as one")
    content.need(np.array([start]), length)
    return bytes(content.data[start : size - _TAIL.size])


class TableFiles:
    """All tables of a model, as rows are read (`elastic.served.Rows`)."""

    def __init__(self, files: Sequence[TableFile]) -> None:
        self.files = files

    @property
    def specs(self) -> list[TableSpec]:
        """What they are."""
        return [file.spec for file in self.files]

    def peek(self, ids: Iterable[Ids]) -> list[NDArray[Any]]:
        """Of each table the rows of some ids, [n, width]."""
        return [file.rows(each) for file, each in zip(self.files, ids, strict=True)]
