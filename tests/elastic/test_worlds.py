"""The model after a step is the same for every world that takes it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqlflow_elastic.elastic import joint
from sqlflow_elastic.elastic.comm import Endpoint, Place, WireDtype
from sqlflow_elastic.elastic.settings import TrainSettings
from tests.elastic import models
from tests.elastic.crews import Crew
from tests.elastic.worlds import World, equal

ROOT = Path(__file__).parents[2]
SPLITS: list[tuple[float, ...]] = [(0.5, 0.5), (0.9, 0.1), (0.2, 0.5, 0.3), (0.0, 0.6, 0.4), ()]

MODELS: dict[str, Callable[[], Any]] = {
    "adam with a table": models.classifier,
    "adagrad, regularized": lambda: models.classifier(optimizer="adagrad", l2=0.01),
    "dense only": lambda: models.perceptron(optimizer="sgd"),
    "two optimizers": models.wide_and_deep,
}


def settings(**changes: Any) -> TrainSettings:
    # 63 rows: an epoch's last batch has three, fewer than the largest world's members.
    return TrainSettings(**{"epochs": 3, "batch_size": 10, "way": "single", **changes})


def test_a_graph_for_slices_of_one_size_takes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def crew(epochs: int) -> Crew:
        return Crew(2, lambda: models.classifier(normalized=True), models.weighted_rows(63), settings(epochs=epochs))

    undisturbed = crew(40)
    undisturbed.rewind()
    assert undisturbed.run(range(2)) == [True, True]
    monkeypatch.setattr(joint, "_STEADY_SECONDS", 0.0)
    monkeypatch.setattr(joint, "_TRACE_REPAYS", 0.0)
    special = crew(40)
    special.rewind()
    traced = special.traces
    assert special.run(range(2)) == [True, True]
    for trainer in special.trainers:
        trainer.close()
    assert special.traces - traced >= 2
    again = special.traces
    special.rewind()
    assert special.run(range(2)) == [True, True]
    assert special.traces - again <= 2  # no size twice
    for one, other in zip(special.weights(0), undisturbed.weights(0), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert equal(special.weights(0), special.weights(1))


@pytest.mark.parametrize("name", MODELS)
def test_worlds_of_all_sizes_and_splits_train_the_same_model(name: str) -> None:
    crew = Crew(4, MODELS[name], models.weighted_rows(63), settings())
    expected = crew.alone()
    for shares in SPLITS:
        crew.rewind()
        members = range(len(shares) or 4)
        assert crew.run(members, shares) == [True] * len(members)
        for member in members:
            assert equal(crew.state(member), crew.state(0))
        for one, other in zip(expected, crew.weights(0), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * np.abs(one).max())
    assert crew.trainers[0].step == 21


def test_in_wide_floats_they_agree_to_the_ninth_digit() -> None:
    command = [sys.executable, "-m", "tests.elastic.wide_floats"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=True)
    differences = json.loads(done.stdout.splitlines()[-1])
    assert set(differences) == set(MODELS)
    assert max(differences.values()) < 1e-9


def test_layers_with_a_state_and_random_ones_have_one_state_at_all_members() -> None:
    crew = Crew(
        3, lambda: models.classifier(dropout=0.3, normalized=True, l2=0.01), models.classifier_rows(63), settings()
    )
    alone = crew.alone()
    seed = next(i for i, v in enumerate(crew.models[0].variables) if v.name == "seed_generator_state")
    crew.rewind()
    assert crew.run(range(3), (0.2, 0.5, 0.3)) == [True] * 3
    for member in range(3):
        assert equal(crew.state(member), crew.state(0))
    np.testing.assert_array_equal(crew.weights(0)[seed], alone[seed])


def test_ranks_draw_other_random_numbers_and_the_first_one_those_of_a_member_alone() -> None:
    crew = Crew(
        2, lambda: models.classifier(dropout=0.5, optimizer="sgd"), models.classifier_rows(20), settings(epochs=1)
    )
    weights = {}
    for shares in ((1.0, 0.0), (0.0, 1.0)):
        crew.rewind()
        crew.run(range(2), shares)
        weights[shares] = crew.weights(0)
    np.testing.assert_allclose(weights[1.0, 0.0][-1], crew.alone()[-1], rtol=1e-5)
    assert not np.allclose(weights[1.0, 0.0][-1], weights[0.0, 1.0][-1], rtol=1e-3)


def test_moving_means_are_those_of_the_whole_batch() -> None:
    crew = Crew(
        3,
        lambda: models.classifier(normalized=True, optimizer="sgd"),
        models.classifier_rows(10),
        settings(epochs=1),
    )
    mean = next(i for i, v in enumerate(crew.models[0].variables) if v.name == "moving_mean")
    expected = crew.alone()[mean]
    crew.rewind()
    crew.run(range(3), (0.2, 0.5, 0.3))
    np.testing.assert_allclose(crew.weights(0)[mean], expected, rtol=1e-4, atol=1e-6)


def test_no_size_of_a_slice_is_traced_anew() -> None:
    crew = Crew(3, models.classifier, models.classifier_rows(63), settings(epochs=1))
    for trainer in crew.trainers:
        trainer.warm_up()
    traced = crew.traces
    for shares in SPLITS[:-1]:
        crew.rewind()
        crew.run(range(len(shares)), shares)
    assert crew.traces == traced == 3


def test_warming_up_changes_nothing() -> None:
    for build in (models.classifier, models.perceptron):
        crew = Crew(1, build, models.classifier_rows(30), settings())
        before = crew.state(0)
        crew.trainers[0].warm_up()
        assert equal(before, crew.state(0))


def test_a_validation_split_over_members_has_the_values_of_a_single_process() -> None:
    crew = Crew(
        4,
        models.classifier,
        models.classifier_rows(63),
        settings(epochs=2),
        sample_losses=models.sample_losses,
        metrics=["accuracy", "auc", "log_loss"],
        validation=models.weighted_rows(47, 1),
    )
    crew.alone()
    expected = crew.trainers[0].result().metrics
    for shares in (*SPLITS, (0.0, 1.0)):
        crew.rewind()
        members = range(len(shares) or 4)
        crew.run(members, shares)
        found = [crew.trainers[member].result().metrics for member in members]
        assert all(each == found[0] for each in found)
        assert found[0] == pytest.approx(dict(expected), rel=1e-5)
        assert found[0]["auc"] == expected["auc"]


def test_members_stop_early_together_and_take_back_the_same_weights() -> None:
    validation = models.classifier_rows(50, 1)
    flipped = type(validation)(validation.features, 1 - np.asarray(validation.labels))
    crew = Crew(
        2,
        models.perceptron,
        models.classifier_rows(63),
        settings(epochs=50, patience=2),
        sample_losses=models.sample_losses,
        validation=flipped,
    )
    assert crew.run(range(2), (0.7, 0.3)) == [True, True]
    results = [trainer.result() for trainer in crew.trainers]
    assert results[0].stopped_early
    assert results[0].steps == results[1].steps < 50 * 7
    assert results[0].metrics == results[1].metrics
    assert equal(crew.weights(0), crew.weights(1))


@pytest.mark.parametrize("wire", [None, WireDtype.BFLOAT16])
def test_over_sockets_members_agree_and_losses_and_flags_are_exact_whatever_the_wire_is(wire: WireDtype | None) -> None:
    crew = Crew(2, models.wide_and_deep, models.classifier_rows(63), settings(wire_dtype=wire and str(wire)))
    assert crew.trainers[0].wire is wire
    crew.alone()
    expected = crew.trainers[0].result().loss
    crew.rewind()
    endpoints = [Endpoint(b"a token of the job's") for _ in range(2)]

    def work(rank: int) -> Callable[[Any], bool]:
        def run(_: Any) -> bool:
            place = Place(1, rank, 2, endpoints[1 - rank].address)
            with endpoints[rank].connect(place, 20, wire) as communicator:
                return crew.trainers[rank].run(communicator, (0.4, 0.6), lambda: False)

        return run

    try:
        assert World(2).run(work(0), work(1)) == [True, True]
    finally:
        for endpoint in endpoints:
            endpoint.close()
    assert equal(crew.state(0), crew.state(1))
    assert crew.trainers[0].result().loss == pytest.approx(expected, rel=1e-5 if wire is None else 1e-2)
