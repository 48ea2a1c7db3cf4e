"""When training's state goes to a checkpoint, and how it comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from sqlflow_elastic.elastic.checkpoints import CheckpointFolder
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.training_state import TrainingState
from sqlflow_elastic.elastic.ways import Way
from sqlflow_elastic.events import Event


class Saver:
    """Saves and restores a training's state.

    Args:
        folder: where checkpoints are.
        settings: when they are due.
        state: what to save.
        emit: takes warnings.
    """

    def __init__(
        self, folder: Path, settings: TrainSettings, state: TrainingState, emit: Callable[[Event], None]
    ) -> None:
        self._folder = CheckpointFolder(folder, emit)
        self._settings = settings
        self._state = state
        self._saved_at = time.monotonic()

    def resume(self) -> tuple[bool, Way | None]:
        """Take the state of the newest usable checkpoint.

        Returns:
            Whether there is one, and how its steps were run; None if that was not decided yet.
        """
        checkpoint = self._folder.latest(self._state.fingerprint)
        return (False, None) if checkpoint is None else (True, self._state.restore(checkpoint))

    def steps_until_due(self, step: int) -> int:
        """After how many more steps one is due by their number; many if never."""
        every = self._settings.checkpoint_steps
        return 2**31 if every is None else every - step % every

    def save_if_due(self, way: Way | None) -> None:
        """`save` if it is time; not while the one before is still being written."""
        seconds, every = self._settings.checkpoint_secs, self._settings.checkpoint_steps
        by_time = seconds is not None and time.monotonic() - self._saved_at >= seconds and not self._folder.busy
        if by_time or (every is not None and self._state.position.step % every == 0):
            self.save(way)

    def save(self, way: Way | None) -> None:
        """Copy the state in memory and begin to write it; waits for the one before."""
        self._folder.save(self._state.capture(way))
        self._saved_at = time.monotonic()

    def flush(self) -> None:
        """Return when the last one is on disk or given up with a warning."""
        self._folder.flush()

    def close(self) -> None:
        """`flush`, and save no more."""
        self._folder.close()
