"""What a metric remembers of the rows it has seen: little, exactly, and mergeable."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]


class State(abc.ABC):
    """What one metric remembers. Updates and merges may come in any order; sums are in float64, counts in int64."""

    @abc.abstractmethod
    def update(self, labels: Values, outputs: Values) -> None:
        """Add rows."""

    @abc.abstractmethod
    def merge(self, other: Self) -> None:
        """Add the rows of another state of the same metric."""

    @abc.abstractmethod
    def result(self) -> float:
        """The metric over all rows so far."""

    @abc.abstractmethod
    def arrays(self) -> list[Values]:
        """All that it remembers, for another process."""

    @abc.abstractmethod
    def load(self, arrays: list[Values]) -> None:
        """Remember what another state's `arrays` say. Raises: ValueError: they are not of this metric."""


class Mean(State):
    """The mean of a value of each row.

    Args:
        value: ``(labels, outputs) -> [n]``; outputs come in float64.
        finish: makes the result of the mean.
    """

    def __init__(self, value: Callable[[Values, Values], Values], finish: Callable[[float], float] = float) -> None:
        self._value = value
        self._finish = finish
        self._sum = 0.0
        self._count = 0

    def update(self, labels: Values, outputs: Values) -> None:
        """Add rows."""
        values = self._value(labels, outputs.astype(np.float64))
        self._sum += float(values.sum())
        self._count += len(values)

    def merge(self, other: Self) -> None:
        """Add the rows of another state."""
        self._sum += other._sum
        self._count += other._count

    def result(self) -> float:
        """The mean, finished."""
        return self._finish(self._sum / self._count) if self._count else float("nan")

    def arrays(self) -> list[Values]:
        """The sum and the number of rows."""
        return [np.array(self._sum), np.array(self._count)]

    def load(self, arrays: list[Values]) -> None:
        """Take both."""
        total, count = arrays
        self._sum, self._count = float(total), int(count)


def binary_log_loss(labels: Values, logits: Values) -> Values:
    """``-log(probability of the label)`` from the logit of 1; finite for any finite logit."""
    losses: Values = np.logaddexp(0, np.where(labels > 0, -logits, logits))
    return losses


def categorical_log_loss(labels: Values, logits: Values) -> Values:
    """``-log(softmax(logits)[label])``."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    losses: Values = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]
    return losses


def in_top(k: int) -> Callable[[Values, Values], Values]:
    """1 where fewer than ``k`` classes have a greater logit than the label's."""

    def value(labels: Values, logits: Values) -> Values:
        own = logits[np.arange(len(labels)), labels]
        hits: Values = (logits > own[:, None]).sum(axis=1) < k
        return hits.astype(np.float64)

    return value


class Confusion(State):
    """How often each class was predicted as each: ``[label, prediction]``.

    Args:
        read: takes the metric from the counts.
        classes: their number; 2 with one logit per row, which predicts 1 above 0.
    """

    def __init__(self, read: Callable[[Confusion], float], classes: int) -> None:
        self._read = read
        self._counts = np.zeros((classes, classes), np.int64)

    def update(self, labels: Values, outputs: Values) -> None:
        """Add rows."""
        predictions = outputs.argmax(axis=1) if outputs.ndim > 1 else (outputs > 0).astype(np.int64)
        classes = len(self._counts)
        self._counts += np.bincount(labels * classes + predictions, minlength=classes**2).reshape(classes, classes)

    def merge(self, other: Self) -> None:
        """Add the rows of another state."""
        self._counts += other._counts

    def result(self) -> float:
        """The metric."""
        return self._read(self)

    def arrays(self) -> list[Values]:
        """The counts."""
        return [self._counts]

    def load(self, arrays: list[Values]) -> None:
        """Take them."""
        (counts,) = arrays
        if counts.shape != self._counts.shape or counts.dtype != np.int64:
            raise ValueError(f"counts {counts.dtype} {counts.shape} of {len(self._counts)} classes")
        self._counts = counts

    def counts(self, label: int, prediction: int) -> float:
        """Rows of this label with this prediction."""
        return float(self._counts[label, prediction])

    def accuracy(self) -> float:
        """Share of rows on the diagonal."""
        total = self._counts.sum()
        return float(np.trace(self._counts) / total) if total else float("nan")

    def precision(self) -> float:
        """True positives by predicted positives; 0 where nothing is predicted."""
        return self._average(lambda hits, predicted, actual: hits / np.maximum(predicted, 1))

    def recall(self) -> float:
        """True positives by positives; 0 where there are none."""
        return self._average(lambda hits, predicted, actual: hits / np.maximum(actual, 1))

    def f1(self) -> float:
        """Harmonic mean of both: twice the true positives by predicted plus actual ones."""
        return self._average(lambda hits, predicted, actual: 2 * hits / np.maximum(predicted + actual, 1))

    def _average(self, score: Callable[[Values, Values, Values], Values]) -> float:
        """Class 1's score with two classes; else the mean over the classes that occur, as label or as prediction."""
        predicted, actual = self._counts.sum(axis=0), self._counts.sum(axis=1)
        scores = score(np.diag(self._counts), predicted, actual)
        if len(self._counts) == 2:
            return float(scores[1])
        occurs = predicted + actual > 0
        return float(scores[occurs].mean()) if occurs.any() else float("nan")


