"""What runs inside a job, and what a generated program calls.

`train`, `predict` and `evaluate` are the one call a program ends in. Names are loaded when they are first used: reading
a snapshot or the settings does not import TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlflow_elastic.elastic.batch import Batch
    from sqlflow_elastic.elastic.evaluating import evaluate
    from sqlflow_elastic.elastic.optimizers import Optimizers
    from sqlflow_elastic.elastic.predicting import predict
    from sqlflow_elastic.elastic.settings import TrainSettings
    from sqlflow_elastic.elastic.training import train

__all__ = ["Batch", "Optimizers", "TrainSettings", "evaluate", "predict", "train"]

_HOMES = {
    "Batch": "batch",
    "Optimizers": "optimizers",
    "TrainSettings": "settings",
    "evaluate": "evaluating",
    "predict": "predicting",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
