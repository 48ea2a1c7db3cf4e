"""The network of a plan: every figure that its template and the explanation need, settled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlflow_elastic.compiler.attributes import Attributes
from sqlflow_elastic.compiler.labels import output_of
from sqlflow_elastic.compiler.user_models import UserModel
from sqlflow_elastic.compiler.vectors import vector_size
from sqlflow_elastic.models.features import ClassLabel, Column, Label
from sqlflow_elastic.models.zoo.declarations import Family, Model
from sqlflow_elastic.models.zoo.losses import DEFAULTS, LOSSES, Output, loss
from sqlflow_elastic.models.zoo.optimizers import optimizer


@dataclass(frozen=True)
class ChosenOptimizer:
    """An optimizer with its arguments; the learning rate is always one of them."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def slots(self) -> int:
        """Values kept beside each weight."""
        return optimizer(self.name).slots_for(self.arguments)


@dataclass(frozen=True)
class Network:
    """A network.

    Attributes:
        family: which template writes it.
        inputs: names of its inputs.
        outputs: numbers a row.
        output: what they say.
        loss: a function of ``keras.losses``.
        optimizers: by the group of their attributes (``optimizer``, ``dnn_optimizer``).
        hidden_units, activation, dropout, batch_norm: of its hidden layers, if it has any.
        scale: deviation and mean of the numbers it says; None for classes.
        embedding_size: numbers in a category's vector, where the network gives one to each.
        cross_layers, projection, stacked: of a network that crosses its features.
        user: the user's model that it is, with the arguments for it.
    """

    family: Family
    inputs: tuple[str, ...]
    outputs: int
    output: Output
    loss: str
    optimizers: Mapping[str, ChosenOptimizer]
    hidden_units: tuple[int, ...] = ()
    activation: str = "relu"
    dropout: float = 0.0
    batch_norm: bool = False
    scale: tuple[float, float] | None = None
    embedding_size: int = 8
    cross_layers: int = 0
    projection: int | None = None
    stacked: bool = False
    user: UserModel | None = None
    arguments: Mapping[str, Any] | None = None


def network_of(
    model: Model,
    attributes: Attributes,
    columns: Iterable[Column],
    label: Label,
    scale: tuple[float, float] | None,
) -> Network:
    """The network of a model over these columns. Raises: CompileError: the loss does not fit the label."""
    output = output_of(label)
    outputs = len(label.classes or ()) if output is Output.CLASSES and isinstance(label, ClassLabel) else 1
    values = {attribute.name: attribute.default for attribute in model.attributes} | dict(attributes.values)
    layers: dict[str, Any] = {}
    if model.family in (Family.DNN, Family.WIDE_DEEP, Family.DEEPFM, Family.DCN):
        prefix = "model.dnn_" if model.family is Family.WIDE_DEEP else "model."
        layers = {
            "hidden_units": tuple(values[f"{prefix}hidden_units"]),
            "activation": values[f"{prefix}activation"],
            "dropout": values[f"{prefix}dropout"] or 0.0,
            "batch_norm": values["model.batch_norm"],
        }
    if model.family in (Family.DEEPFM, Family.DCN):
        layers["embedding_size"] = vector_size(attributes, columns)
    if model.family is Family.DCN:
        layers["cross_layers"] = values["model.cross_layers"]
        layers["projection"] = values["model.projection"]
        layers["stacked"] = values["model.structure"] == "stacked"
    user = model if isinstance(model, UserModel) else None
    return Network(
        family=model.family,
        inputs=model.inputs,
        outputs=outputs,
        output=output,
        loss=_loss(attributes, output),
        optimizers={group: _optimizer(group, values, attributes) for group in model.optimizers},
        scale=scale,
        user=user,
        arguments=None if user is None else user_arguments(user, attributes.values, label),
        **layers,
    )


def _loss(attributes: Attributes, output: Output) -> str:
    """The function of ``keras.losses``."""
    name = attributes.values.get("model.loss", DEFAULTS[output])
    functions = loss(name).functions
    if output not in functions:
        fitting = [known.names[0] for known in LOSSES if output in known.functions]
        message = f"the loss {name} does not fit a label of {output.value}"
        raise attributes.error("model.loss", message, f"these do: {', '.join(fitting)}")
    return functions[output]


def _optimizer(group: str, values: Mapping[str, Any], attributes: Attributes) -> ChosenOptimizer:
    name = values[f"model.{group}"]
    rate = optimizer(name).parameters[0].default
    return ChosenOptimizer(name, {"learning_rate": rate} | attributes.under(group))


def user_arguments(user: UserModel, values: Mapping[str, Any], label: Label) -> dict[str, Any]:
    """What a user's model is called with: what was given, and the number of classes where it asks for that."""
    given = {name: values[f"model.{name}"] for name in user.parameters if f"model.{name}" in values}
    if "n_classes" in user.parameters and isinstance(label, ClassLabel):
        given.setdefault("n_classes", len(label.classes or ()))
    return given
