"""Encoded rows: a snapshot after the encoder, as memory-mapped arrays.

A snapshot is encoded once per job. Each of the encoder's arrays is one ``.npy`` file whose rows are contiguous, written by
appending (no page of it stays in this process) and read through a memory map; a manifest, written last, says that all are whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa

from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.folder import write_json

_LABELS = "labels"


@dataclass
class _Column:
    file: IO[bytes]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    rows: int = 0


class ArrayWriter:
    """Writes arrays of a known number of rows to ``folder/<name>.npy``, piece by piece."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._folder = folder
        self._rows = rows
        self._columns: dict[str, _Column] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Append the next rows of every array; the first piece fixes names, dtypes and row shapes."""
        for name, array in arrays.items():
            if name not in self._columns:
                self._columns[name] = self._begin(name, array)
            column = self._columns[name]
            np.ascontiguousarray(array, dtype=column.dtype).tofile(column.file)
            column.rows += len(array)

    def _begin(self, name: str, array: np.ndarray[Any, Any]) -> _Column:
        file = (self._folder / f"{name}.npy").open("wb")
        shape = (self._rows, *array.shape[1:])
        header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        return _Column(file, array.dtype, array.shape[1:])

    def close(self) -> None:
        """Close the files."""
        for column in self._columns.values():
            column.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
        short = {name: column.rows for name, column in self._columns.items() if column.rows != self._rows}
        if kind is None and short:
            raise ValueError(f"promised {self._rows} rows, wrote {short}")


def encode_rows(
    folder: Path,
    batches: Iterator[pa.RecordBatch],
    encode: Callable[[pa.RecordBatch], Mapping[str, np.ndarray[Any, Any]]],
    encode_label: Callable[[pa.RecordBatch], np.ndarray[Any, Any]] | None,
    held_out: np.ndarray[Any, Any],
    on_rows: Callable[[int], None],
) -> None:
    """Encode batches into ``folder/train`` and the held-out rows into ``folder/validation``; a finished cache is kept as it is.

    Args:
        held_out: bool [rows], True for the rows that go to validation.
        on_rows: told how many rows are done, after each batch.
    """
    if (folder / "manifest.json").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    held = int(held_out.sum())
    done = 0
    with ArrayWriter(folder / "train", len(held_out) - held) as train, ArrayWriter(folder / "validation", held) as validation:
        for batch in batches:
            arrays = dict(encode(batch))
            if encode_label is not None:
                arrays[_LABELS] = encode_label(batch)
            out = held_out[done : done + batch.num_rows]
            done += batch.num_rows
            if held:
                validation.append({name: array[out] for name, array in arrays.items()})
                arrays = {name: array[~out] for name, array in arrays.items()}
            train.append(arrays)
            on_rows(done)
    write_json(folder / "manifest.json", {"train": len(held_out) - held, "validation": held})


def open_encoded(folder: Path, part: str) -> ArrayDataset | None:
    """The ``train`` or ``validation`` part of an encoded snapshot, memory-mapped; None where it holds no row."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    if not manifest[part]:
        return None
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in sorted((folder / part).glob("*.npy"))}
    labels = arrays.pop(_LABELS, None)
    return ArrayDataset(features=arrays, labels=labels, weights=None)


def held_out_rows(rows: int, fraction: float, seed: int) -> np.ndarray[Any, Any]:
    """Which rows ``validation.fraction`` holds out: bool [rows], round(rows * fraction) of them, drawn by the seed."""
    mask = np.zeros(rows, dtype=bool)
    count = round(rows * fraction)
    if count:
        generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, 1]))
        mask[generator.choice(rows, size=count, replace=False, shuffle=False)] = True
    return mask
