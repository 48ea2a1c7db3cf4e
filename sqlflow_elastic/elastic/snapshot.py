"""Snapshots: the rows of a SELECT, read once, immutable, as Arrow files on a storage URL.

A snapshot is a folder of parts (uncompressed Arrow IPC files of record batches of at most 65,536 rows) and of
``manifest.json``, which is written last and in one step: a folder without one is no snapshot. Storage is whatever
`pyarrow.fs` reaches: a local folder, ``file://``, ``s3://``, ``gs://``, ``hdfs://``.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyarrow import fs

from sqlflow_elastic.errors import DataError

BATCH_ROWS = 65_536
PART_BYTES = 256 << 20
MANIFEST = "manifest.json"
VERSION = 1


@dataclass(frozen=True)
class Part:
    """One file of a snapshot.

    Attributes:
        name: the file's name in the snapshot's folder.
        batches: rows of each of its record batches.
        bytes: the file's size.
    """

    name: str
    batches: tuple[int, ...]
    bytes: int

    @property
    def rows(self) -> int:
        """Rows of all its batches."""
        return sum(self.batches)


class SnapshotWriter:
    """Writes a new snapshot; used as a context manager. An exception inside leaves no manifest, hence no snapshot.

    Args:
        url: storage URL or local path of the folder; made if missing.
        schema: of all batches.
        description: kept in the manifest for people: the SELECT's text.
        part_bytes: a new part is begun after about this many bytes.

    Raises: DataError: there is a snapshot already.
    """

    def __init__(self, url: str, schema: pa.Schema, description: str, part_bytes: int = PART_BYTES) -> None:
        self.rows = 0
        self._schema = schema
        self._description = description
        self._part_bytes = part_bytes
        self._parts: list[Part] = []
        self._batches: list[int] = []
        self._file: Any = None
        self._ipc: Any = None
        self._storage, self._folder = _locate(url)
        if self._storage.get_file_info(f"{self._folder}/{MANIFEST}").type != fs.FileType.NotFound:
            raise DataError(f"there is a snapshot already at {url}")
        self._storage.create_dir(self._folder, recursive=True)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, in slices of at most 65,536."""
        for start in range(0, batch.num_rows, BATCH_ROWS):
            piece = batch.slice(start, BATCH_ROWS)
            if self._ipc is None:
                self._file = self._storage.open_output_stream(f"{self._folder}/{_part_name(len(self._parts))}")
                self._ipc = pa.ipc.new_file(self._file, self._schema)
            self._ipc.write_batch(piece)
            self._batches.append(piece.num_rows)
            self.rows += piece.num_rows
            if self._file.tell() >= self._part_bytes:
                self._end_part()

    def _end_part(self) -> None:
        self._ipc.close()
        size = self._file.tell()
        self._file.close()
        self._parts.append(Part(_part_name(len(self._parts)), tuple(self._batches), size))
        self._ipc = self._file = None
        self._batches = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ipc is not None:
            self._end_part()
        if kind is None:
            self._write_manifest()

    def _write_manifest(self) -> None:
        _write_manifest(self._storage, self._folder, self._schema, self._description, self._parts)


