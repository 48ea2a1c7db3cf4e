"""From a `RowOptimizer` to the kernel that runs it, with its arguments for a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.tables import kernels
from sqlflow_elastic.models.tables.spec import RowOptimizer

#: ``(arguments, learning rate, steps taken) -> the kernel's arguments``; rate and steps are of the rows' dtype. Like
#: Keras, each function computes with plain numbers what has only plain numbers in it: 1 - 0.999 in float32 would be
#: off by 5e-5.
_Arguments = Callable[[Mapping[str, float], Any, Any], tuple[Any, ...]]


class RowRule:
    """An optimizer's rule for rows.

    Args:
        optimizer: which.
        dtype: of the rows.

    Raises:
        ValueError: there is no such rule.
    """

    def __init__(self, optimizer: RowOptimizer, dtype: Any) -> None:
        if optimizer.name not in _RULES:
            raise ValueError(f"no rule for rows: {optimizer.name}; there are {', '.join(_RULES)}")
        self._kernel, self._of_step = _RULES[optimizer.name]
        self._dtype = np.dtype(dtype)
        self._arguments = dict(optimizer.arguments)

    def apply(
        self,
        rows: NDArray[Any],
        unique: NDArray[np.int32],
        gradients: NDArray[Any],
        learning_rate: float,
        iteration: int,
    ) -> None:
        """Update rows in place.

        Args:
            rows: [capacity, width * (1 + slots)].
            unique: positions [n], all different.
            gradients: [n, width].
            learning_rate, iteration: of the optimizer, before this step.
        """
        of = self._dtype.type
        with np.errstate(divide="ignore", invalid="ignore"):  # as Keras: a rate of 0
            arguments = self._of_step(self._arguments, of(learning_rate), of(iteration + 1))
        self._kernel(rows, unique, gradients, tuple(map(of, arguments)))


def _sgd(of: Mapping[str, float], rate: Any, step: Any) -> tuple[Any, ...]:
    return rate, of["momentum"], of["nesterov"]


def _adagrad(of: Mapping[str, float], rate: Any, step: Any) -> tuple[Any, ...]:
    return rate, of["epsilon"]


def _adam(of: Mapping[str, float], rate: Any, step: Any) -> tuple[Any, ...]:
    # Keras makes tensors of the two, which are float32 first whatever the rows are.
    power_1, power_2 = (type(step)(np.float32(of[beta])) ** step for beta in ("beta_1", "beta_2"))
    corrected = rate * np.sqrt(1 - power_2) / (1 - power_1)
    return corrected, 1 - of["beta_1"], 1 - of["beta_2"], of["epsilon"]


def _rmsprop(of: Mapping[str, float], rate: Any, step: Any) -> tuple[Any, ...]:
    return rate, of["rho"], 1 - of["rho"], of["momentum"], of["epsilon"], of["centered"]


def _ftrl(of: Mapping[str, float], rate: Any, step: Any) -> tuple[Any, ...]:
    l2 = of["l2_regularization_strength"] + of["beta"] / (2 * rate)
    shrinkage = of["l2_shrinkage_regularization_strength"]
    return rate, -of["learning_rate_power"], of["l1_regularization_strength"], 2 * l2, 2 * shrinkage


_RULES: dict[str, tuple[Any, _Arguments]] = {
    "sgd": (kernels.sgd, _sgd),
    "adagrad": (kernels.adagrad, _adagrad),
    "adam": (kernels.adam, _adam),
    "rmsprop": (kernels.rmsprop, _rmsprop),
    "ftrl": (kernels.ftrl, _ftrl),
}
