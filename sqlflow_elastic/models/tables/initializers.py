"""What Keras's initializers are to servers, which know no Keras."""

from __future__ import annotations

import math
from typing import Any

from sqlflow_elastic.models.tables.spec import Distribution, Initial

#: A truncated normal distribution of deviation 1 has this one.
_TRUNCATED_DEVIATION = 0.87962566103423978


def initial_of(initializer: Any, rows: int, width: int) -> Initial | None:
    """How rows of a ``[rows, width]`` table begin with a Keras initializer.

    Returns:
        None for one that does not draw number by number.
    """
    import keras.initializers as of

    match initializer:
        case of.Zeros():
            return Initial(Distribution.CONSTANT, 0.0)
        case of.Ones():
            return Initial(Distribution.CONSTANT, 1.0)
        case of.Constant():
            value = initializer.value
            return Initial(Distribution.CONSTANT, float(value)) if isinstance(value, int | float) else None
        case of.RandomUniform():
            return Initial(Distribution.UNIFORM, float(initializer.minval), float(initializer.maxval))
        case of.RandomNormal():
            return Initial(Distribution.NORMAL, float(initializer.mean), float(initializer.stddev))
        case of.TruncatedNormal():
            return Initial(Distribution.TRUNCATED, float(initializer.mean), float(initializer.stddev))
        case of.VarianceScaling():
            return _variance_scaling(initializer, rows, width)
    return None


def _variance_scaling(initializer: Any, rows: int, width: int) -> Initial:
    """Of a matrix: as many numbers go in as it has rows, and come out as it is wide."""
    fans = {"fan_in": rows, "fan_out": width, "fan_avg": (rows + width) / 2}
    variance = initializer.scale / max(1.0, fans[initializer.mode])
    if initializer.distribution == "truncated_normal":
        return Initial(Distribution.TRUNCATED, 0.0, math.sqrt(variance) / _TRUNCATED_DEVIATION)
    if initializer.distribution == "untruncated_normal":
        return Initial(Distribution.NORMAL, 0.0, math.sqrt(variance))
    limit = math.sqrt(3.0 * variance)
    return Initial(Distribution.UNIFORM, -limit, limit)
