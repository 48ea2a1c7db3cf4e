"""The tables that checks, help, completion and documentation read."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sqlflow_elastic.models.zoo import declarations
from sqlflow_elastic.models.zoo.attributes import EVALUATE, PREDICT, SUMMARY, TRAIN, VALIDATION, Attribute
from sqlflow_elastic.models.zoo.kinds import (
    Boolean,
    Choice,
    ClassWeights,
    Integer,
    Kind,
    LabelValues,
    ListOf,
    MetricNames,
    NotAcceptedError,
    Number,
    Optional,
    Text,
)
from sqlflow_elastic.models.zoo.losses import LOSS_NAMES, LOSSES, loss
from sqlflow_elastic.models.zoo.optimizers import OPTIMIZER_NAMES, OPTIMIZERS, optimizer

#: As the language lists them.
LANGUAGE = """
DNNClassifier DNNRegressor LinearClassifier LinearRegressor DNNLinearCombinedClassifier DNNLinearCombinedRegressor
DeepFM DCN StackedBiLSTMClassifier RNNBasedTimeSeriesModel DeepEmbeddingClusterModel AutoClassifier AutoRegressor GCN
xgboost.gbtree
xgboost.gblinear xgboost.dart xgboost.xgbclassifier xgboost.xgbregressor xgboost.xgbrfclassifier xgboost.xgbranker
BoostedTreesClassifier BoostedTreesRegressor sqlflow_models.OneClassSVM sqlflow_models.ScoreCard
sqlflow_models.ARIMAWithSTLDecomposition
"""


def every_attribute() -> list[Attribute]:
    shared = [*TRAIN, *VALIDATION, *PREDICT, *EVALUATE, *SUMMARY]
    return shared + [a for model in declarations.MODELS for a in model.attributes]


@pytest.mark.parametrize("name", LANGUAGE.split())
def test_every_model_of_the_language_is_known(name: str) -> None:
    for spelling in (name, name.lower(), f"sqlflow_models.{declarations.plain_name(name)}"):
        assert (declarations.find(spelling) is not None) != declarations.is_later(spelling)


@pytest.mark.parametrize("attribute", every_attribute(), ids=lambda a: a.name)
def test_every_attribute_is_whole(attribute: Attribute) -> None:
    assert attribute.help.endswith(".")
    assert "\n" not in attribute.help
    assert attribute.kind.text
    if attribute.default is not None:
        assert attribute.kind.accept(attribute.default) == attribute.default
    if attribute.same_as is not None:
        assert attribute.same_as in {other.name for other in every_attribute()}


def test_names_are_unique() -> None:
    for model in declarations.MODELS:
        names = [a.name for a in (*model.attributes, *TRAIN, *VALIDATION)]
        assert len(names) == len(set(names))
        for group in model.optimizers:
            assert f"model.{group}" in names


def test_optimizers_and_losses_are_keras_ones() -> None:
    keras = pytest.importorskip("keras")
    for declared in OPTIMIZERS:
        arguments = {parameter.name: parameter.default for parameter in declared.parameters}
        made = getattr(keras.optimizers, declared.name)(**arguments)
        made.build([keras.Variable([0.0])])
        assert len(made.variables) - 2 - (declared.name == "Nadam") == declared.slots_for(arguments)
    for known in LOSSES:
        assert all(callable(getattr(keras.losses, function)) for function in known.functions.values())


def test_slots_grow_with_the_arguments() -> None:
    assert optimizer("SGD").slots_for({"momentum": 0.9}) == 1
    assert optimizer("RMSprop").slots_for({"momentum": 0.9, "centered": True}) == 3
    assert optimizer("Adam").slots_for({"amsgrad": False}) == 2


def test_every_name_of_a_loss_finds_it() -> None:
    for known in LOSSES:
        for name in known.names:
            assert loss(LOSS_NAMES.accept(f"tf.keras.losses.{name}")) is known


ACCEPTED: list[tuple[Kind, Any, Any]] = [
    (Integer(1), 3, 3),
    (Integer(1), 1e3, 1000),
    (Integer(None), -5, -5),
    (Number(0, 1), 1, 1),
    (Number(), -1e9, -1e9),
    (Boolean(), True, True),
    (Text(), "a", "a"),
    (OPTIMIZER_NAMES, "tf.keras.optimizers.rmsprop", "RMSprop"),
    (declarations.ACTIVATIONS, "tf.nn.relu", "relu"),
    (ListOf(Integer(1), "sizes"), [1, 2.0], [1, 2]),
    (Optional(Number()), None, None),
    (LabelValues(), ["a", "b"], ["a", "b"]),
    (LabelValues(), [3, 4], [3, 4]),
    (MetricNames(), "Accuracy, AUC,Accuracy", ["Accuracy", "AUC"]),
    (MetricNames(), ["MSE"], ["MSE"]),
    (ClassWeights(), "Balanced", "balanced"),
    (ClassWeights(), [1, 2.5], [1, 2.5]),
    (ClassWeights(), [["a", 1], ["b", 2]], {"a": 1, "b": 2}),
]

REFUSED: list[tuple[Kind, Any]] = [
    (Integer(1), 0),
    (Integer(1), True),
    (Integer(1), 1.5),
    (Integer(1), "1"),
    (Integer(1, 3), 4),
    (Integer(1), math.inf),
    (Number(0, 1, "()"), 0),
    (Number(0, 1, "()"), 1),
    (Number(), math.nan),
    (Number(), math.inf),
    (Number(), False),
    (Boolean(), 1),
    (Boolean(), "True"),
    (Text(), "  "),
    (Text(), 1),
    (Choice(("a", "b")), "c"),
    (Choice(("a", "b")), None),
    (ListOf(Integer(1), "sizes"), []),
    (ListOf(Integer(1), "sizes"), 3),
    (ListOf(Integer(1), "sizes"), [[1]]),
    (LabelValues(), ["a"]),
    (LabelValues(), ["a", "a"]),
    (LabelValues(), ["a", 1]),
    (LabelValues(), [True, False]),
    (MetricNames(), ""),
    (MetricNames(), "a,,b"),
    (MetricNames(), [1]),
    (ClassWeights(), "even"),
    (ClassWeights(), []),
    (ClassWeights(), [0, 1]),
    (ClassWeights(), [["a", 1], ["a", 2]]),
    (ClassWeights(), [["a"]]),
    (ClassWeights(), [[["a"], 1]]),
]


@pytest.mark.parametrize(("kind", "value", "normal"), ACCEPTED, ids=repr)
def test_kind_accepts(kind: Kind, value: Any, normal: Any) -> None:
    accepted = kind.accept(value)
    assert (accepted, type(accepted)) == (normal, type(normal))


@pytest.mark.parametrize(("kind", "value"), REFUSED, ids=repr)
def test_kind_refuses(kind: Kind, value: Any) -> None:
    with pytest.raises(NotAcceptedError):
        kind.accept(value)
