"""A training goes on with its tables elsewhere, to the model that it would have come to where they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqlflow_elastic.elastic.comm.alone import Alone
from sqlflow_elastic.elastic.comm.base import Place
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.table_saving import whole_model
from sqlflow_elastic.elastic.tables.manifests import complete_steps
from sqlflow_elastic.elastic.tables.merging import merged
from sqlflow_elastic.elastic.trainer import Trainer
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.events import Event
from tests.elastic import models
from tests.elastic.tables.servers import running

ROWS, BATCH, EPOCHS = 200, 10, 3


class Training:
    """One that can be stopped, and goes on from its checkpoint.

    Args:
        folder: of checkpoints and snapshots.
        optimizer: of all weights.
        options: of the settings.
    """

    def __init__(self, folder: Path, optimizer: str, **options: Any) -> None:
        self.folder = folder
        self._optimizer = optimizer
        self._settings = TrainSettings(epochs=EPOCHS, batch_size=BATCH, way="single", checkpoint_secs=None, **options)
        self._validates = options.get("patience") is not None
        self._version = 0
        self.events: list[Event] = []

    def trainer(self, *, served: bool) -> tuple[Any, Trainer]:
        model, optimizers = models.tabled(optimizer=self._optimizer, served=served)
        validation = models.classifier_rows(50, 1) if self._validates else None
        trainer = Trainer(
            model,
            models.class_gradients,
            optimizers,
            models.classifier_rows(ROWS),
            self._settings,
            sample_losses=models.sample_losses,
            validation=validation,
            checkpoints=self.folder / "checkpoints",
            tables=self.folder / "tables",
            emit=self.events.append,
        )
        return model, trainer

    def goes_on(self, *, served: bool, until: int | None = None) -> list[Any]:
        """From the newest checkpoint to a step or to the end; then a checkpoint is written. Returns all weights."""
        model, trainer = self.trainer(served=served)
        trainer.begin()
        if not served:
            trainer.run(None, (), lambda: until is not None and trainer.step >= until)
            trainer.checkpoint()
            trainer.close()
            if until is None:
                trainer.result()
            return models.weights(model)
        self._version += 1
        with (
            running(self.folder / "tables", f"ps-{2 * self._version}", f"ps-{2 * self._version + 1}") as servers,
            servers.enter(trainer.table_specs, step=trainer.step, new=trainer.tables_are_new) as session,
        ):
            world = Alone(Place(0, 0, 1, ""))
            trainer.run(world, (), lambda: until is not None and trainer.step >= until, session)
            trainer.checkpoint()
            trainer.close()
            if until is None:
                trainer.result()
            tables, specs = self.folder / "tables", trainer.table_specs
            session.snapshot(trainer.step)
            build = lambda: models.tabled(optimizer=self._optimizer, served=False)[0]  # noqa: E731
            return models.weights(whole_model(model, build, tables, trainer.result_step, specs))


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad", "ftrl"])
def test_tables_go_to_servers_and_come_back(tmp_path: Path, optimizer: str) -> None:
    right = Training(tmp_path / "right", optimizer).goes_on(served=False)
    training = Training(tmp_path / "moved", optimizer)
    training.goes_on(served=False, until=13)
    training.goes_on(served=True, until=31)
    training.goes_on(served=False, until=40)
    for weights in (training.goes_on(served=True), training.goes_on(served=False)):
        for trained, expected in zip(weights, right, strict=True):
            np.testing.assert_allclose(trained, expected, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("served", [False, True])
def test_the_best_weights_move_too(tmp_path: Path, *, served: bool) -> None:
    right = Training(tmp_path / "right", "adam", patience=2).goes_on(served=False)
    training = Training(tmp_path / "moved", "adam", patience=2)
    training.goes_on(served=not served, until=2 * ROWS // BATCH + 5)
    for trained, expected in zip(training.goes_on(served=served), right, strict=True):
        np.testing.assert_allclose(trained, expected, rtol=1e-4, atol=2e-6)


def test_only_rows_that_were_touched_go_to_servers(tmp_path: Path) -> None:
    training = Training(tmp_path, "sgd")
    training.goes_on(served=False, until=1)
    _, trainer = training.trainer(served=True)
    trainer.begin()
    trainer.close()
    ids = models.classifier_rows(ROWS).features["ids"]
    rows = [
        sum(len(each) for each, _ in merged(tmp_path / "tables", 1, i, s)) for i, s in enumerate(trainer.table_specs)
    ]
    assert complete_steps(tmp_path / "tables") == {1}
    assert 0 < sum(rows) <= BATCH * ids.shape[1] * len(rows)


def test_a_snapshot_that_is_gone_is_told(tmp_path: Path) -> None:
    training = Training(tmp_path, "sgd")
    training.goes_on(served=True, until=5)
    for segment in (tmp_path / "tables" / "segments").iterdir():
        segment.unlink()
    _, trainer = training.trainer(served=False)
    with pytest.raises(JobError, match="cannot go on from step 6: the snapshot cannot be used"):
        trainer.begin()
    trainer.close()
