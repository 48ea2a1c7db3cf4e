"""Encoded rows: a snapshot after the encoder, as memory-mapped arrays.

A snapshot is encoded once per job. Each of the encoder's arrays is one ``.npy`` file whose rows are contiguous, written
by appending (no page of it stays in this process) and read through a memory map; a manifest, written last, says that
all are whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.folder import write_json
from sqlflow_elastic.elastic.running import Run, values_of
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.snapshot import Snapshot
from sqlflow_elastic.errors import DataError
from sqlflow_elastic.models.features.encoder import Encoder

MANIFEST = "manifest.json"
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
            # Not tofile, which says how much it wrote when a disk is full, but not why.
            column.file.write(np.ascontiguousarray(array, dtype=column.dtype).data)
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        short = {name: column.rows for name, column in self._columns.items() if column.rows != self._rows}
        if kind is None and short:
            raise ValueError(f"promised {self._rows} rows, wrote {short}")


def encode_snapshot(
    run: Run, snapshot: Snapshot, encoder: Encoder, folder: Path, settings: TrainSettings | None = None
) -> tuple[ArrayDataset, ArrayDataset | None]:
    """Encode features and label of a snapshot into ``folder``, or open what a killed process has encoded there.

    Args:
        run: told the progress.
        snapshot: the rows.
        encoder: of the model.
        folder: takes the arrays.
        settings: say which rows to hold out; None for none.

    Returns:
        The rows, and those held out, if there are any.

    Raises: DataError: a value cannot be encoded, or no row would be left.
    """
    if not (folder / MANIFEST).exists():
        held_out = np.zeros(snapshot.rows, dtype=bool)
        if settings is not None:
            held_out = held_out_rows(snapshot.rows, settings.validation_fraction, settings.seed)
        with values_of(snapshot):
            if held_out.all():
                raise DataError(
                    f"{snapshot.rows} rows are too few: none would be left to train on"
                    if snapshot.rows
                    else "there are no rows"
                )
            _encode(run, snapshot, encoder, folder, held_out)
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return _open(folder / "rows"), _open(folder / "held_out") if manifest["held_out"] else None


def _encode(run: Run, snapshot: Snapshot, encoder: Encoder, folder: Path, held_out: np.ndarray[Any, Any]) -> None:
    """Write all rows: those of the mask into ``held_out/``, the others into ``rows/``; then the manifest."""
    shutil.rmtree(folder, ignore_errors=True)
    held = int(held_out.sum())
    done = 0
    with ArrayWriter(folder / "rows", snapshot.rows - held) as rows, ArrayWriter(folder / "held_out", held) as rest:
        for batch in run.counted(snapshot, "preparing"):
            arrays = encoder.encode(batch, done)
            if encoder.label is not None:
                arrays[_LABELS] = encoder.encode_label(batch, done)
            out = held_out[done : done + batch.num_rows]
            done += batch.num_rows
            if held:
                rest.append({name: array[out] for name, array in arrays.items()})
                arrays = {name: array[~out] for name, array in arrays.items()}
            rows.append(arrays)
    write_json(folder / MANIFEST, {"rows": snapshot.rows - held, "held_out": held})


def _open(folder: Path) -> ArrayDataset:
    arrays = {path.stem: np.asarray(np.load(path, mmap_mode="r")) for path in sorted(folder.glob("*.npy"))}
    labels = arrays.pop(_LABELS, None)
    return ArrayDataset(arrays, labels)


def held_out_rows(rows: int, fraction: float, seed: int) -> np.ndarray[Any, Any]:
    """Which rows ``validation.fraction`` holds out: bool [rows], round(rows * fraction) of them, drawn by the seed."""
    mask = np.zeros(rows, dtype=bool)
    count = round(rows * fraction)
    if count:
        generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, 1]))
        mask[generator.choice(rows, size=count, replace=False, shuffle=False)] = True
    return mask
