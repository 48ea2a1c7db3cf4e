"""First numbers of rows, compiled: the very numbers of `models.tables.initial`, some ten times as fast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables.compiled import compiled
from sqlflow_elastic.models.tables import initial
from sqlflow_elastic.models.tables.spec import Distribution, TableSpec

_GOLDEN, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_11, _27, _30, _31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_A, _B = initial.CENTRAL
_LOW, _SPAN = initial.BELOW_TWO, 1.0 - 2.0 * initial.BELOW_TWO


def draw_rows(spec: TableSpec, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
    """`initial.first_rows` of ids [n] into ``out`` [n, at least width]."""
    for part, places, own, chosen in spec.parts_of(ids):
        a, b, columns = part.initial.a, part.initial.b, out[:, chosen]
        match part.initial.distribution:
            case Distribution.CONSTANT:
                _fill(places, a, columns)
            case Distribution.UNIFORM | Distribution.TRUNCATED as distribution:
                truncated = distribution is Distribution.TRUNCATED
                _draw(own, places, initial.key_of(part, spec.seed), truncated, a, b, columns)
            case Distribution.NORMAL:  # has logarithms, which are not the same everywhere
                columns[places] = initial.initial_rows(part, spec.seed, own, spec.dtype)


@compiled
def _fill(places: Any, value: float, out: Any) -> None:
    for i in range(len(places)):
        for j in range(out.shape[1]):
            out[places[i], j] = value


@compiled
def _mixed(bits: Any) -> Any:
    bits = (bits ^ (bits >> _30)) * _FIRST
    bits = (bits ^ (bits >> _27)) * _SECOND
    return bits ^ (bits >> _31)


@compiled
def _draw(ids: Any, places: Any, key: Any, truncated: bool, a: float, b: float, out: Any) -> None:
    for i in range(len(ids)):
        of_row = _mixed(np.uint64(ids[i]) * _GOLDEN + key)
        for j in range(out.shape[1]):
            bits = _mixed(of_row + np.uint64(j) * _GOLDEN)
            uniform = (np.float64(bits >> _11) + 0.5) * 2.0**-53
            if truncated:
                q = _LOW + _SPAN * uniform - 0.5
                r = q * q
                over, under = _A[0] * r + _A[1], _B[0] * r + _B[1]
                for coefficient in _A[2:]:
                    over = over * r + coefficient
                for coefficient in _B[2:]:
                    under = under * r + coefficient
                out[places[i], j] = a + b * (over * q / (under * r + 1.0))
            else:
                out[places[i], j] = a + (b - a) * uniform
