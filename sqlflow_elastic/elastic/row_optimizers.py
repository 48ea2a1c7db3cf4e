"""What Keras's optimizers are to servers, which know no Keras."""

from __future__ import annotations

from typing import Any

from sqlflow_elastic.elastic.row_updates import row_rule
from sqlflow_elastic.models.tables.spec import RowOptimizer


def row_optimizer(optimizer: Any) -> RowOptimizer | None:
    """The rule of a Keras optimizer for single rows; None if it has none (see `row_updates.row_rule`)."""
    import keras.optimizers as of

    if row_rule(optimizer) is None:
        return None
    match optimizer:
        case of.Adagrad():
            return _rule("adagrad", optimizer, ("epsilon",), (optimizer.initial_accumulator_value,))
        case of.Adam():
            return _rule("adam", optimizer, ("beta_1", "beta_2", "epsilon"), (0.0, 0.0))
        case of.RMSprop():
            slots = 1 + (optimizer.momentum > 0) + bool(optimizer.centered)
            return _rule("rmsprop", optimizer, ("rho", "momentum", "epsilon", "centered"), (0.0,) * slots)
        case of.Ftrl():
            names = (
                "learning_rate_power",
                "l1_regularization_strength",
                "l2_regularization_strength",
                "l2_shrinkage_regularization_strength",
                "beta",
            )
            return _rule("ftrl", optimizer, names, (optimizer.initial_accumulator_value, 0.0))
        case of.SGD():
            return _rule("sgd", optimizer, ("momentum", "nesterov"), (0.0,) * (optimizer.momentum != 0))
    return None


def _rule(name: str, optimizer: Any, arguments: tuple[str, ...], slots: tuple[float, ...]) -> RowOptimizer:
    return RowOptimizer(name, {argument: float(getattr(optimizer, argument)) for argument in arguments}, slots)
