"""Checkpoints: written beside training, whole or not at all; a damaged one is passed over.

A checkpoint is one ``.npz`` file named by its step: arrays, and a JSON text for the rest. It is written aside by a
thread of its own, synced and renamed into place; the last two are kept. The archive's own CRC-32 of every array is
checked when it is read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.events import Event, Message

_KEPT = 2
_DESCRIPTION = "description"


@dataclass(frozen=True)
class Checkpoint:
    """Training's state between two steps.

    Attributes:
        step: steps done.
        arrays: by name; what only has to behave as an array (``np.asarray``) is copied when it is written.
        description: JSON-like; what else is needed to go on.
    """

    step: int
    arrays: Mapping[str, Any]
    description: Mapping[str, Any]


class CheckpointFolder:
    """The checkpoints of one job.

    Args:
        path: the folder; made when the first one is written.
        emit: takes warnings: a checkpoint that cannot be written or read never stops training.
    """

    def __init__(self, path: Path, emit: Callable[[Event], None]) -> None:
        self._path = path
        self._emit = emit
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._written: Future[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether one is still being written."""
        return self._written is not None and not self._written.done()

    def save(self, checkpoint: Checkpoint) -> None:
        """Begin to write; waits for the one before."""
        self.flush()
        self._written = self._writer.submit(self._write, checkpoint)

    def flush(self) -> None:
        """Return when the last one is on disk, or has been given up with a warning."""
        if self._written is not None:
            written, self._written = self._written, None
            try:
                written.result()
            except OSError as error:
                self._emit(Message(f"no checkpoint could be written: {error}; training goes on", "warning"))

    def close(self) -> None:
        """`flush`, then end the thread."""
        self.flush()
        self._writer.shutdown()

    def descriptions(self) -> list[tuple[int, Mapping[str, Any]]]:
        """Of all checkpoints that can be read, newest first: step and description."""
        described = []
        for path in self._paths():
            with contextlib.suppress(Exception), np.load(path) as file:  # a damaged file can raise anything
                described.append((_step(path), _described(file[_DESCRIPTION])))
        return described

    @property
    def newest_step(self) -> int:
        """Of the newest checkpoint; -1 for none."""
        return max(map(_step, self._paths()), default=-1)

    def latest(
        self, fingerprint: str, usable: Callable[[int, Mapping[str, Any]], bool] = lambda step, description: True
    ) -> Checkpoint | None:
        """The newest readable checkpoint whose description has this fingerprint.

        Args:
            fingerprint: see `TrainingState`.
            usable: whether one of this step and description can be taken.
        """
        for path in self._paths():
            try:
                checkpoint = _read(path)
            except Exception as error:  # noqa: BLE001 - a damaged file can raise anything; the one before is tried
                self._emit(Message(f"checkpoint {path.name} is damaged ({error}); the one before is used", "warning"))
                continue
            if checkpoint.description["fingerprint"] == fingerprint:
                if usable(checkpoint.step, checkpoint.description):
                    return checkpoint
                continue
            self._emit(Message(f"checkpoint {path.name} is of another training and is not used", "warning"))
        return None

    def _paths(self) -> list[Path]:
        """Newest first."""
        found = [path for path in self._path.glob("step-*.npz") if re.fullmatch(r"step-\d+\.npz", path.name)]
        return sorted(found, key=_step, reverse=True)

    def _write(self, checkpoint: Checkpoint) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        for left in self._path.glob(".step-*"):
            left.unlink(missing_ok=True)
        text = np.frombuffer(json.dumps(dict(checkpoint.description)).encode(), np.uint8)
        descriptor, aside = tempfile.mkstemp(dir=self._path, prefix=".step-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                    for name, array in {**checkpoint.arrays, _DESCRIPTION: text}.items():
                        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                            np.lib.format.write_array(member, np.asarray(array))
                file.flush()
                os.fsync(file.fileno())
            Path(aside).replace(self._path / f"step-{checkpoint.step:012d}.npz")
        except BaseException:
            with contextlib.suppress(OSError):
                Path(aside).unlink()
            raise
        folder = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        for old in self._paths()[_KEPT:]:
            old.unlink(missing_ok=True)


def _step(path: Path) -> int:
    return int(path.stem[5:])


def _read(path: Path) -> Checkpoint:
    with np.load(path) as file:
        arrays: dict[str, NDArray[Any]] = {name: file[name] for name in file.files}
    return Checkpoint(_step(path), arrays, _described(arrays.pop(_DESCRIPTION)))


def _described(array: NDArray[Any]) -> Mapping[str, Any]:
    description: Mapping[str, Any] = json.loads(array.tobytes())
    return description
