"""The losses: functions of ``keras.losses`` that give one number a row."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from sqlflow_elastic.models.zoo.kinds import Choice


class Output(enum.Enum):
    """What a network says of a row."""

    #: One logit: the odds of the second of two classes.
    BINARY = "two classes"
    #: One logit for each class.
    CLASSES = "more than two classes"
    #: One number.
    NUMBER = "numbers"


@dataclass(frozen=True)
class Loss:
    """A loss.

    Attributes:
        names: as programs write it; the first is ours.
        functions: the function of ``keras.losses`` for each kind of output that it fits.
    """

    names: tuple[str, ...]
    functions: dict[Output, str]


def _of_number(function: str, *names: str) -> Loss:
    return Loss((function, *names), {Output.NUMBER: function})


LOSSES: tuple[Loss, ...] = (
    Loss(
        (
            "crossentropy",
            "CategoricalCrossentropy",
            "SparseCategoricalCrossentropy",
            "categorical_crossentropy",
            "sparse_categorical_crossentropy",
        ),
        {Output.BINARY: "binary_crossentropy", Output.CLASSES: "sparse_categorical_crossentropy"},
    ),
    Loss(("binary_crossentropy", "BinaryCrossentropy"), {Output.BINARY: "binary_crossentropy"}),
    Loss(("binary_focal_crossentropy", "BinaryFocalCrossentropy"), {Output.BINARY: "binary_focal_crossentropy"}),
    _of_number("mean_squared_error", "MeanSquaredError", "mse"),
    _of_number("mean_absolute_error", "MeanAbsoluteError", "mae"),
    _of_number("mean_absolute_percentage_error", "MeanAbsolutePercentageError", "mape"),
    _of_number("mean_squared_logarithmic_error", "MeanSquaredLogarithmicError", "msle"),
    _of_number("huber", "Huber"),
    _of_number("log_cosh", "LogCosh"),
    _of_number("poisson", "Poisson"),
)

#: The value of ``model.loss``.
LOSS_NAMES = Choice(
    tuple(loss.names[0] for loss in LOSSES),
    prefixes=("tf.", "keras.", "losses."),
    others=tuple(name for loss in LOSSES for name in loss.names[1:]),
)

DEFAULTS = {
    Output.BINARY: "crossentropy",
    Output.CLASSES: "crossentropy",
    Output.NUMBER: "mean_squared_error",
}


def loss(name: str) -> Loss:
    """The loss of a name that `LOSS_NAMES` accepted."""
    return next(found for found in LOSSES if name in found.names)
