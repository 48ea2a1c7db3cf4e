"""Metrics: which there are, and how to measure them over rows that come in pieces.

Readable without TensorFlow. A metric's value over all rows does not depend on how they are cut into pieces or which
process saw which (`Measurement.merge`). Sample and class weights do not act on metrics.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.metric_states import (
    Confusion,
    Mean,
    RankAUC,
    State,
    binary_log_loss,
    categorical_log_loss,
    in_top,
)


class Task(StrEnum):
    """What a model's outputs and labels are.

    Attributes:
        BINARY: labels 0 and 1, ``[b]`` or ``[b, 1]``; outputs of the same number: the logit of 1.
        MULTICLASS: labels 0 to C - 1, ``[b]`` or ``[b, 1]`` (or one-hot ``[b, C]``); outputs ``[b, C]``: logits.
        REGRESSION: labels and outputs of the same number of values.
    """

    BINARY = "binary"
    MULTICLASS = "multiclass"
    REGRESSION = "regression"

    @classmethod
    def of(cls, labels: NDArray[Any], outputs: NDArray[Any]) -> Self:
        """The task that fits: integer labels are classes, others are numbers."""
        if labels.dtype.kind not in "iub":
            return cls("regression")
        return cls("multiclass" if outputs.ndim > 1 and outputs.shape[-1] > 1 else "binary")


Values = NDArray[Any]


@dataclass(frozen=True)
class Metric:
    """A metric.

    Attributes:
        name: as results name it.
        tasks: what it can measure, and the state that does it, given the number of classes.
        help: one line.
        higher_is_better: False for losses and errors; None where neither is.
        aliases: other names (Keras's, SQLFlow's) that mean it; upper and lower case and underscores do not matter.
    """

    name: str
    tasks: dict[Task, Callable[[int], State]]
    help: str
    higher_is_better: bool | None
    aliases: tuple[str, ...] = ()


def _classes(read: Callable[[Confusion], float]) -> dict[Task, Callable[[int], State]]:
    return {Task.BINARY: lambda _: Confusion(read, 2), Task.MULTICLASS: lambda classes: Confusion(read, classes)}


def _binary(read: Callable[[Confusion], float]) -> dict[Task, Callable[[int], State]]:
    return {Task.BINARY: lambda _: Confusion(read, 2)}


def _errors(
    error: Callable[[Values, Values], Values], finish: Callable[[float], float] = float
) -> dict[Task, Callable[[int], State]]:
    return {Task.REGRESSION: lambda _: Mean(error, finish)}


_ALL = [
    Metric(
        "accuracy",
        _classes(Confusion.accuracy),
        "share of rows whose most likely class is the label",
        True,
        ("acc", "BinaryAccuracy", "CategoricalAccuracy", "SparseCategoricalAccuracy"),
    ),
    Metric(
        "auc",
        {Task.BINARY: lambda _: RankAUC(), Task.MULTICLASS: RankAUC.one_versus_rest},
        "area under the ROC curve; of several classes the mean over each against the rest",
        True,
        ("ROC_AUC",),
    ),
    Metric(
        "precision",
        _classes(Confusion.precision),
        "share of predicted positives that are positive; mean over classes",
        True,
    ),
    Metric(
        "recall", _classes(Confusion.recall), "share of positives that are predicted as such; mean over classes", True
    ),
    Metric(
        "f1", _classes(Confusion.f1), "harmonic mean of precision and recall; mean over classes", True, ("F1Score",)
    ),
    Metric(
        "log_loss",
        {Task.BINARY: lambda _: Mean(binary_log_loss), Task.MULTICLASS: lambda _: Mean(categorical_log_loss)},
        "mean negative log probability of the label (natural logarithm)",
        False,
        ("BinaryCrossentropy", "CategoricalCrossentropy", "SparseCategoricalCrossentropy"),
    ),
    Metric(
        "top_5_accuracy",
        {Task.MULTICLASS: lambda _: Mean(in_top(5))},
        "share of rows whose label is among the five most likely classes",
        True,
        ("TopK", "TopKCategoricalAccuracy", "SparseTopKCategoricalAccuracy"),
    ),
    Metric("true_positives", _binary(lambda c: c.counts(1, 1)), "number of ones predicted as one", True),
    Metric("true_negatives", _binary(lambda c: c.counts(0, 0)), "number of zeros predicted as zero", True),
    Metric("false_positives", _binary(lambda c: c.counts(0, 1)), "number of zeros predicted as one", False),
    Metric("false_negatives", _binary(lambda c: c.counts(1, 0)), "number of ones predicted as zero", False),
    Metric("mse", _errors(lambda y, p: (p - y) ** 2), "mean squared error", False, ("MeanSquaredError",)),
    Metric(
        "rmse",
        _errors(lambda y, p: (p - y) ** 2, lambda v: float(np.sqrt(v))),
        "root of it",
        False,
        ("RootMeanSquaredError",),
    ),
    Metric("mae", _errors(lambda y, p: abs(p - y)), "mean absolute error", False, ("MeanAbsoluteError",)),
    Metric(
        "mape",
        _errors(lambda y, p: 100 * abs(p - y) / np.maximum(abs(y), 1e-7)),
        "mean absolute error in percent of the label",
        False,
        ("MeanAbsolutePercentageError",),
    ),
]

#: Every metric by its name.
METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace(" ", "")


_NAMES = {_plain(name): metric for metric in _ALL for name in (metric.name, *metric.aliases)}


def find(name: str) -> Metric | None:
    """The metric of this name or alias; None if there is none."""
    return _NAMES.get(_plain(name))


def names_for(task: Task) -> list[str]:
    """Names of the metrics that a task can be measured with."""
    return [metric.name for metric in _ALL if task in metric.tasks]


class Measurement:
    """Several metrics over rows that come in pieces.

    Args:
        names: of metrics or their aliases.
        task: what labels and outputs are.

    Raises:
        ValueError: there is no such metric, or not for this task.
    """

    def __init__(self, names: Sequence[str], task: Task) -> None:
        self._task = task
        self._metrics: dict[str, Metric] = {}
        for name in names:
            metric = find(name)
            if metric is None or task not in metric.tasks:
                raise ValueError(f"no metric {name!r} for {task} outputs; there are {', '.join(names_for(task))}")
            self._metrics[metric.name] = metric
        self._states: dict[str, State] = {}
        self._classes = 0

    @classmethod
    def of(cls, names: Sequence[str], arrays: Mapping[str, Values]) -> Self:
        """The measurement of these metrics whose `arrays` these are.

        Raises:
            ValueError, KeyError: they are of no measurement, or of another one.
        """
        measurement = cls(names, Task(str(arrays["task"])))
        measurement._begin(int(arrays["classes"]))
        for name, state in measurement._states.items():
            own = [key for key in arrays if key.startswith(f"{name}/")]
            state.load([arrays[f"{name}/{i}"] for i in range(len(own))])
        return measurement

    def arrays(self) -> dict[str, Values]:
        """All that it knows of its rows, at least one, for another process: see `of`."""
        arrays = {"task": np.array(str(self._task)), "classes": np.array(self._classes)}
        for name, state in self._states.items():
            arrays |= {f"{name}/{i}": array for i, array in enumerate(state.arrays())}
        return arrays

    def update(self, labels: NDArray[Any], outputs: NDArray[Any]) -> None:
        """Add rows: see `Task` for shapes."""
        labels, outputs = _normal(self._task, np.asarray(labels), np.asarray(outputs))
        if not self._states:
            self._begin(outputs.shape[1] if outputs.ndim > 1 else 2)
        for state in self._states.values():
            state.update(labels, outputs)

    def merge(self, other: Measurement) -> None:
        """Add the rows that another measurement of the same metrics has seen."""
        if not self._states:
            self._states, self._classes = copy.deepcopy(other._states), other._classes
            return
        for name, state in other._states.items():
            self._states[name].merge(state)

    def results(self) -> dict[str, float]:
        """The values by the metrics' own names; NaN where the rows do not define one (such as AUC with one class)."""
        if not self._states:
            return dict.fromkeys(self._metrics, float("nan"))
        return {name: state.result() for name, state in self._states.items()}

    def _begin(self, classes: int) -> None:
        self._classes = classes
        self._states = {name: metric.tasks[self._task](classes) for name, metric in self._metrics.items()}


def evaluate(names: Sequence[str], task: Task, labels: NDArray[Any], outputs: NDArray[Any]) -> dict[str, float]:
    """Metrics of rows that are all at hand."""
    measurement = Measurement(names, task)
    measurement.update(labels, outputs)
    return measurement.results()


def _normal(task: Task, labels: NDArray[Any], outputs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels ``[n]``; outputs ``[n, C]`` for several classes, else ``[n]``."""
    if task is Task.MULTICLASS:
        outputs = outputs.reshape(-1, outputs.shape[-1])
        if labels.size == outputs.size and labels.size != len(outputs):
            labels = labels.reshape(outputs.shape).argmax(axis=1)
        return labels.reshape(-1).astype(np.int64), outputs
    if labels.size != outputs.size:
        raise ValueError(f"labels of shape {labels.shape} do not fit outputs of shape {outputs.shape}")
    labels = labels.reshape(-1)
    return labels.astype(np.int64 if task is Task.BINARY else np.float64), outputs.reshape(-1)
