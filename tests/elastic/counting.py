"""A replica without TensorFlow: its state counts how often each sample was trained on, by whichever world.

A program that trains one as a job's worker does is `program`. What its steps cost is a sleep, so that many workers fit
on one machine.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.folder import write_json
from sqlflow_elastic.elastic.membership.messages import NO_STATE
from sqlflow_elastic.elastic.replica import Exchange, Speeds
from sqlflow_elastic.elastic.running import running
from sqlflow_elastic.elastic.tables.access import Tables
from sqlflow_elastic.models.tables.spec import TableSpec

_REPORT_SECONDS = 0.1


class Counting:
    """See `sqlflow_elastic.elastic.replica.Replica`.

    Args:
        folder: takes the checkpoint.
        rows, batch_size, epochs: of the training.
        sample_seconds: what a sample costs.
        state_bytes: more state, which does nothing but travel.
        checkpoint_steps: steps between checkpoints.
    """

    def __init__(
        self,
        folder: Path,
        *,
        rows: int,
        batch_size: int,
        epochs: int,
        sample_seconds: float = 0.0,
        state_bytes: int = 0,
        checkpoint_steps: int = 10,
    ) -> None:
        self._path = folder / "counts.npy"
        self._batch_size = batch_size
        self._per_epoch = -(-rows // batch_size)
        self._steps = epochs * self._per_epoch
        self._sample_seconds = sample_seconds
        self._checkpoint_steps = checkpoint_steps
        self.counts: NDArray[np.int64] = np.zeros(rows, np.int64)
        self.ballast: NDArray[np.uint8] = np.zeros(state_bytes, np.uint8)
        self.step = NO_STATE
        self.worlds: list[int] = []
        self._measured = (0.0, 0)

    @property
    def finished(self) -> bool:
        return self.step == self._steps

    @property
    def saved_lately(self) -> bool:
        return self._path.exists()

    @property
    def speeds(self) -> Speeds:
        begun, first = self._measured
        seconds = time.monotonic() - begun
        if self.step <= first:
            return Speeds()
        speed = (self.step - first) * self._batch_size / seconds
        left = (self._steps - self.step) * self._batch_size / speed
        return Speeds(speed, self._sample_seconds, seconds, True, left)

    def warm_up(self) -> None:
        pass

    def begin(self) -> None:
        self.step = 0
        if self._path.exists():
            saved = np.load(self._path)
            self.step, self.counts = int(saved[0]), saved[1:].copy()

    def state(self) -> list[NDArray[np.uint8]]:
        return [np.array([self.step]).view(np.uint8), self.counts.view(np.uint8), self.ballast]

    def take_state(self, buffers: list[NDArray[np.uint8]]) -> None:
        self.step = int(buffers[0].view(np.int64)[0])
        self.counts = buffers[1].view(np.int64).copy()

    @property
    def table_specs(self) -> list[TableSpec]:
        return []

    @property
    def tables_are_new(self) -> bool:
        return True

    def run(
        self,
        world: Exchange | None,
        shares: tuple[float, ...],
        stop: Callable[[], bool],
        tables: Tables | None = None,
    ) -> bool:
        rank, size = (0, 1) if world is None else (world.place.rank, world.place.size)
        self.worlds.append(size)
        self._measured = (time.monotonic(), self.step)
        while not self.finished:
            if world is None and stop():
                return False
            first = self.step % self._per_epoch * self._batch_size
            batch = np.arange(first, min(first + self._batch_size, len(self.counts)))
            mine = np.array_split(batch, size)[rank]
            added = np.zeros(len(self.counts) + 1, np.int64)
            added[mine] += 1
            added[-1] = stop()
            self.work(len(mine))
            if world is not None:
                world.allreduce([added])
            self.counts += added[:-1]
            self.step += 1
            if rank == 0 and self.step % self._checkpoint_steps == 0:
                self.checkpoint()
            if added[-1] and not self.finished:
                return False
        return True

    def work(self, samples: int) -> None:
        """What this member's part of a step costs."""
        if self._sample_seconds:
            time.sleep(self._sample_seconds * samples)

    def checkpoint(self) -> None:
        aside = self._path.with_name(f".counts-{os.getpid()}.npy")
        np.save(aside, np.concatenate([[self.step], self.counts]))
        aside.replace(self._path)

    def close(self) -> None:
        pass


def program(**options: Any) -> str:
    """The text of a program that trains one."""
    return f"from tests.elastic.counting import main\n\nmain({options!r})\n"


def main(options: dict[str, Any]) -> None:
    """What `program` does: count, leave the counts in the summary."""
    with running("counting") as run:
        replica = Counting(run.folder.path, **options)
        assert run.member is not None
        run.member.train(replica)
        for _ in run.tasks("saving", 1):
            write_json(run.folder.summary, {"counts": replica.counts.tolist(), "step": replica.step})
        run.completed("counted", run.folder.summary)


def counts(summary: Path) -> list[int]:
    """How often each sample was trained on."""
    return list(json.loads(summary.read_text())["counts"])
