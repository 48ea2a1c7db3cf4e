"""Tables of trained models that are too large to be in their artifacts: files in a folder beside it.

While a job runs, the folder stands beside the artifact's file. A stored model has it in the storage for large models,
and its metadata says where.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.models.tables.spec import TableSpec
from sqlflow_elastic.models.tables.table_file import TableFile, TableFiles, write_table_file

Chunks = Iterator[tuple[NDArray[np.int64], NDArray[Any]]]


def folder_of(artifact: Path) -> Path:
    """Where the tables of an artifact are, if it has any."""
    return artifact.with_name(f"{artifact.name}.tables")


def write_tables(artifact: Path, tables: Iterable[tuple[TableSpec, Chunks]]) -> None:
    """Write a model's tables, all or none. What is there already is replaced.

    Args:
        artifact: whose.
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


def open_tables(artifact: Path) -> TableFiles | None:
    """The tables of an artifact; None for a model that has all in it. Raises: ModelStoreError: one is damaged."""
    folder = folder_of(artifact)
    if not folder.exists():
        return None
    return TableFiles(TableFile(folder / f"{index}.table") for index in range(len(list(folder.glob("*.table")))))


def store_tables(artifact: Path, storage: Path) -> tuple[str, int]:
    """Move an artifact's tables to the storage. Returns where they are now, and their bytes; ("", 0) without any.

    Raises: ModelStoreError: they cannot be written there.
    """
    folder = folder_of(artifact)
    if not folder.exists():
        return "", 0
    kept = storage / secrets.token_hex(8)
    aside = storage / f".{kept.name}"
    try:
        storage.mkdir(parents=True, exist_ok=True)
        try:
            folder.rename(kept)
        except OSError:  # another file system
            shutil.copytree(folder, aside)
            aside.rename(kept)
            shutil.rmtree(folder, ignore_errors=True)
        return str(kept), sum(path.stat().st_size for path in kept.iterdir())
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise ModelStoreError(f"the model's tables cannot be written to {storage}: {error.strerror}") from error


def lend_tables(kept: str, artifact: Path) -> None:
    """Let a job use stored tables. Raises: ModelStoreError: they are not there."""
    if not Path(kept).is_dir():
        raise ModelStoreError(f"the model's tables are missing: {kept} is not there")
    folder_of(artifact).symlink_to(kept, target_is_directory=True)


def drop_tables(kept: str) -> None:
    """Remove stored tables that no model names any more."""
    if kept:
        shutil.rmtree(kept, ignore_errors=True)
