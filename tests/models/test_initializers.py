"""Initializers of Keras for servers: the limits and deviations that Keras itself draws with."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from sqlflow_elastic.models.tables.initial import initial_rows
from sqlflow_elastic.models.tables.initializers import initial_of
from sqlflow_elastic.models.tables.spec import Distribution, Initial, Part

of = keras.initializers

FAMILY = [
    of.GlorotUniform,
    of.GlorotNormal,
    of.HeUniform,
    of.HeNormal,
    of.LecunUniform,
    of.LecunNormal,
    *(
        lambda seed, mode=mode, distribution=distribution: of.VarianceScaling(2.5, mode, distribution, seed=seed)
        for mode in ("fan_in", "fan_out", "fan_avg")
        for distribution in ("uniform", "truncated_normal", "untruncated_normal")
    ),
    lambda seed: of.RandomUniform(-0.2, 0.7, seed=seed),
    lambda seed: of.RandomNormal(0.4, 0.2, seed=seed),
    lambda seed: of.TruncatedNormal(-0.4, 0.2, seed=seed),
]


@pytest.mark.parametrize("shape", [(40_000, 8), (400, 600)])
@pytest.mark.parametrize("index", range(len(FAMILY)))
def test_numbers_are_those_of_keras_in_all_that_can_be_told(index: int, shape: tuple[int, int]) -> None:
    initializer: Any = FAMILY[index](seed=3)
    initial = initial_of(initializer, *shape)
    assert initial is not None
    ours = initial_rows(Part(shape[1], initial, 1), 2, np.arange(shape[0]), "float32").ravel()
    theirs = np.asarray(initializer(shape)).ravel()
    deviation = float(theirs.std())
    assert abs(ours.mean() - theirs.mean()) < 0.015 * deviation
    assert float(ours.std()) == pytest.approx(deviation, rel=0.01)
    shares = np.linspace(0.02, 0.98, 25)
    np.testing.assert_allclose(np.quantile(ours, shares), np.quantile(theirs, shares), atol=0.025 * deviation)
    if initial.distribution is not Distribution.NORMAL:
        assert float(ours.min()) == pytest.approx(float(theirs.min()), abs=0.005 * deviation)
        assert float(ours.max()) == pytest.approx(float(theirs.max()), abs=0.005 * deviation)


@pytest.mark.parametrize(
    ("initializer", "value"), [(of.Zeros(), 0.0), (of.Ones(), 1.0), (of.Constant(0.25), 0.25), (of.Constant(3), 3.0)]
)
def test_constants_are_constants(initializer: Any, value: float) -> None:
    assert initial_of(initializer, 10, 4) == Initial(Distribution.CONSTANT, value)


@pytest.mark.parametrize("initializer", [of.Orthogonal(), of.Identity(), lambda shape, dtype: None])
def test_what_does_not_draw_number_by_number_has_none(initializer: Any) -> None:
    assert initial_of(initializer, 10, 4) is None
