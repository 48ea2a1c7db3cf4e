"""Tables of trained models that are not in their networks: files, in the artifact or elsewhere.

A job leaves them in a folder beside the artifact's file, and the artifact's ``tables.json`` says what they are. When
the model is stored, small ones go into the artifact, and large ones into the storage; the stored model's metadata say
where. A job that uses such a model has them in a folder beside the artifact again, or a file there says at which URL
they are.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import struct
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyarrow import fs

from sqlflow_elastic.models.storage import Storage
from sqlflow_elastic.models.tables.pieces import PiecesOf
from sqlflow_elastic.models.tables.spec import TableSpec
from sqlflow_elastic.models.tables.table_file import (
    Content,
    MappedContent,
    TableFile,
    TableFiles,
    damaged,
    write_table_file,
)

#: Files of so many bytes in all go into the artifact: the model is wholly in the database.
WHOLE_BYTES = 256 << 20
#: What an artifact that has tables says of them.
MANIFEST = "tables.json"

_URL = "url"
_ALIGNMENT = 64
#: A zip archive's local header: its size, where the lengths of name and extra field are, and an extra field that
#: readers leave out ("Android's alignment").
_HEADER_BYTES, _LENGTHS, _PADDING_KIND = 30, struct.Struct("<26xHH"), 0xD935

Chunks = Iterable[tuple[NDArray[np.int64], NDArray[Any]]]


@dataclass(frozen=True)
class Entry:
    """A table's file, as the artifact knows it.

    Attributes:
        file: its name.
        bytes, digest: see `TableFile`.
        rows: that were trained.
    """

    file: str
    bytes: int
    rows: int
    digest: str


def folder_of(artifact: Path) -> Path:
    """Where the tables of an artifact are, if it has any that are not in it."""
    return artifact.with_name(f"{artifact.name}.tables")


def write_tables(artifact: Path, tables: Iterable[tuple[TableSpec, Chunks]]) -> None:
    """Write a model's tables beside its artifact, all or none. What is there already is replaced.

    Args:
        artifact: whose; it is written after its tables.
        tables: each with its rows, as `write_table_file` takes them.
    """
    folder = folder_of(artifact)
    aside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    aside.mkdir(parents=True)
    try:
        for index, (spec, chunks) in enumerate(tables):
            write_table_file(aside / f"{index}.table", spec, chunks)
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def manifest_of(artifact: Path, layers: Iterable[str]) -> dict[str, Any]:
    """What an artifact is to say of the tables beside it, as `MANIFEST`.

    Args:
        artifact: whose.
        layers: names of the layers whose tables they are.

    Raises: ModelStoreError: they are not there.
    """
    paths = sorted(folder_of(artifact).glob("*.table"), key=lambda path: int(path.stem))
    files = [TableFile(path) for path in paths]
    entries = [Entry(path.name, file.bytes, file.count, file.digest) for path, file in zip(paths, files, strict=True)]
    return {"layers": list(layers), "files": [asdict(entry) for entry in entries]}


def read_manifest(archive: zipfile.ZipFile) -> tuple[set[str], list[Entry]]:
    """Layers and files of an opened artifact; none for a model that has all in its network."""
    if MANIFEST not in archive.namelist():
        return set(), []
    said: Mapping[str, Any] = json.loads(archive.read(MANIFEST))
    return set(said["layers"]), [Entry(**entry) for entry in said["files"]]


def open_tables(artifact: Path) -> TableFiles | None:
    """The tables of an artifact; None for a model that has all in its network.

    Raises: ModelStoreError: one is missing or damaged.
    """
    artifact = artifact.resolve()
    files = []
    with zipfile.ZipFile(artifact) as archive:
        _, entries = read_manifest(archive)
        for entry in entries:
            file = TableFile(_content(artifact, archive, entry))
            if (file.bytes, file.digest) != (entry.bytes, entry.digest):
                raise damaged(file.name, "it is not the one that was stored")
            files.append(file)
    return TableFiles(files) if files else None


def _content(artifact: Path, archive: zipfile.ZipFile, entry: Entry) -> Content:
    folder = folder_of(artifact)
    member = _member(entry)
    name = str(folder / entry.file)
    try:
        if member in archive.namelist():
            start = archive.getinfo(member).header_offset
            with artifact.open("rb") as file:
                file.seek(start)
                start += _HEADER_BYTES + sum(_LENGTHS.unpack(file.read(_HEADER_BYTES)))
            return MappedContent(artifact, start, entry.bytes)
        if (folder / _URL).exists():
            shown, url = json.loads((folder / _URL).read_text(encoding="utf-8"))
            name = f"{shown}/{entry.file}"
            remote, path = fs.FileSystem.from_uri(url)
            return PiecesOf(remote, f"{path}/{entry.file}", name, folder)
        return MappedContent(folder / entry.file)
    except (OSError, ValueError) as error:
        # An error of a URL may quote it.
        raise damaged(name, (isinstance(error, OSError) and error.strerror) or "it is not there") from None


def _member(entry: Entry) -> str:
    return f"tables/{entry.file}"


def store_tables(artifact: Path, storage: Storage) -> tuple[str, int]:
    """Put the tables beside an artifact into it, if they are small, or into the storage.

    Returns:
        Where in the storage they are, and their bytes; ("", 0) if nothing is there.

    Raises: ModelStoreError: they are missing or damaged, or cannot be written to the storage.
    """
    tables = open_tables(artifact) if folder_of(artifact).exists() else None
    if tables is None:
        return "", 0
    with zipfile.ZipFile(artifact) as archive:
        _, entries = read_manifest(archive)
    total = sum(entry.bytes for entry in entries)
    files = [folder_of(artifact) / entry.file for entry in entries]
    if total > WHOLE_BYTES:
        return storage.put(files), total
    with zipfile.ZipFile(artifact, "a", zipfile.ZIP_STORED) as archive:
        for entry, file in zip(entries, files, strict=True):
            info = zipfile.ZipInfo(_member(entry))
            info.file_size = entry.bytes
            # The bytes of the file begin where its arrays can be mapped.
            padding = -(archive.start_dir + _HEADER_BYTES + len(info.filename) + 4) % _ALIGNMENT
            info.extra = struct.pack("<HH", _PADDING_KIND, padding) + bytes(padding)
            with file.open("rb") as read, archive.open(info, "w") as written:
                shutil.copyfileobj(read, written, 1 << 20)
    shutil.rmtree(folder_of(artifact))
    return "", 0


def lend_tables(location: str, artifact: Path, into: Path, storage: Storage) -> None:
    """Let a job use tables that are in the storage.

    Args:
        location: as `store_tables` said.
        artifact: the model's.
        into: where the job has the artifact.
        storage: how the storage is reached now.

    Raises: ModelStoreError: they are not there.
    """
    folder = folder_of(into)
    with zipfile.ZipFile(artifact) as archive:
        _, entries = read_manifest(archive)
    url = storage.lend(location, [entry.file for entry in entries], folder)
    if url is not None:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / _URL, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump([location, url], file)
