"""Gradients of tables of few rows travel whole, and update the rows that the batch names, no others."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from sqlflow_elastic.elastic.table_rows import is_less_whole, touched_rows, whole_size, whole_table
from tests.elastic import models
from tests.elastic.crews import Crew
from tests.elastic.test_worlds import settings
from tests.elastic.worlds import equal


def test_a_whole_table_says_which_rows_are_named_though_their_gradients_are_zero() -> None:
    values = tf.constant([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]])
    slices = tf.IndexedSlices(values, tf.constant([4, 4, 1]), tf.constant([6, 2]))
    whole = whole_table(slices, (6, 2), tf.float32)
    assert whole.shape == (whole_size((6, 2)),)
    summed = touched_rows(whole + whole, keras.Variable(np.zeros((6, 2)), dtype="float32"))
    np.testing.assert_array_equal(summed.indices, [1, 4])
    np.testing.assert_array_equal(summed.values, [[0.0, 0.0], [8.0, 12.0]])


def test_it_travels_so_where_that_is_less() -> None:
    assert is_less_whole((4, 8), 512)
    assert is_less_whole((250, 16), 500)
    assert not is_less_whole((1_000_000, 16), 512)


@pytest.mark.parametrize("optimizer", ["adam", "adagrad", "ftrl"])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.0, 0.6, 0.4)])
def test_the_model_is_that_of_one_process(optimizer: str, shares: tuple[float, ...]) -> None:
    crew = Crew(
        3, lambda: models.classifier(optimizer=optimizer), models.weighted_rows(330), settings(batch_size=100, epochs=4)
    )
    expected = crew.alone()
    crew.rewind()
    members = range(len(shares))
    assert crew.run(members, shares) == [True] * len(members)
    assert all(trainer._joint._layout.whole and not trainer._joint._layout.tables for trainer in crew.trainers[:2])
    assert equal(crew.state(0), crew.state(1))
    for one, other in zip(expected, crew.weights(0), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * np.abs(one).max())
