"""Checkpoints of a training with tables on servers: begun, given up, tried again, and whole while kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from sqlflow_elastic.elastic.moving_tables import PlacedTables
from sqlflow_elastic.elastic.position import Extent
from sqlflow_elastic.elastic.saving import Saver
from sqlflow_elastic.elastic.served import ServedTables
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.tables.client import Session
from sqlflow_elastic.elastic.tables.manifests import complete_steps
from sqlflow_elastic.elastic.training_state import TrainingState
from sqlflow_elastic.events import Event, Message
from tests.elastic import models
from tests.elastic.tables.servers import SECONDS, running
from tests.waiting import wait_until


class Training:
    """A state that is saved by steps, and the tables that belong to it.

    Args:
        folder: of checkpoints and snapshots.
        every: steps between checkpoints.
    """

    def __init__(self, folder: Path, every: int) -> None:
        model, optimizers = models.tabled()
        served = ServedTables.of(model, optimizers)
        assert served is not None
        self.specs = served.specs
        self.events: list[Event] = []
        settings = TrainSettings(checkpoint_secs=None, checkpoint_steps=every, patience=3)
        tables = PlacedTables(model, [], [], self.specs, folder)
        self.state = TrainingState(settings, Extent.of(settings, 640), model, [], tables)
        self.saver = Saver(folder / "checkpoints", folder, tables, settings, self.state, self.events.append)
        self._folder = folder

    def step(self, session: Session) -> None:
        session.want([np.arange(3)] * len(self.specs))
        session.push(session.rows(), [(0.0, 0)] * len(self.specs))
        session.applied()
        self.state.position.step += 1
        self.saver.save_if_due(None, session)

    def steps_until(self, session: Session, condition: Callable[[], bool]) -> None:
        """Take steps, as many as it takes."""

        def holds() -> bool:
            self.step(session)
            return condition()

        wait_until(holds, SECONDS)

    def keep_best(self, session: Session) -> None:
        """The weights as they are now are the best ones."""
        session.snapshot(self.state.position.step)
        self.state.position.best_step = self.state.position.step
        self.state.keep_best()

    @property
    def checkpoints(self) -> set[int]:
        return {int(path.stem[5:]) for path in (self._folder / "checkpoints").glob("step-*.npz")}


def test_after_servers_could_not_save_the_next_checkpoint_is_tried(tmp_path: Path) -> None:
    training = Training(tmp_path, every=4)
    segments = tmp_path / "segments"
    segments.symlink_to("/dev/null")
    with running(tmp_path, "ps-0", "ps-1") as servers, servers.enter(training.specs) as session:
        training.steps_until(session, lambda: bool(training.events))
        (told,) = training.events
        assert isinstance(told, Message)
        assert told.level == "warning"
        assert "no checkpoint could be written" in told.text
        assert training.checkpoints == set()
        segments.unlink()
        training.steps_until(session, lambda: bool(training.checkpoints))
        training.saver.close()
        assert training.checkpoints <= complete_steps(tmp_path)


def test_a_snapshot_that_its_world_has_taken_with_it_holds_up_no_later_one(tmp_path: Path) -> None:
    training = Training(tmp_path, every=4)
    with running(tmp_path, "ps-0", "ps-1") as servers:
        with servers.enter(training.specs) as session:
            for _ in range(4):
                training.step(session)
        # Servers that begin anew know of no snapshot that was under way.
        servers.stop("ps-0", "ps-1")
        servers.start("ps-2")
        training.state.position.step = 0
        with servers.enter(training.specs, version=2) as session:
            training.steps_until(session, lambda: bool(training.checkpoints))
            training.saver.close()


def test_tables_of_the_best_weights_in_any_checkpoint_are_kept(tmp_path: Path) -> None:
    training = Training(tmp_path, every=1000)
    with running(tmp_path, "ps-0") as servers, servers.enter(training.specs) as session:

        def checkpoint() -> int:
            training.step(session)
            training.saver.save(None, session)
            return training.state.position.step

        for _ in range(3):
            training.step(session)
            training.keep_best(session)
            checkpoint()
        best = training.state.position.best_step
        assert best is not None
        training.step(session)
        training.keep_best(session)
        last = checkpoint()
        training.saver.close()
    # The checkpoint before the last one has the best weights of before.
    assert training.checkpoints == {best + 1, last}
    assert complete_steps(tmp_path) >= {best, best + 1, last - 1, last}
