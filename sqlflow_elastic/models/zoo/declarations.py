"""The models that TO TRAIN knows, with the attributes of each.

One table: the compiler checks against it, help texts, completion and the documentation print it. The networks
themselves are in the programs that the compiler writes (`codegen_templates`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlflow_elastic.models.zoo.attributes import Attribute
from sqlflow_elastic.models.zoo.kinds import Boolean, Choice, Integer, LabelValues, ListOf, Number, Optional
from sqlflow_elastic.models.zoo.losses import LOSS_NAMES
from sqlflow_elastic.models.zoo.optimizers import OPTIMIZER_NAMES

#: May stand before a model's name, as in SQLFlow programs.
PREFIX = "sqlflow_models."


class Family(enum.Enum):
    """Models whose programs come from one template."""

    DNN = "dnn"
    LINEAR = "linear"
    WIDE_DEEP = "wide_deep"
    DEEPFM = "deepfm"
    DCN = "dcn"
    CUSTOM = "custom"


class Task(enum.Enum):
    """What a model says of a row."""

    CLASS = "a class"
    NUMBER = "a number"
    #: What its label is: a class, or a number.
    LABEL = "what the label is"


@dataclass(frozen=True)
class Model:
    """A model that can stand after TO TRAIN.

    Attributes:
        name: as programs write it, without `PREFIX`.
        inputs: the names that may stand after FOR; a model with one input needs no FOR.
        attributes: its ``model.*`` attributes.
        optimizers: groups of attributes, ``optimizer.learning_rate``; ``model.optimizer`` names the group's optimizer.
    """

    name: str
    help: str
    family: Family
    task: Task
    attributes: tuple[Attribute, ...]
    inputs: tuple[str, ...] = ("feature_columns",)
    optimizers: tuple[str, ...] = ("optimizer",)


# fmt: off
ACTIVATIONS = Choice(
    (
        "relu", "elu", "gelu", "selu", "silu", "swish", "leaky_relu", "relu6", "sigmoid", "hard_sigmoid", "softplus",
        "softsign", "tanh", "exponential", "linear",
    ),
    prefixes=("tf.", "keras.", "nn.", "activations."),
)
# fmt: on

_CLASSES = (
    Attribute("model.n_classes", Integer(2), None, "How many classes the label has; by default as many as its values."),
    Attribute("model.label_vocabulary", LabelValues(), None, "The label's values, in the order of the classes."),
)
_LOSS = Attribute(
    "model.loss", LOSS_NAMES, None, "The loss; by default crossentropy for classes, mean square for numbers."
)
_REDUCTION = Attribute(
    "model.loss_reduction",
    Choice(("SUM_OVER_BATCH_SIZE", "AUTO")),
    "SUM_OVER_BATCH_SIZE",
    "How losses of a batch add up.",
)
_DIMENSION = Attribute("model.label_dimension", Integer(1, 1), 1, "How many numbers the label is.")


def _optimizer(name: str, default: str, what: str) -> Attribute:
    return Attribute(f"model.{name}", OPTIMIZER_NAMES, default, f"The optimizer of {what}.")


def _layers(prefix: str = "") -> tuple[Attribute, ...]:
    """Attributes of a stack of hidden layers."""
    units = ListOf(Integer(1), "layer sizes (integers of at least 1)")
    activation = f"model.{prefix}activation"
    return (
        Attribute(
            f"model.{prefix}hidden_units", units, None, "Sizes of the hidden layers, from the inputs on.", required=True
        ),
        Attribute(activation, ACTIVATIONS, "relu", "What a hidden layer does to its sums."),
        Attribute(f"{activation}_fn", ACTIVATIONS, "relu", f"Another name of {activation}.", same_as=activation),
        Attribute(
            f"model.{prefix}dropout",
            Optional(Number(0, 1, "[)")),
            0.0,
            "The part of a hidden layer that each step switches off.",
        ),
        Attribute("model.batch_norm", Boolean(), False, "Normalise each hidden layer over the batch."),
    )


_COMMON = (_optimizer("optimizer", "Adam", "all weights"), _LOSS, _REDUCTION)
_WIDE_DEEP = (
    *_layers("dnn_"),
    _optimizer("linear_optimizer", "Ftrl", "the linear part"),
    _optimizer("dnn_optimizer", "Adam", "the hidden layers"),
    _LOSS,
    _REDUCTION,
)
_WIDE_DEEP_INPUTS = ("linear_feature_columns", "dnn_feature_columns")

_DNN = Model("", "Hidden layers, one after the other.", Family.DNN, Task.CLASS, (*_layers(), *_COMMON))
_LINEAR = Model("", "A weighted sum of the features.", Family.LINEAR, Task.CLASS, _COMMON)
_WIDE_AND_DEEP = Model(
    "",
    "A linear model and hidden layers side by side, each with its own features.",
    Family.WIDE_DEEP,
    Task.CLASS,
    _WIDE_DEEP,
    inputs=_WIDE_DEEP_INPUTS,
    optimizers=("linear_optimizer", "dnn_optimizer"),
)


_HIDDEN_UNITS = Attribute(
    "model.hidden_units",
    ListOf(Integer(1), "layer sizes (integers of at least 1)"),
    [128, 64],
    "Sizes of the hidden layers, from the inputs on.",
)
_VECTORS = Attribute(
    "model.embedding_size",
    Integer(1),
    None,
    "Numbers in the vector of a category; by default as many as the first EMBEDDING in COLUMN has, else 8.",
)
_CROSSED = (_HIDDEN_UNITS, *_layers()[1:], _VECTORS, *_COMMON, *_CLASSES)

#: Guo, Tang, Ye, Li and He, "DeepFM: a factorization-machine based neural network for CTR prediction", 2017.
_DEEPFM = Model(
    "DeepFM",
    "A linear model, products of each two features' vectors, and hidden layers over the vectors, added up.",
    Family.DEEPFM,
    Task.LABEL,
    _CROSSED,
)
#: Wang, Shivanna, Cheng, Jain, Lin, Hong and Chi, "DCN V2: improved deep & cross network", 2021.
_DCN = Model(
    "DCN",
    "Layers that cross the features with each other, and hidden layers.",
    Family.DCN,
    Task.LABEL,
    (
        Attribute("model.cross_layers", Integer(1), 2, "How many layers cross the features."),
        Attribute(
            "model.projection",
            Integer(1),
            None,
            "The rank of the crossing layers' matrices; by default they are whole.",
        ),
        Attribute(
            "model.structure",
            Choice(("parallel", "stacked")),
            "parallel",
            "Whether hidden layers stand beside the crossing ones, or on them.",
        ),
        *_CROSSED,
    ),
)


def _pair(model: Model, name: str) -> tuple[Model, Model]:
    """The classifier and the regressor of one network."""
    return (
        replace(model, name=f"{name}Classifier", attributes=(*model.attributes, *_CLASSES)),
        replace(model, name=f"{name}Regressor", attributes=(*model.attributes, _DIMENSION), task=Task.NUMBER),
    )


MODELS: tuple[Model, ...] = (
    *_pair(_DNN, "DNN"),
    *_pair(_LINEAR, "Linear"),
    *_pair(_WIDE_AND_DEEP, "DNNLinearCombined"),
    _DEEPFM,
    _DCN,
)

#: The attributes that every model of a user's has besides its own arguments.
USER_MODEL: tuple[Attribute, ...] = (*_COMMON, *_CLASSES)

#: Models of the language that cannot be trained yet.
# fmt: off
LATER: tuple[str, ...] = (
    "StackedBiLSTMClassifier", "RNNBasedTimeSeriesModel", "DeepEmbeddingClusterModel",
    "AutoClassifier", "AutoRegressor", "GCN",
    "xgboost.gbtree", "xgboost.gblinear", "xgboost.dart", "xgboost.xgbclassifier", "xgboost.xgbregressor",
    "xgboost.xgbrfclassifier", "xgboost.xgbranker", "BoostedTreesClassifier", "BoostedTreesRegressor",
    "OneClassSVM", "ScoreCard", "ARIMAWithSTLDecomposition",
)
# fmt: on


def find(name: str, models: Iterable[Model] = MODELS) -> Model | None:
    """The model of a name as programs write it: any case, with or without `PREFIX`."""
    plain = plain_name(name).lower()
    return next((model for model in models if model.name.lower() == plain), None)


def is_later(name: str) -> bool:
    """Whether a name is that of a model which cannot be trained yet."""
    return plain_name(name).lower() in {later.lower() for later in LATER}


def plain_name(name: str) -> str:
    """A model's name without `PREFIX`."""
    return name[len(PREFIX) :] if name.lower().startswith(PREFIX) else name
