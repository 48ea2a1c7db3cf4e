"""A training with tables on servers, in float64.

``main`` is a job's program; ``python -m tests.chaos.served_program FILE`` trains the same alone.

Both leave the weights of the whole network, tables included, in a file.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np

from sqlflow_elastic.elastic.folder import write_json
from sqlflow_elastic.elastic.running import running
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.strategy import Plan
from sqlflow_elastic.elastic.table_saving import whole_model
from sqlflow_elastic.elastic.trainer import Trainer
from tests.elastic import models

ROWS, EPOCHS, BATCH_SIZE = 400, 40, 10
WEIGHTS = "weights.npz"


def program(servers: int) -> str:
    """The text of a job's program."""
    return f"from tests.chaos.served_program import main\n\nmain({servers})\n"


def made(served: bool, **options: Any) -> tuple[Any, Trainer]:
    """The model and its trainer."""
    keras.config.set_floatx("float64")
    model, optimizers = models.tabled(optimizer="adagrad", served=served)
    settings = TrainSettings(epochs=EPOCHS, batch_size=BATCH_SIZE, way="single", checkpoint_secs=0.2)
    dataset = models.classifier_rows(ROWS)
    return model, Trainer(model, models.class_gradients, optimizers, dataset, settings, **options)


def save(path: Path, model: Any) -> None:
    np.savez(path, *(np.asarray(variable.value) for variable in model.variables))


def weights(path: Path) -> list[Any]:
    """What `save` has written."""
    with np.load(path) as file:
        return [file[name] for name in sorted(file.files, key=lambda name: int(name[4:]))]


def weights_alone(folder: Path) -> list[Any]:
    """The weights of a process that holds its tables, and trains alone; it leaves a file in the folder."""
    path = folder / WEIGHTS
    command = [sys.executable, "-m", "tests.chaos.served_program", str(path)]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True, timeout=120, capture_output=True)
    return weights(path)


def main(servers: int) -> None:
    """What the job's program does."""
    with running("clicks") as run:
        assert run.member is not None
        run.member.chosen(Plan("hybrid", ("all",), servers, 0, 3, "a test", ()))
        model, trainer = made(True, emit=run.emit, checkpoints=run.folder.checkpoints, tables=run.folder.tables)
        run.train(trainer)
        for _ in run.tasks("saving", 1):
            specs = trainer.table_specs
            whole = whole_model(
                model, lambda: models.tabled(served=False)[0], run.folder.tables, trainer.result_step, specs
            )
            run.folder.summary.parent.mkdir(exist_ok=True)
            save(run.folder.summary.parent / WEIGHTS, whole)
            write_json(run.folder.summary, {"step": trainer.step})
        run.completed("trained", run.folder.summary)


if __name__ == "__main__":
    network, alone = made(False, emit=lambda event: None)
    alone.run()
    save(Path(sys.argv[1]), network)
