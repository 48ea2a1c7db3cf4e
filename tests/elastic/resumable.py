"""A training to be killed: ``python -m tests.elastic.resumable WAY FOLDER WEIGHTS``; prints events as lines of JSON."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.trainer import Trainer, TrainResult
from sqlflow_elastic.events import Event, to_json
from tests.elastic import models


def train(way: str, folder: Path, path: Path) -> TrainResult:
    """Train what has every kind of state there is; save the final weights."""
    model, optimizers = models.classifier(dropout=0.0 if way.startswith("xla") else 0.3, normalized=True, l2=0.001)
    settings = TrainSettings(
        epochs=30, batch_size=10, way=way, checkpoint_steps=7, checkpoint_secs=None, log_every_n_steps=5, patience=20
    )

    def emit(event: Event) -> None:
        sys.stdout.write(to_json(event) + "\n")
        sys.stdout.flush()

    trainer = Trainer(
        model,
        models.class_gradients,
        optimizers,
        models.classifier_rows(205),
        settings,
        sample_losses=models.sample_losses,
        validation=models.classifier_rows(100, 1),
        checkpoints=folder,
        emit=emit,
    )
    result = trainer.run()
    np.savez(path, *models.weights(model), *(np.asarray(v.value) for o, _ in optimizers for v in o.variables))
    return result


if __name__ == "__main__":
    train(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
