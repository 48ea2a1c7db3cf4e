"""``python -m tests.elastic.wide_floats``: how far a world's float64 weights are from a single member's, by model."""

from __future__ import annotations

import json
import sys

import keras
import numpy as np

from tests.elastic import models
from tests.elastic.crews import Crew
from tests.elastic.test_worlds import MODELS, settings


def difference(name: str) -> float:
    """The largest, by the largest weight of its variable."""
    crew = Crew(3, MODELS[name], models.weighted_rows(63), settings())
    alone = crew.alone()
    crew.rewind()
    crew.run(range(3), (0.2, 0.5, 0.3))
    pairs = zip(alone, crew.weights(0), strict=True)
    return max(float(np.abs(one - other).max() / np.abs(one).max()) for one, other in pairs)


if __name__ == "__main__":
    keras.config.set_floatx("float64")
    sys.stdout.write(json.dumps({name: difference(name) for name in MODELS}) + "\n")
