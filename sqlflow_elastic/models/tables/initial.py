"""What rows hold before anybody changed them: random numbers that depend on the seed, the part and the id only.

Each number is drawn by hashing its place: (seed, stream, id, column) gives 64 bits, they give a uniform number, and
that one the distribution's. The hash is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", 2014), the normal quantile the rational approximation of P. J. Acklam ("An algorithm
for computing the inverse normal cumulative distribution function", 2003; relative error below 1.2e-9).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.models.tables.spec import Distribution, Part, TableSpec

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
#: Numbers that are drawn at a time, so that they stay in the processor's cache.
_BLOCK = 1 << 15

_A = (
    -39.69683028665376,
    220.9460984245205,
    -275.9285104469687,
    138.3577518672690,
    -30.66479806614716,
    2.506628277459239,
)
_B = (-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572)
_C = (
    -0.007784894002430293,
    -0.3223964580411365,
    -2.400758277161838,
    -2.549732539343734,
    4.374664141464968,
    2.938163982698783,
)
_D = (0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416)
_CENTRAL = 0.02425
#: Numerator and denominator of the normal quantile in the middle, but for the last coefficient of the latter, 1.
CENTRAL = (_A, _B)
#: The part of a normal distribution below two deviations under its mean.
BELOW_TWO = 0.022750131948179195


def first_rows(spec: TableSpec, ids: NDArray[np.int64]) -> NDArray[Any]:
    """What rows of a table begin with: [n, width], for ids [n] in any order."""
    rows = np.empty((len(ids), spec.width), spec.dtype)
    for part, places, own, columns in spec.parts_of(ids):
        rows[places, columns] = initial_rows(part, spec.seed, own, spec.dtype)
    return rows


def with_first_slots(spec: TableSpec, rows: NDArray[Any]) -> NDArray[Any]:
    """Rows [n, width] with their slots before any update: [n, width * (1 + slots)]."""
    width = spec.width
    whole = np.empty((len(rows), width * (1 + spec.slots)), spec.dtype)
    whole[:, :width] = rows
    for slot, value in enumerate(spec.optimizer.initial_slots):
        whole[:, width * (slot + 1) : width * (slot + 2)] = value
    return whole


def initial_rows(part: Part, seed: int, ids: NDArray[np.int64], dtype: Any) -> NDArray[Any]:
    """What a part of rows begins with.

    Args:
        part: which numbers.
        seed: of the training, int64.
        ids: [n].
        dtype: of the numbers, which are drawn in float64 and rounded.

    Returns:
        [n, part.width].
    """
    ids = np.asarray(ids, np.int64)
    rows = np.empty((len(ids), part.width), dtype)
    initial = part.initial
    if initial.distribution is Distribution.CONSTANT:
        rows[...] = initial.a
        return rows
    key = key_of(part, seed)
    columns = np.arange(part.width, dtype=np.uint64)
    block = max(1, _BLOCK // part.width)
    for start in range(0, len(ids), block):
        of_row = _mixed(ids[start : start + block].astype(np.uint64) * _GOLDEN + key)
        bits = _mixed(of_row[:, None] + columns * _GOLDEN)
        uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        rows[start : start + block] = _distributed(initial.distribution, initial.a, initial.b, uniform)
    return rows


def key_of(part: Part, seed: int) -> np.uint64:
    """What all random numbers of a part are drawn with."""
    key: np.uint64 = _mixed(np.uint64((seed + int(_GOLDEN) * (part.stream + 1)) % 2**64))
    return key


def _mixed(bits: Any) -> Any:
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
        bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


def _distributed(distribution: Distribution, a: float, b: float, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    if distribution is Distribution.UNIFORM:
        return a + (b - a) * uniform
    if distribution is Distribution.TRUNCATED:
        return a + b * _central(BELOW_TWO + (1.0 - 2.0 * BELOW_TWO) * uniform)
    deviations = _central(uniform)
    for low, sign in ((uniform < _CENTRAL, 1.0), (uniform > 1.0 - _CENTRAL, -1.0)):
        tail = uniform[low] if sign > 0 else 1.0 - uniform[low]
        q = np.sqrt(-2.0 * np.log(tail))
        deviations[low] = sign * _polynomial(_C, q) / (_polynomial(_D, q) * q + 1.0)
    return a + b * deviations


def _central(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """The normal quantile in the middle, which two deviations leave by a hair: by less than 1e-6 there."""
    q = p - 0.5
    r = q * q
    return _polynomial(_A, r) * q / (_polynomial(_B, r) * r + 1.0)


def _polynomial(coefficients: tuple[float, ...], x: NDArray[np.float64]) -> NDArray[np.float64]:
    value = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value
