"""When training's state goes to a checkpoint, and how it comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sqlflow_elastic.elastic.checkpoints import Checkpoint, CheckpointFolder
from sqlflow_elastic.elastic.comm.base import WorldBroken
from sqlflow_elastic.elastic.moving_tables import PlacedTables
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.tables.access import Tables
from sqlflow_elastic.elastic.tables.manifests import complete_steps, forget
from sqlflow_elastic.elastic.training_state import TrainingState
from sqlflow_elastic.elastic.ways import Way
from sqlflow_elastic.events import Event, Message


class Saver:
    """Saves and restores a training's state.

    Tables on servers are saved by the servers, at the same step; a checkpoint is written when theirs are.

    Args:
        folder: where checkpoints are.
        snapshots: where servers' are; None for a training that has no servers in all its life.
        tables: where those are that could be on servers.
        settings: when they are due.
        state: what to save.
        emit: takes warnings.
    """

    def __init__(
        self,
        folder: Path,
        snapshots: Path | None,
        tables: PlacedTables,
        settings: TrainSettings,
        state: TrainingState,
        emit: Callable[[Event], None],
    ) -> None:
        self._folder = CheckpointFolder(folder, emit)
        self._snapshots = snapshots
        self._tables = tables
        self._settings = settings
        self._state = state
        self._emit = emit
        self._saved_at = time.monotonic()
        #: Waits for the snapshots of these servers.
        self._captured: tuple[Checkpoint, Tables] | None = None

    def resume(self) -> tuple[bool, Way | None]:
        """Take the state of the newest usable checkpoint.

        Returns:
            Whether there is one, and how its steps were run; None if that was not decided yet.

        Raises:
            JobError, OSError: see `PlacedTables.converted`.
        """
        self._captured = None
        complete = set() if self._snapshots is None else complete_steps(self._snapshots)
        checkpoint = self._folder.latest(
            self._state.fingerprint, lambda step, description: not description["tables"] or step in complete
        )
        if checkpoint is None:
            return False, None
        return True, self._state.restore(self._tables.converted(checkpoint))

    @property
    def newest_step(self) -> int:
        """Of the newest checkpoint on disk; -1 for none."""
        return self._folder.newest_step

    def steps_until_due(self, step: int) -> int:
        """After how many more steps one is due by their number; many if never."""
        every = self._settings.checkpoint_steps
        return 2**31 if every is None else every - step % every

    def save_if_due(self, way: Way | None, tables: Tables | None = None) -> None:
        """Begin to save if it is time; not while the one before is still being written."""
        if self._captured is not None and tables is not None:
            self._write_if_tables_are_saved(tables)
        seconds, every = self._settings.checkpoint_secs, self._settings.checkpoint_steps
        busy = self._captured is not None or self._folder.busy
        by_time = seconds is not None and time.monotonic() - self._saved_at >= seconds
        by_steps = every is not None and self._state.position.step % every == 0
        if (by_time and not busy) or (by_steps and self._captured is None):
            captured = self._state.capture(way)
            self._saved_at = time.monotonic()
            if tables is None:
                self._folder.save(captured)
            else:
                self._captured = captured, tables
                tables.begin_snapshot(captured.step)

    def _write_if_tables_are_saved(self, tables: Tables) -> None:
        """Go on with what was captured, or give it up: the world may have changed meanwhile, or a disk be full."""
        assert self._captured is not None  # noqa: S101 - callers look
        captured, asked = self._captured
        if tables.snapshot_step >= captured.step:
            self._captured = None
            self._write(captured)
        elif tables is not asked:
            self._captured = None
        elif tables.snapshot_failure:
            self._captured = None
            self._tell(tables.snapshot_failure)

    def save(self, way: Way | None, tables: Tables | None = None) -> None:
        """Save the state as it is; returns when it is on disk or given up with a warning.

        Raises:
            JobError: servers cannot write their tables.
        """
        self._captured = None
        captured = self._state.capture(way)
        try:
            if tables is not None:
                tables.snapshot(captured.step)
        except WorldBroken as broken:
            self._tell(broken.reason)
            return
        self._write(captured)
        self._folder.flush()

    def _write(self, checkpoint: Checkpoint) -> None:
        """Begin to write, and forget tables that no checkpoint needs any more."""
        if self._snapshots is not None and self._tables.specs:
            self._folder.flush()
            best = self._state.position.best_step
            needed = _needed(checkpoint.step, checkpoint.description) | ({best} if best is not None else set())
            forget(self._snapshots, needed.union(*(_needed(*each) for each in self._folder.descriptions())))
        self._folder.save(checkpoint)
        self._saved_at = time.monotonic()

    def _tell(self, why: str) -> None:
        self._emit(Message(f"no checkpoint could be written: {why}; training goes on", "warning"))

    def flush(self) -> None:
        """Return when the last one is on disk or given up with a warning."""
        self._folder.flush()

    def close(self) -> None:
        """`flush`, and save no more."""
        self._folder.close()


def _needed(step: int, description: Mapping[str, Any]) -> set[int]:
    """The steps whose tables belong to a checkpoint: its own, and that of the best weights in it."""
    best = description["position"]["best_step"]
    return {step} if best is None else {step, best}
