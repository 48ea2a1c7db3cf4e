"""What workers leave in a job's folder about the epochs of an asynchronous training, for all others."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from pathlib import Path

from sqlflow_elastic.elastic.folder import write_json
from sqlflow_elastic.elastic.position import Position


class Epochs:
    """See the module's page. Whatever is written twice takes the place of what was there.

    Args:
        folder: theirs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def did(self, epoch: int, task: int, samples: int, loss: float) -> None:
        """A task of an epoch, from 0, is done: so many samples, and the sum of their losses."""
        write_json(self._tasks(epoch) / f"{task}.json", {"samples": samples, "loss": loss})

    def loss(self, epoch: int) -> float:
        """The mean loss of an epoch whose tasks are done."""
        said = [json.loads(path.read_text(encoding="utf-8")) for path in self._tasks(epoch).glob("*.json")]
        return math.fsum(each["loss"] for each in said) / math.fsum(each["samples"] for each in said)

    def end(self, position: Position) -> None:
        """So many epochs are done: how training stands then."""
        write_json(self._position(position.epoch), dataclasses.asdict(position))
        shutil.rmtree(self._tasks(position.epoch - 1), ignore_errors=True)

    def ended(self, epochs: int) -> bool:
        """Whether it is written how training stands after so many epochs."""
        return self._position(epochs).exists()

    def position(self, epochs: int) -> Position:
        """How training stood after so many epochs."""
        if not epochs:
            return Position()
        return Position(**json.loads(self._position(epochs).read_text(encoding="utf-8")))

    def _position(self, epochs: int) -> Path:
        return self._folder / f"after-{epochs}.json"

    def _tasks(self, epoch: int) -> Path:
        return self._folder / f"{epoch}"