#: Distinct scores that an AUC keeps: 24 bytes each.
_MOST_SCORES = 2**22


class RankAUC(State):
    """The probability that a positive row scores above a negative one, ties counting half.

    Exact while there are at most ``most`` distinct scores; beyond that, scores are rounded to ever fewer binary digits,
    which makes ties of neighbours (with 4 million distinct scores kept, an error of the order of 1e-7).

    Args:
        most: distinct scores to keep.
    """

    def __init__(self, most: int = _MOST_SCORES) -> None:
        self._most = most
        self._digits: int | None = None
        self._scores: Values = np.empty(0)
        self._counts: NDArray[np.int64] = np.zeros((0, 2), np.int64)
        self._pending: list[tuple[Values, NDArray[np.int64]]] = []
        self._pending_rows = 0

    @staticmethod
    def one_versus_rest(classes: int) -> State:
        """The mean over classes that have both positives and negatives."""
        return _OneVersusRest(classes)

    def update(self, labels: Values, outputs: Values) -> None:
        """Add rows."""
        self._add(outputs.copy(), np.stack([labels == 0, labels != 0], axis=1).astype(np.int64))

    def merge(self, other: Self) -> None:
        """Add the rows of another state."""
        other._compact()
        self._add(other._scores, other._counts)

    def result(self) -> float:
        """The area; NaN if one class is missing or a score is."""
        self._compact()
        negatives, positives = self._counts.sum(axis=0).tolist()
        if not negatives or not positives or np.isnan(self._scores).any():
            return float("nan")
        below = np.cumsum(self._counts[:, 0]) - self._counts[:, 0]
        # In float64: the counts' products may pass 2**63.
        wins = (self._counts[:, 1].astype(np.float64) * (below + 0.5 * self._counts[:, 0])).sum()
        return float(wins / positives / negatives)

    def arrays(self) -> list[Values]:
        """Distinct scores and the counts of each."""
        self._compact()
        return [self._scores, self._counts]

    def load(self, arrays: list[Values]) -> None:
        """Take both."""
        scores, counts = arrays
        if scores.ndim != 1 or counts.shape != (len(scores), 2) or counts.dtype != np.int64:
            raise ValueError(f"counts {counts.dtype} {counts.shape} for scores {scores.shape}")
        self._scores, self._counts = scores, counts

    def _add(self, scores: Values, counts: NDArray[np.int64]) -> None:
        self._pending.append((scores, counts))
        self._pending_rows += len(scores)
        if self._pending_rows > self._most // 2:
            self._compact()

    def _compact(self) -> None:
        if not self._pending:
            return
        scores = np.concatenate([self._scores, *(scores for scores, _ in self._pending)])
        counts = np.concatenate([self._counts, *(counts for _, counts in self._pending)])
        self._pending, self._pending_rows = [], 0
        self._scores, self._counts = _grouped(
            scores if self._digits is None else _rounded(scores, self._digits), counts
        )
        while len(self._scores) > self._most:
            self._digits = 24 if self._digits is None else self._digits - 1
            self._scores, self._counts = _grouped(_rounded(self._scores, self._digits), self._counts)


class _OneVersusRest(State):
    def __init__(self, classes: int) -> None:
        self._of = [RankAUC(max(2**16, _MOST_SCORES // classes)) for _ in range(classes)]

    def update(self, labels: Values, outputs: Values) -> None:
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        probabilities = np.exp(shifted)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        for index, state in enumerate(self._of):
            state.update(labels == index, probabilities[:, index])

    def merge(self, other: Self) -> None:
        for mine, others in zip(self._of, other._of, strict=True):
            mine.merge(others)

    def result(self) -> float:
        areas = np.array([state.result() for state in self._of])
        return float(np.nanmean(areas)) if np.isfinite(areas).any() else float("nan")

    def arrays(self) -> list[Values]:
        return [array for state in self._of for array in state.arrays()]

    def load(self, arrays: list[Values]) -> None:
        if len(arrays) != 2 * len(self._of):
            raise ValueError(f"{len(arrays)} arrays of {len(self._of)} classes")
        for i, state in enumerate(self._of):
            state.load(arrays[2 * i : 2 * i + 2])


def _grouped(scores: Values, counts: NDArray[np.int64]) -> tuple[Values, NDArray[np.int64]]:
    """Distinct scores, ascending, and the counts of each."""
    order = np.argsort(scores, kind="stable")
    scores, counts = scores[order], counts[order]
    if not len(scores):
        return scores, counts
    starts = np.flatnonzero(np.concatenate([[True], scores[1:] != scores[:-1]]))
    return scores[starts], np.add.reduceat(counts, starts, axis=0)


def _rounded(scores: Values, digits: int) -> Values:
    """Scores with so many binary digits."""
    mantissa, exponent = np.frexp(scores)
    rounded: Values = np.ldexp(np.rint(np.ldexp(mantissa, digits)), exponent - digits)
    return rounded
