"""Asynchronous training: one worker's is the training that everybody knows; several do it together, whoever is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.tables import snapshots
from sqlflow_elastic.elastic.tables.manifests import complete_steps, segment_path
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.events import Message, Metrics
from tests.elastic import models
from tests.elastic.asynchronous.lone_crew import DiedError, LoneCrew
from tests.elastic.crews import Crew
from tests.elastic.tables.servers import running

ROWS = 63


def settings(**changes: Any) -> TrainSettings:
    return TrainSettings(**{"epochs": 3, "batch_size": 10, "way": "single", **changes})


def momentum() -> Any:
    return keras.optimizers.SGD(0.05, momentum=0.9)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad", "ftrl", "rmsprop", momentum])
def test_one_worker_trains_as_ever(tmp_path: Path, optimizer: Any) -> None:
    def build(served: bool) -> Any:
        return models.tabled(optimizer=optimizer if isinstance(optimizer, str) else optimizer(), served=served)

    dataset = models.classifier_rows(ROWS)
    expected = Crew(1, lambda: build(False), dataset, settings()).alone()
    with running(tmp_path / "tables", "ps-0", "ps-1") as servers:
        crew = LoneCrew(1, servers, lambda: build(True), dataset, settings())
        (result,) = crew.train()
        assert not isinstance(result, DiedError)
        assert (result.steps, result.epochs) == (21, 3)
        for found, right in zip(crew.weights(lambda: build(False)[0]), expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-6)


def test_what_layers_move_and_rates_that_change_are_as_ever(tmp_path: Path) -> None:
    def build() -> Any:
        model, _ = models.classifier(normalized=True)
        schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 5, 0.7)
        return model, [(keras.optimizers.SGD(schedule), model.trainable_variables)]

    dataset = models.classifier_rows(ROWS)
    expected = Crew(1, build, dataset, settings()).alone()
    with running(tmp_path / "tables", "ps-0") as servers:
        crew = LoneCrew(1, servers, build, dataset, settings())
        crew.train()
        for found, right in zip(crew.weights(lambda: None), expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("staleness", [0, 4])
def test_workers_share_the_batches_of_each_epoch(tmp_path: Path, staleness: int) -> None:
    dataset, held_out = models.classifier_rows(2_000), models.classifier_rows(500, seed=1)
    options: dict[str, Any] = {"validation": held_out, "sample_losses": models.sample_losses, "metrics": ("accuracy",)}
    with running(tmp_path / "tables", "ps-0", "ps-1") as servers:
        crew = LoneCrew(3, servers, models.tabled, dataset, settings(epochs=4, staleness=staleness), **options)
        results = crew.train()
        first = results[0]
        assert not isinstance(first, DiedError)
        assert first.metrics["accuracy"] > 0.85
        assert all(not isinstance(each, DiedError) and each.metrics == first.metrics for each in results)
        counts = Counter(queue for queue, _ in crew.master.done)
        assert counts == Counter(
            {"beginning": 1}
            | {f"epoch {epoch} of 4": 25 for epoch in range(1, 5)}
            | {f"end of epoch {epoch}": 1 for epoch in range(1, 5)}
        )
        assert sum(servers[name].store.step for name in servers.names) == 2 * 4 * 200
        whole = [crew.weights(lambda: models.tabled(served=False)[0], worker) for worker in range(3)]
        for one, other in zip(whole[0], whole[2], strict=True):
            np.testing.assert_array_equal(one, other)
        told = [event for worker in crew.workers for event in worker.events if isinstance(event, Metrics)]
        assert sorted((event.split, event.epoch) for event in told) == sorted(
            (split, epoch) for split in ("train", "validation") for epoch in range(1, 5)
        )


def test_the_tasks_of_a_worker_that_dies_are_done_by_others(tmp_path: Path) -> None:
    with running(tmp_path / "tables", "ps-0") as servers:
        crew = LoneCrew(3, servers, models.tabled, models.classifier_rows(2_000), settings(epochs=2))
        steps: Any = crew.trainers[1]._steps
        taken = []

        def run(*given: Any) -> Any:
            taken.append(given)
            if len(taken) == 9:
                raise DiedError
            return type(steps).run(steps, *given)

        steps.run = run
        results = crew.train()
        assert [isinstance(each, DiedError) for each in results] == [False, True, False]
        assert len(set(crew.master.done)) == len(crew.master.done)
        # Its eight steps counted, and those of them that were of the task it left are done again.
        assert 400 <= servers["ps-0"].store.step <= 408


def test_a_server_that_is_lost_is_replaced_from_the_newest_snapshot(tmp_path: Path) -> None:
    with running(tmp_path / "tables", "ps-0", "ps-1") as servers:
        crew = LoneCrew(
            2, servers, models.tabled, models.classifier_rows(2_000), settings(epochs=3, checkpoint_steps=20)
        )
        emit = crew.workers[0].emit
        lost: list[int] = []

        def tell(event: Any) -> None:
            emit(event)
            if isinstance(event, Metrics) and event.split == "train" and not lost:
                lost.append(max(complete_steps(servers.folder)))
                servers.stop("ps-0")
                servers.start("ps-2")
                crew.master.version += 1

        for worker in crew.workers:
            worker.emit = tell
        results = crew.train()
        assert not any(isinstance(each, DiedError) for each in results)
        assert lost
        assert servers["ps-2"].store.step >= lost[0] + 200
        (*_, last) = [event.values["loss"] for event in crew.workers[0].events if isinstance(event, Metrics)]
        assert last < 0.5


def test_a_snapshot_that_could_not_be_written_is_told_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").write_text("")

    def path(folder: Path, name: str) -> Path:
        return tmp_path / "full" / name if 0 < int(name[:12]) < 60 else segment_path(folder, name)

    monkeypatch.setattr(snapshots, "segment_path", path)
    with running(tmp_path / "tables", "ps-0") as servers:
        rows, every = models.classifier_rows(1_000), settings(epochs=2, checkpoint_steps=20)
        crew = LoneCrew(1, servers, models.tabled, rows, every)
        assert not isinstance(crew.train()[0], DiedError)
    told = [event.text for event in crew.workers[0].events if isinstance(event, Message)]
    assert 0 < len(told) < 60 // 20 + 1
    assert all(text.startswith("no snapshot could be written: ") for text in told)
    assert complete_steps(tmp_path / "tables")


def test_an_epochs_end_whose_worker_dies_when_it_is_written_is_told_by_another_one(tmp_path: Path) -> None:
    with running(tmp_path / "tables", "ps-0") as servers:
        crew = LoneCrew(2, servers, models.tabled, models.classifier_rows(400), settings(epochs=2))
        told: list[Metrics] = []

        def tell(event: Any) -> None:
            if isinstance(event, Metrics):
                told.append(event)
                if len(told) == 1:
                    raise DiedError

        for worker in crew.workers:
            worker.emit = tell
        results = crew.train()
        assert sorted(isinstance(each, DiedError) for each in results) == [False, True]
        assert [event.epoch for event in told] == [1, 1, 2]
        assert told[0] == told[1]


def test_the_best_epoch_is_taken_back(tmp_path: Path) -> None:
    dataset, held_out = models.classifier_rows(40), models.classifier_rows(300, seed=1)
    with running(tmp_path / "tables", "ps-0") as servers:
        crew = LoneCrew(
            1,
            servers,
            lambda: models.tabled(optimizer="adam"),
            dataset,
            settings(epochs=200, patience=2, batch_size=4),
            validation=held_out,
            sample_losses=models.sample_losses,
        )
        (result,) = crew.train()
        assert not isinstance(result, DiedError)
        assert result.stopped_early
        assert result.epochs < 200
        losses = [
            e.values["loss"] for e in crew.workers[0].events if isinstance(e, Metrics) and e.split == "validation"
        ]
        assert result.metrics["loss"] == min(losses) == losses[-3]
        model = models.tabled(served=False)[0]
        for variable, value in zip(model.variables, crew.weights(lambda: models.tabled(served=False)[0]), strict=True):
            variable.assign(value)
        outputs = model(held_out.features, training=False)
        loss = float(np.mean(models.sample_losses(held_out.labels, outputs)))
        np.testing.assert_allclose(loss, result.metrics["loss"], rtol=1e-5)


@pytest.mark.parametrize(
    ("optimizer", "reason"),
    [
        (keras.optimizers.Adam(clipnorm=1.0), "Adam as it is set cannot update weights on servers"),
        (keras.optimizers.Lion(), "Lion as it is set cannot update weights on servers"),
    ],
)
def test_optimizers_that_servers_have_not_are_refused(tmp_path: Path, optimizer: Any, reason: str) -> None:
    def build() -> Any:
        model, _ = models.perceptron()
        return model, [(optimizer, model.trainable_variables)]

    with running(tmp_path / "tables", "ps-0") as servers, pytest.raises(JobError, match=reason):
        LoneCrew(1, servers, build, models.classifier_rows(ROWS), settings())


def test_early_stopping_needs_rows_to_measure(tmp_path: Path) -> None:
    with running(tmp_path / "tables", "ps-0") as servers, pytest.raises(JobError, match="early stopping"):
        LoneCrew(1, servers, models.tabled, models.classifier_rows(ROWS), settings(patience=1))


def test_a_loss_that_is_no_number_ends_training(tmp_path: Path) -> None:
    def build() -> Any:
        model, _ = models.perceptron()
        return model, [(keras.optimizers.SGD(1e30), model.trainable_variables)]

    with running(tmp_path / "tables", "ps-0") as servers:
        crew = LoneCrew(1, servers, build, models.classifier_rows(ROWS), settings())
        with pytest.raises(JobError, match="the loss became"):
            crew.train()
