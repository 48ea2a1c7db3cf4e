"""Steps of real trainers that take their time until the job is told to hurry, so that there is time for attacks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlflow_elastic.elastic.folder import JOB_VARIABLE
from sqlflow_elastic.elastic.joint import JointSteps
from sqlflow_elastic.elastic.trainer import Trainer
from tests.chaos.program import HURRY


def slow_down(seconds: float) -> None:
    """Of this process, which is a job's; the trainer itself does not know."""
    hurry = Path(os.environ[JOB_VARIABLE]) / HURRY

    def slowed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if not hurry.exists():
                time.sleep(seconds)
            return method(*arguments)

        return call

    setattr(Trainer, "_step_alone", slowed(Trainer._step_alone))  # noqa: B010 - for mypy
    setattr(JointSteps, "_exchange", slowed(JointSteps._exchange))  # noqa: B010
