"""Metrics equal scikit-learn's, however the rows are cut and merged."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as sk

from sqlflow_elastic.elastic.metric_states import RankAUC
from sqlflow_elastic.elastic.metrics import METRICS, Measurement, Task, evaluate, find, names_for

RNG = np.random.default_rng(0)
BINARY = (RNG.integers(0, 2, 500), RNG.normal(size=(500, 1)).round(1).astype(np.float32))
CLASSES = (RNG.integers(0, 4, 500), RNG.normal(size=(500, 4)).astype(np.float32))
NUMBERS = (RNG.normal(size=(500, 1)) * 10, RNG.normal(size=(500, 1)) * 10)


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    exponents = np.exp(logits.astype(np.float64))
    return np.asarray(exponents / exponents.sum(axis=1, keepdims=True))


def test_binary_metrics_equal_scikit_learns() -> None:
    labels, logits = BINARY
    predicted = (logits[:, 0] > 0).astype(int)
    negatives_first = sk.confusion_matrix(labels, predicted)
    probabilities = 1 / (1 + np.exp(-logits[:, 0].astype(np.float64)))
    assert evaluate(names_for(Task.BINARY), Task.BINARY, labels, logits) == pytest.approx(
        {
            "accuracy": sk.accuracy_score(labels, predicted),
            "auc": sk.roc_auc_score(labels, logits[:, 0]),
            "precision": sk.precision_score(labels, predicted),
            "recall": sk.recall_score(labels, predicted),
            "f1": sk.f1_score(labels, predicted),
            "log_loss": sk.log_loss(labels, probabilities),
            "true_negatives": negatives_first[0, 0],
            "false_positives": negatives_first[0, 1],
            "false_negatives": negatives_first[1, 0],
            "true_positives": negatives_first[1, 1],
        },
        rel=1e-12,
    )


def test_metrics_of_several_classes_equal_scikit_learns() -> None:
    labels, logits = CLASSES
    predicted, probabilities = logits.argmax(axis=1), softmax(logits)
    names = ["accuracy", "auc", "precision", "recall", "f1", "log_loss"]
    assert evaluate(names, Task.MULTICLASS, labels[:, None], logits) == pytest.approx(
        {
            "accuracy": sk.accuracy_score(labels, predicted),
            "auc": sk.roc_auc_score(labels, probabilities, multi_class="ovr", average="macro"),
            "precision": sk.precision_score(labels, predicted, average="macro"),
            "recall": sk.recall_score(labels, predicted, average="macro"),
            "f1": sk.f1_score(labels, predicted, average="macro"),
            "log_loss": sk.log_loss(labels, probabilities),
        },
        rel=1e-6,
    )


def test_top_5_accuracy_equals_scikit_learns() -> None:
    labels, logits = RNG.integers(0, 20, 500), RNG.normal(size=(500, 20))
    expected = sk.top_k_accuracy_score(labels, logits, k=5)
    assert evaluate(["topk"], Task.MULTICLASS, labels, logits) == pytest.approx({"top_5_accuracy": expected})


def test_errors_of_numbers_equal_scikit_learns() -> None:
    labels, outputs = NUMBERS
    assert evaluate(names_for(Task.REGRESSION), Task.REGRESSION, labels, outputs[:, 0]) == pytest.approx(
        {
            "mse": sk.mean_squared_error(labels, outputs),
            "rmse": sk.root_mean_squared_error(labels, outputs),
            "mae": sk.mean_absolute_error(labels, outputs),
            "mape": 100 * sk.mean_absolute_percentage_error(labels, outputs),
        },
        rel=1e-12,
    )


@pytest.mark.parametrize(
    ("task", "data"), [(Task.BINARY, BINARY), (Task.MULTICLASS, CLASSES), (Task.REGRESSION, NUMBERS)]
)
def test_pieces_and_merged_measurements_give_the_same_values(
    task: Task, data: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> None:
    labels, outputs = data
    whole = evaluate(names_for(task), task, labels, outputs)
    parts = [Measurement(names_for(task), task) for _ in range(3)]
    for i, start in enumerate(range(0, 500, 77)):
        parts[i % 3].update(labels[start : start + 77], outputs[start : start + 77])
    merged = Measurement(names_for(task), task)
    for part in parts:
        merged.merge(part)
    assert merged.results() == pytest.approx(whole, rel=1e-12)
    untouched = parts[0].results()
    merged.update(labels, outputs)
    assert parts[0].results() == untouched


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=40))
def test_auc_is_the_probability_that_a_positive_scores_higher(rows: list[tuple[bool, int]]) -> None:
    labels = np.array([label for label, _ in rows])
    scores = np.array([score for _, score in rows], float)
    pairs = [(p > n) + 0.5 * (p == n) for p in scores[labels] for n in scores[~labels]]
    state = RankAUC()
    state.update(labels, scores)
    assert state.result() == pytest.approx(np.mean(pairs) if pairs else np.nan, nan_ok=True)


def test_auc_of_more_scores_than_it_keeps_is_close() -> None:
    labels = RNG.integers(0, 2, 100_000)
    scores = RNG.normal(size=100_000) + labels
    state = RankAUC(most=5_000)
    for start in range(0, 100_000, 1_000):
        state.update(labels[start : start + 1_000], scores[start : start + 1_000])
    assert len(state._scores) <= 5_000
    assert state.result() == pytest.approx(sk.roc_auc_score(labels, scores), abs=1e-3)


@pytest.mark.parametrize("task", list(Task))
def test_what_a_measurement_knows_survives_the_way_to_another_process(task: Task) -> None:
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(90, 3) if task is Task.MULTICLASS else 90).astype(np.float32)
    labels = rng.normal(size=90) if task is Task.REGRESSION else rng.integers(0, 3 if outputs.ndim > 1 else 2, 90)
    names = names_for(task)
    merged = None
    for rows in (slice(0, 40), slice(40, 41), slice(41, 90)):
        part = Measurement(names, task)
        part.update(labels[rows], outputs[rows])
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **part.arrays())
        with np.load(io.BytesIO(file.getvalue()), allow_pickle=False) as arrays:
            received = Measurement.of(names, dict(arrays))
        assert received.results() == pytest.approx(part.results(), nan_ok=True)
        if merged is None:
            merged = received
        else:
            merged.merge(received)
    assert merged is not None
    assert merged.results() == pytest.approx(evaluate(names, task, labels, outputs), nan_ok=True)


def test_arrays_of_another_measurement_are_refused() -> None:
    part = Measurement(["accuracy", "auc"], Task.BINARY)
    part.update(np.array([0, 1]), np.array([-1.0, 1.0]))
    arrays = part.arrays()
    for wrong in (
        {**arrays, "accuracy/0": np.zeros((3, 3), np.int64)},
        {**arrays, "auc/1": np.zeros((1, 2), np.int64)},
        {**arrays, "task": np.array("regression")},
        {name: array for name, array in arrays.items() if name != "accuracy/0"},
    ):
        with pytest.raises(ValueError, match=r"counts|no metric|unpack"):
            Measurement.of(["accuracy", "auc"], wrong)


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("Accuracy", "accuracy"),
        ("AUC", "auc"),
        ("Precision", "precision"),
        ("Recall", "recall"),
        ("TruePositives", "true_positives"),
        ("FalseNegatives", "false_negatives"),
        ("BinaryAccuracy", "accuracy"),
        ("CategoricalCrossentropy", "log_loss"),
        ("TopKCategoricalAccuracy", "top_5_accuracy"),
        ("MeanAbsoluteError", "mae"),
        ("MeanSquaredError", "mse"),
        ("RootMeanSquaredError", "rmse"),
        ("meanabsolutepercentageerror", "mape"),
        ("log_loss", "log_loss"),
    ],
)
def test_sqlflows_and_keras_names_are_known(name: str, metric: str) -> None:
    assert find(name) is METRICS[metric]


def test_a_metric_that_does_not_fit_the_task_is_an_error_that_names_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"no metric 'auc' for regression outputs; there are mse, rmse, mae, mape"):
        Measurement(["auc"], Task.REGRESSION)


def test_a_value_the_rows_do_not_define_is_nan() -> None:
    values = evaluate(["auc", "accuracy"], Task.BINARY, np.ones(3, int), np.ones(3))
    assert np.isnan(values["auc"])
    assert values["accuracy"] == 1


def test_metrics_and_settings_are_read_without_tensorflow() -> None:
    program = (
        "import sys; import sqlflow_elastic.elastic.metrics, sqlflow_elastic.elastic.settings; "
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