def write_part(url: str, index: int, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write one part of a snapshot that several processes write, whole or not at all; a part written twice is one part.

    Args:
        url: storage URL or local path of the snapshot's folder; made if missing.
        index: of the part, from 0 on.
        schema: of all batches of all parts.
        batches: of at most 65,536 rows each.
    """
    storage, folder = _locate(url)
    storage.create_dir(folder, recursive=True)
    name = _part_name(index)
    aside = f"{folder}/.{name}.{secrets.token_hex(4)}"
    try:
        with storage.open_output_stream(aside) as file, pa.ipc.new_file(file, schema) as ipc:
            for batch in batches:
                ipc.write_batch(batch)
        storage.move(aside, f"{folder}/{name}")
    except BaseException:
        if storage.get_file_info(aside).type is not fs.FileType.NotFound:
            storage.delete_file(aside)
        raise


def join_parts(url: str, count: int, schema: pa.Schema, description: str) -> None:
    """Make a snapshot of ``count`` parts that `write_part` wrote.

    Raises: DataError: one is missing or damaged.
    """
    storage, folder = _locate(url)
    parts = []
    for name in map(_part_name, range(count)):
        path = f"{folder}/{name}"
        try:
            with storage.open_input_file(path) as file:
                reader = pa.ipc.open_file(file)
                rows = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
                parts.append(Part(name, tuple(rows), file.size()))
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path} is damaged: {error}") from error
    _write_manifest(storage, folder, schema, description, parts)


def _part_name(index: int) -> str:
    return f"part-{index:05d}.arrow"


def _write_manifest(
    storage: fs.FileSystem, folder: str, schema: pa.Schema, description: str, parts: Sequence[Part]
) -> None:
    manifest = {
        "version": VERSION,
        "description": description,
        "rows": sum(part.rows for part in parts),
        "columns": [{"name": field.name, "type": str(field.type)} for field in schema],
        "schema": base64.b64encode(schema.serialize()).decode("ascii"),
        "parts": [asdict(part) for part in parts],
    }
    data = json.dumps(manifest, ensure_ascii=False, indent=1).encode()
    path = f"{folder}/{MANIFEST}"
    if not isinstance(storage, fs.LocalFileSystem):
        with storage.open_output_stream(path) as file:
            file.write(data)
        return
    aside = Path(f"{path}.tmp")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.rename(path)


@dataclass(frozen=True)
class Snapshot:
    """A written snapshot. Get one with `Snapshot.open`.

    Attributes:
        url: where it was opened.
        rows: number of rows.
        schema: of all batches.
        description: the SELECT's text.
        parts: its files, in the order of the rows.
    """

    url: str
    rows: int
    schema: pa.Schema
    description: str
    parts: tuple[Part, ...]

    @classmethod
    def open(cls, url: str) -> Self:
        """The snapshot at a storage URL or local path.

        Raises: DataError: there is none, or its manifest cannot be read.
        """
        storage, folder = _locate(url)
        try:
            with storage.open_input_stream(f"{folder}/{MANIFEST}") as file:
                manifest = json.loads(file.read())
            if manifest["version"] != VERSION:
                raise DataError(
                    f"the snapshot at {url} has version {manifest['version']}, this program reads {VERSION}"
                )
            return cls(
                url=url,
                rows=manifest["rows"],
                schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(manifest["schema"]))),
                description=manifest["description"],
                parts=tuple(Part(part["name"], tuple(part["batches"]), part["bytes"]) for part in manifest["parts"]),
            )
        except FileNotFoundError as error:
            raise DataError(f"there is no snapshot at {url}") from error
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise DataError(f"{folder}/{MANIFEST} cannot be read: {error}") from error

    def ranges(self, rows: int) -> list[tuple[int, int]]:
        """The rows cut into ranges ``(start, stop)`` of whole batches, each of at least ``rows`` rows but the last."""
        ends, start, stop = [], 0, 0
        for part in self.parts:
            for batch in part.batches:
                stop += batch
                if stop - start >= rows:
                    ends.append((start, stop))
                    start = stop
        return ends if start == stop else [*ends, (start, stop)]

    def batches(self, start: int = 0, stop: int | None = None) -> Iterator[pa.RecordBatch]:
        """Stream the rows ``start`` to ``stop`` (excluded; None: to the end) as record batches.

        The files are read, not mapped: memory holds one batch, and the process does not grow with the snapshot.

        Raises: DataError: a file is missing, truncated or damaged; names it.
        """
        stop = self.rows if stop is None else min(stop, self.rows)
        storage, folder = _locate(self.url)
        first = 0
        for part in self.parts:
            if first < stop and first + part.rows > start:
                yield from _read(storage, f"{folder}/{part.name}", part, start - first, stop - first)
            first += part.rows


def _read(storage: fs.FileSystem, path: str, part: Part, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    try:
        with storage.open_input_file(path) as file:
            if file.size() != part.bytes:
                raise DataError(f"{path} is damaged: it has {file.size()} bytes instead of {part.bytes}")
            reader = pa.ipc.open_file(file)
            first = 0
            for index, rows in enumerate(part.batches):
                if first < stop and first + rows > start:
                    batch = reader.get_batch(index)
                    batch.validate()
                    skip = max(start - first, 0)
                    yield batch.slice(skip, min(stop - first, rows) - skip)
                first += rows
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is damaged: {error}") from error


def _locate(url: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URL or a local path, and the folder's path in it."""
    try:
        if "://" in url:
            storage, path = fs.FileSystem.from_uri(url)
            return storage, path.rstrip("/")
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"cannot use the storage {url}: {error}") from error
    return fs.LocalFileSystem(), str(Path(url).absolute())
