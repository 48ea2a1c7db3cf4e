"""A training whose tables move between its workers and servers, as a test wishes; with the rows of `served_program`.

``main`` is a job's program, which leaves the weights of the whole network in a file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlflow_elastic.elastic.folder import JobFolder, write_json, write_text
from sqlflow_elastic.elastic.membership.messages import Needs
from sqlflow_elastic.elastic.replica import Replica
from sqlflow_elastic.elastic.running import Run, running
from sqlflow_elastic.elastic.strategy import Plan
from sqlflow_elastic.elastic.table_saving import whole_model
from sqlflow_elastic.elastic.trainer import Trainer
from tests.chaos import served_program
from tests.chaos.slow import slow_down
from tests.elastic import models

TEXT = "from tests.chaos.moving_program import main\n\nmain()\n"
SERVERS = 2


def wish(folder: JobFolder, *, served: bool) -> None:
    """Where tables are to be."""
    write_text(_wish(folder), str(served))


def _wish(folder: JobFolder) -> Path:
    return folder.path / "wish"


def _plan(served: bool) -> Plan:
    strategy, names = ("hybrid", ("all",)) if served else ("allreduce", ())
    return Plan(strategy, names, SERVERS if served else 0, 0, 3, "a test", ())


class Moving:
    """The trainer, with tables where the plan in force has them (a `replica.Plans`)."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._make(_plan(served=False))

    def _make(self, plan: Plan) -> None:
        run = self._run
        self.plan = plan
        self.model: Any
        self.trainer: Trainer
        self.model, self.trainer = served_program.made(
            bool(plan.served), emit=run.emit, checkpoints=run.folder.checkpoints, tables=run.folder.tables
        )
        assert run.member is not None
        run.member.chosen(plan)

    def differs(self, plan: str) -> bool:
        return Plan.from_json(json.loads(plan)).placement != self.plan.placement

    def take(self, plan: str, *, leads: bool) -> Trainer:
        self._make(Plan.from_json(json.loads(plan)))
        return self.trainer

    def better(self, workers: int, replica: Replica) -> Needs | None:
        path = _wish(self._run.folder)
        served = path.exists() and path.read_text(encoding="utf-8") == str(True)
        return None if served == bool(self.plan.served) or not replica.saved_lately else _plan(served).needs


def main() -> None:
    """What the job's program does."""
    slow_down(0.05)
    with running("clicks") as run:
        moving = Moving(run)
        assert run.member is not None
        run.member.train(moving.trainer, None, moving)
        moving.trainer.result()
        for _ in run.tasks("saving", 1):
            model, trainer = moving.model, moving.trainer
            if trainer.table_specs:
                model = whole_model(
                    model,
                    lambda: models.tabled(served=False)[0],
                    run.folder.tables,
                    trainer.result_step,
                    trainer.table_specs,
                )
            run.folder.summary.parent.mkdir(exist_ok=True)
            served_program.save(run.folder.summary.parent / served_program.WEIGHTS, model)
            write_json(run.folder.summary, {"step": trainer.step})
        run.completed("trained", run.folder.summary)
