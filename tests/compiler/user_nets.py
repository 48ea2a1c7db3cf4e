"""Networks as users write them. The compiler reads this file; nothing here is imported to compile."""

from __future__ import annotations

from typing import Any

import keras

from sqlflow_elastic.models.features import FeatureInputs


def residual(inputs: FeatureInputs, units: int, n_classes: int = 2, scale: float = 0.5) -> keras.Model:
    """A layer added to itself."""
    x = keras.layers.Dense(units, activation="relu")(inputs.dense())
    x = x + scale * keras.layers.Dense(units)(x)
    return inputs.model(keras.layers.Dense(1 if n_classes == 2 else n_classes)(x))


class Net(keras.Model):  # type: ignore[misc]
    """A model of its own class."""

    def __init__(self, feature_columns: Any = None, layers: list[int] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.columns = len(feature_columns or ())
        self.sizes = layers
        self.hidden = [keras.layers.Dense(units, activation="relu") for units in layers or [4]]
        self.outputs_layer = keras.layers.Dense(1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "feature_columns": None, "layers": self.sizes}

    def call(self, features: Any) -> Any:
        x = features
        for layer in self.hidden:
            x = layer(x)
        return self.outputs_layer(x)


def no_model(inputs: FeatureInputs) -> int:
    return 1


def no_inputs() -> keras.Model:
    raise NotImplementedError


class Plain:
    pass


CONSTANT = 1
