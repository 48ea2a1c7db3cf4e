"""All ways to run steps train on the same samples to the same weights."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from sqlflow_elastic.elastic.batch import Batch
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.trainer import Trainer, TrainResult
from sqlflow_elastic.elastic.ways import Way
from tests.elastic import models

WAYS = ["single", "fused-4", "xla-4"]


def train(model: Any, dataset: Any, optimizers: Any, gradients: Any, **settings: Any) -> TrainResult:
    return Trainer(model, gradients, optimizers, dataset, TrainSettings(**settings), emit=lambda event: None).run()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("rows", "batch_size"), [(103, 10), (40, 10), (7, 10)])
def test_every_sample_of_every_epoch_counts_once(way: str, rows: int, batch_size: int) -> None:
    model, dataset, optimizers = models.counter(rows)
    result = train(model, dataset, optimizers, models.count_gradients, way=way, epochs=3, batch_size=batch_size)
    total, each = model.seen()
    assert total == 3 * rows
    assert (each == 3).all()
    assert result.steps == 3 * -(-rows // batch_size)
    assert result.way == (way if rows >= batch_size else "single")


def test_every_sample_counts_once_while_the_trainer_tries_its_ways() -> None:
    model, dataset, optimizers = models.counter(1_001)
    result = train(model, dataset, optimizers, models.count_gradients, epochs=2_000, batch_size=10)
    assert result.way != "single"
    total, each = model.seen()
    assert total == 2_000 * 1_001
    assert (each == 2_000).all()


@pytest.mark.parametrize("way", WAYS[1:])
def test_ways_agree_up_to_rounding(way: str) -> None:
    results = []
    for each in ("single", way):
        model, optimizers = models.classifier(normalized=True, l2=0.01)
        train(model, models.classifier_rows(205), optimizers, models.class_gradients, way=each, epochs=2, batch_size=10)
        results.append(models.weights(model))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_random_layers_draw_the_same_numbers_in_loops_of_steps() -> None:
    results = []
    for way in ("single", "fused-4"):
        model, optimizers = models.classifier(dropout=0.5)
        train(model, models.classifier_rows(205), optimizers, models.class_gradients, way=way, epochs=2, batch_size=10)
        results.append(models.weights(model))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_the_same_seed_and_way_give_the_same_bits(way: str) -> None:
    runs = []
    for _ in range(2):
        model, optimizers = models.classifier()
        train(model, models.classifier_rows(95), optimizers, models.class_gradients, way=way, batch_size=10)
        runs.append(models.weights(model))
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_step_that_xla_cannot_compile_trains_without_it() -> None:
    def gradients(model: Any, batch: Batch) -> tuple[tf.Tensor, list[Any]]:
        loss, found = models.count_gradients(model, batch)
        return tf.py_function(lambda value: value, [loss], tf.float32), found

    model, dataset, optimizers = models.counter(40)
    result = train(model, dataset, optimizers, gradients, way="xla-4", batch_size=10)
    assert result.way == "single"
    assert model.seen()[0] == 40


def test_a_mean_loss_does_not_depend_on_how_weights_are_cut() -> None:
    """A batch's weights sum up to one, and a sample's own weight multiplies its part."""
    seen: list[float] = []

    def gradients(model: Any, batch: Batch) -> tuple[tf.Tensor, list[Any]]:
        seen.append(0.0)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(batch.weights) + 0 * model.total
        return loss, tape.gradient(loss, model.trainable_variables)

    model, dataset, optimizers = models.counter(10)
    weighted = type(dataset)(dataset.features, None, np.full(10, 3.0))
    assert train(model, weighted, optimizers, gradients, batch_size=4).loss == pytest.approx(3.0)
    assert len(seen) == 1


def test_text_that_names_no_way_is_refused() -> None:
    with pytest.raises(ValueError, match="no way to run steps: 'fast'"):
        Way.parse("fast")
    model, dataset, optimizers = models.counter(10)
    with pytest.raises(ValueError, match="no way"):
        train(model, dataset, optimizers, models.count_gradients, way="xla-0")


def test_two_optimizers_update_their_own_variables() -> None:
    model, dataset, _ = models.counter(20)
    optimizers = [
        (keras.optimizers.SGD(1.0), [model.total]),
        (keras.optimizers.SGD(2.0), [model.counts.table]),
    ]
    train(model, dataset, optimizers, models.count_gradients, batch_size=6)
    total, each = model.seen()
    assert total == 20
    assert (each == 2).all()
