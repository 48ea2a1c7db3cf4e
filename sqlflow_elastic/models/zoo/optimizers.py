"""The optimizers, their parameters and what they keep for each variable.

Names and parameters are those of ``keras.optimizers``. Learning rates differ from Keras's where Keras's hardly train
(Adagrad at 0.001, Ftrl at 0.001, Adadelta at 0.001): a program states its rate in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlflow_elastic.models.zoo.attributes import Attribute
from sqlflow_elastic.models.zoo.kinds import Boolean, Choice, Number

_FRACTION = Number(0, 1, "[)")
_POSITIVE = Number(0, edges="()")
_NOT_NEGATIVE = Number(0)


@dataclass(frozen=True)
class Optimizer:
    """One class of ``keras.optimizers``.

    Attributes:
        parameters: its arguments, named without a prefix; ``learning_rate`` comes first.
        slots: values kept beside each weight.
        slots_with: parameters that, when they are neither 0 nor False, add one slot each.
    """

    name: str
    parameters: tuple[Attribute, ...]
    slots: int
    slots_with: tuple[str, ...] = ()

    def slots_for(self, arguments: Mapping[str, Any]) -> int:
        """Values kept beside each weight with these arguments."""
        return self.slots + sum(bool(arguments.get(name)) for name in self.slots_with)


def _rate(default: float) -> Attribute:
    return Attribute("learning_rate", _POSITIVE, default, "How far one step goes.")


def _betas() -> tuple[Attribute, ...]:
    return (
        Attribute("beta_1", _FRACTION, 0.9, "Decay of the mean of the gradients."),
        Attribute("beta_2", _FRACTION, 0.999, "Decay of the mean of their squares."),
        _epsilon(),
    )


def _epsilon() -> Attribute:
    return Attribute("epsilon", _POSITIVE, 1e-7, "Added to a divisor, against division by nearly zero.")


_AMSGRAD = Attribute("amsgrad", Boolean(), False, "Divide by the greatest mean so far.")
_ACCUMULATOR = Attribute("initial_accumulator_value", _NOT_NEGATIVE, 0.1, "Where the sum of squares starts.")
_MOMENTUM = Attribute("momentum", _FRACTION, 0.0, "How much of the last step is kept.")

OPTIMIZERS: tuple[Optimizer, ...] = (
    Optimizer("Adam", (_rate(0.001), *_betas(), _AMSGRAD), slots=2, slots_with=("amsgrad",)),
    Optimizer(
        "AdamW",
        (
            _rate(0.001),
            *_betas(),
            _AMSGRAD,
            Attribute("weight_decay", _NOT_NEGATIVE, 0.004, "How fast weights shrink."),
        ),
        slots=2,
        slots_with=("amsgrad",),
    ),
    Optimizer("Adagrad", (_rate(0.05), _ACCUMULATOR, _epsilon()), slots=1),
    Optimizer(
        "SGD",
        (_rate(0.01), _MOMENTUM, Attribute("nesterov", Boolean(), False, "Look ahead by the momentum.")),
        slots=0,
        slots_with=("momentum",),
    ),
    Optimizer(
        "RMSprop",
        (
            _rate(0.001),
            Attribute("rho", _FRACTION, 0.9, "Decay of the mean of squared gradients."),
            _MOMENTUM,
            _epsilon(),
            Attribute("centered", Boolean(), False, "Divide by the deviation and not by the mean square."),
        ),
        slots=1,
        slots_with=("momentum", "centered"),
    ),
    Optimizer(
        "Ftrl",
        (
            _rate(0.1),
            Attribute("learning_rate_power", Number(maximum=0), -0.5, "How the rate falls; 0 keeps it."),
            _ACCUMULATOR,
            Attribute("l1_regularization_strength", _NOT_NEGATIVE, 0.0, "Pull towards exact zeros."),
            Attribute("l2_regularization_strength", _NOT_NEGATIVE, 0.0, "Pull towards small weights."),
            Attribute("l2_shrinkage_regularization_strength", _NOT_NEGATIVE, 0.0, "Pull at the gradient."),
            Attribute("beta", _NOT_NEGATIVE, 0.0, "Beta of the paper."),
        ),
        slots=2,
    ),
    Optimizer(
        "Adadelta",
        (_rate(1.0), Attribute("rho", _FRACTION, 0.95, "Decay of both means."), _epsilon()),
        slots=2,
    ),
    Optimizer("Adamax", (_rate(0.001), *_betas()), slots=2),
    Optimizer("Nadam", (_rate(0.001), *_betas()), slots=2),
)

#: The value of ``model.optimizer``.
OPTIMIZER_NAMES = Choice(
    tuple(optimizer.name for optimizer in OPTIMIZERS),
    prefixes=("tf.", "keras.", "optimizers.", "train."),
)


def optimizer(name: str) -> Optimizer:
    """The optimizer of a name that `OPTIMIZER_NAMES` accepted."""
    return next(found for found in OPTIMIZERS if found.name == name)
