"""The program of an asynchronous training: ``main`` is what a job's program does."""

from __future__ import annotations

from typing import Any

from sqlflow_elastic.elastic.asynchronous.trainer import AsynchronousTrainer
from sqlflow_elastic.elastic.folder import write_json
from sqlflow_elastic.elastic.running import running
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.strategy import Plan
from tests.elastic import models

ROWS, BATCH_SIZE = 4_000, 10


def program(epochs: int) -> str:
    """The text of a job's program."""
    return f"from tests.chaos.lone_program import main\n\nmain({epochs})\n"


def main(epochs: int) -> None:
    """What the job's program does."""
    with running("clicks") as run:
        assert run.member is not None
        run.member.chosen(Plan("ps", ("all",), 2, 0, 3, "a test", ()))
        model, optimizers = models.tabled(optimizer="adam")
        settings = TrainSettings(epochs=epochs, batch_size=BATCH_SIZE, checkpoint_secs=0.3)
        options: dict[str, Any] = {"sample_losses": models.sample_losses, "metrics": ("accuracy",)}
        trainer = AsynchronousTrainer(
            run,
            model,
            models.class_gradients,
            optimizers,
            models.classifier_rows(ROWS),
            settings,
            validation=models.classifier_rows(1_000, seed=1),
            **options,
        )
        result = trainer.train()
        for _ in run.tasks("saving", 1):
            write_json(run.folder.summary, {"steps": result.steps, "metrics": dict(result.metrics)})
        run.completed("trained", run.folder.summary)
