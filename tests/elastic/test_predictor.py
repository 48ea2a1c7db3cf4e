"""Inference gives Keras's numbers, from one trace."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.predictor import Predictor
from tests.elastic import models


@pytest.mark.parametrize("batch_rows", [1, 7, 100, 1000])
def test_outputs_are_those_of_keras_in_the_order_of_rows(batch_rows: int) -> None:
    model, _ = models.classifier(dropout=0.5, normalized=True)
    dataset = models.classifier_rows(205)
    outputs = list(Predictor(model).run(dataset, batch_rows))
    assert [len(piece) for piece in outputs[:-1]] == [batch_rows] * (len(outputs) - 1)
    np.testing.assert_allclose(
        np.concatenate(outputs), model.predict(dataset.features, verbose=0), rtol=1e-5, atol=1e-6
    )


def test_short_batches_and_further_runs_use_one_trace() -> None:
    traces = []

    class Noticing(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            traces.append(x.shape)
            return x

    inputs = keras.Input((2,), name="x")
    model = keras.Model({"x": inputs}, Noticing()(inputs))
    traces.clear()
    predictor = Predictor(model)
    for rows in (10, 3, 17):
        values = np.ones((rows, 2), np.float32)
        assert sum(len(piece) for piece in predictor.run(ArrayDataset({"x": values}), 4)) == rows
    assert len(traces) == 1


def test_arrays_of_different_lengths_are_no_dataset() -> None:
    with pytest.raises(ValueError, match="same number of rows"):
        ArrayDataset({"x": np.zeros(3)}, np.zeros(4))
