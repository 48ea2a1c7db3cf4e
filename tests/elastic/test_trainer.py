"""What a training reports, and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from sqlflow_elastic.elastic.batch import Batch
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.trainer import Trainer, TrainResult
from sqlflow_elastic.errors import DataError, JobCancelled, JobError
from sqlflow_elastic.events import Event, Message, Metrics, Progress
from tests.elastic import models


def classify(
    settings: TrainSettings, *, emit: Callable[[Event], None] = lambda event: None, rows: int = 205, **options: Any
) -> tuple[Any, TrainResult]:
    model, optimizers = models.classifier(optimizer=options.pop("optimizer", "adam"))
    dataset = options.pop("dataset", None) or models.classifier_rows(rows)
    options.setdefault("sample_losses", models.sample_losses)
    trainer = Trainer(model, models.class_gradients, optimizers, dataset, settings, emit=emit, **options)
    return model, trainer.run()


def test_events_tell_the_first_step_each_epoch_and_the_end() -> None:
    events: list[Event] = []
    settings = TrainSettings(epochs=3, batch_size=50, log_every_n_steps=2)
    classify(settings, emit=events.append, validation=models.classifier_rows(100, 1), metrics=["Accuracy", "AUC"])
    progress = [event for event in events if isinstance(event, Progress)]
    assert (progress[0].done, progress[0].total, progress[0].epoch, progress[0].epochs) == (1, 15, 1, 3)
    assert (progress[-1].done, progress[-1].epoch) == (15, 3)
    assert all(event.loss is not None for event in progress[:1])
    metrics = [event for event in events if isinstance(event, Metrics)]
    of_epochs = [
        (event.split, event.step, event.epoch) for event in metrics if event.step % 5 == 0 and event.step != 10
    ]
    assert of_epochs == [("train", 5, 1), ("validation", 5, 1), ("train", 15, 3), ("validation", 15, 3)]
    assert [event.step for event in metrics if event.step % 2 == 0] == [2, 4, 6, 8, 10, 10, 10, 12, 14]
    validation = [event for event in metrics if event.split == "validation"]
    assert set(validation[0].values) == {"loss", "accuracy", "auc"}


def test_silence_emits_no_progress() -> None:
    events: list[Event] = []
    classify(TrainSettings(verbose=0), emit=events.append)
    assert not [event for event in events if isinstance(event, Progress)]


def test_the_training_loss_is_the_mean_over_samples_and_the_validation_loss_too() -> None:
    dataset = models.classifier_rows(103)
    model, result = classify(
        TrainSettings(epochs=2, batch_size=10),
        dataset=dataset,
        optimizer="sgd",
        validation=dataset,
        metrics=["accuracy"],
    )
    logits = model.predict(dataset.features, verbose=0)
    assert result.metrics["loss"] == pytest.approx(
        float(np.mean(models.sample_losses(dataset.labels, logits))), rel=1e-5
    )
    assert result.metrics["accuracy"] == pytest.approx(float((logits.argmax(axis=1) == dataset.labels).mean()))
    assert result.loss == pytest.approx(result.metrics["loss"], rel=0.2)


def test_validation_steps_limit_the_rows_of_a_validation() -> None:
    validation = models.classifier_rows(100, 1)
    first = ArrayDataset({k: v[:20] for k, v in validation.features.items()}, validation.labels[:20])  # type: ignore[index]
    _, limited = classify(TrainSettings(batch_size=10, validation_steps=2), validation=validation)
    _, whole = classify(TrainSettings(batch_size=10), validation=first)
    assert limited.metrics == whole.metrics


def test_max_steps_end_training_within_an_epoch_and_validate() -> None:
    _, result = classify(TrainSettings(epochs=9, batch_size=50, max_steps=7), validation=models.classifier_rows(50, 1))
    assert (result.steps, result.epochs) == (7, 2)
    assert np.isfinite(result.metrics["loss"])
    assert np.isfinite(result.loss)


def test_without_a_better_validation_loss_training_stops_and_takes_back_the_best_weights() -> None:
    validation = models.classifier_rows(200, 1)
    flipped = ArrayDataset(validation.features, 1 - np.asarray(validation.labels))
    events: list[Event] = []
    model, result = classify(
        TrainSettings(epochs=50, batch_size=20, patience=2), validation=flipped, emit=events.append, optimizer="sgd"
    )
    losses = [e.values["loss"] for e in events if isinstance(e, Metrics) and e.split == "validation"]
    assert result.stopped_early
    assert losses.index(min(losses)) == len(losses) - 3
    assert result.metrics["loss"] == min(losses)
    logits = model.predict(flipped.features, verbose=0)
    assert float(np.mean(models.sample_losses(flipped.labels, logits))) == pytest.approx(min(losses), rel=1e-5)


def test_early_stopping_without_validation_rows_is_an_error() -> None:
    with pytest.raises(JobError, match="early stopping needs validation rows"):
        classify(TrainSettings(patience=1))


def test_sample_weights_multiply_the_loss_of_their_sample() -> None:
    dataset = models.classifier_rows(40)
    twice = ArrayDataset(
        {name: np.concatenate([array, array[:20]]) for name, array in dataset.features.items()},
        np.concatenate([dataset.labels, dataset.labels[:20]]),  # type: ignore[index]
    )
    weighted = ArrayDataset(dataset.features, dataset.labels, np.array([2.0] * 20 + [1.0] * 20))
    weights = []
    # A whole batch's mean loss is over 60 samples in the one case and over 40 in the other: rates in that proportion.
    for rows, rate in ((twice, 0.3), (weighted, 0.2)):
        model, _ = models.classifier()
        optimizers = [(keras.optimizers.SGD(rate), model.trainable_variables)]
        settings = TrainSettings(epochs=5, batch_size=60)
        Trainer(model, models.class_gradients, optimizers, rows, settings, emit=lambda event: None).run()
        weights.append(models.weights(model))
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_a_number_in_the_data_that_is_not_finite_is_named() -> None:
    dataset = models.classifier_rows(30)
    dataset.features["numbers"][17, 2] = np.nan
    with pytest.raises(DataError, match="step 1 met a value in numbers that is not a finite number"):
        classify(TrainSettings(batch_size=30), dataset=dataset)


@pytest.mark.parametrize("way", ["single", "fused-4"])
def test_a_loss_that_is_not_finite_ends_training_with_its_step(way: str) -> None:
    def gradients(model: Any, batch: Batch) -> tuple[tf.Tensor, list[Any]]:
        loss, found = models.count_gradients(model, batch)
        return tf.where(model.total < 100, loss, np.inf), found

    model, dataset, optimizers = models.counter(200)
    trainer = Trainer(
        model, gradients, optimizers, dataset, TrainSettings(batch_size=10, way=way), emit=lambda event: None
    )
    with pytest.raises(JobError, match=r"the loss became inf at step 11 \(epoch 1\).*learning rate"):
        trainer.run()


def test_weights_that_the_last_step_ruins_are_noticed() -> None:
    model, dataset, _ = models.counter(10)
    optimizers = [(keras.optimizers.SGD(np.inf), model.trainable_variables)]
    trainer = Trainer(
        model, models.count_gradients, optimizers, dataset, TrainSettings(batch_size=10), emit=lambda event: None
    )
    with pytest.raises(JobError, match="not finite after step 1"):
        trainer.run()


@pytest.mark.parametrize("way", ["single", "fused-4"])
def test_a_stopped_training_goes_on_where_it_was(tmp_path: Path, way: str) -> None:
    settings = TrainSettings(epochs=4, batch_size=10, way=way)
    events: list[Event] = []

    def trainer(model: Any, dataset: Any, optimizers: Any, emit: Callable[[Event], None]) -> Trainer:
        return Trainer(model, models.count_gradients, optimizers, dataset, settings, checkpoints=tmp_path, emit=emit)

    def stop(event: Event) -> None:
        if isinstance(event, Metrics) and event.epoch == 2:
            first.stop()

    first = trainer(*models.counter(103), stop)
    with pytest.raises(JobCancelled, match="stopped after step 22 of 44"):
        first.run()
    model, dataset, optimizers = models.counter(103)
    result = trainer(model, dataset, optimizers, events.append).run()
    assert model.seen()[0] == 4 * 103
    assert (model.seen()[1] == 4).all()
    assert result.steps == 44
    assert Message("training goes on after step 22 of 44") in events


def test_a_model_without_a_label_trains() -> None:
    model, dataset, optimizers = models.counter(30)
    assert dataset.labels is None
    trainer = Trainer(model, models.count_gradients, optimizers, dataset, TrainSettings(), emit=lambda event: None)
    assert trainer.run().steps == 1


def test_checkpoints_are_written_by_time_and_the_last_two_stay(tmp_path: Path) -> None:
    written: set[str] = set()

    def look(event: Event) -> None:
        written.update(path.name for path in tmp_path.glob("step-*.npz"))
        if len(written) > 2:
            trainer.stop()

    # It ends when enough are written: how many steps that takes is the disk's business.
    settings = TrainSettings(epochs=10_000, batch_size=10, checkpoint_secs=1e-6, log_every_n_steps=1, way="single")
    model, dataset, optimizers = models.counter(100)
    trainer = Trainer(model, models.count_gradients, optimizers, dataset, settings, checkpoints=tmp_path, emit=look)
    with pytest.raises(JobCancelled):
        trainer.run()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == 2
    assert left[0] >= max(written)


def test_checkpoints_that_cannot_be_written_do_not_end_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    events: list[Event] = []
    settings = TrainSettings(batch_size=50, checkpoint_steps=2)
    _, result = classify(settings, checkpoints=tmp_path / "file" / "folder", emit=events.append)
    assert result.steps == 5
    assert [event.level for event in events if isinstance(event, Message)] == ["warning", "warning"]
