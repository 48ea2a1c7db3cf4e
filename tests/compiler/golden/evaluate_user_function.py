"""Evaluates the trained model residuals.

    SELECT * FROM passengers TO EVALUATE residuals LABEL sex INTO scores

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py --model model.artifact
"""

import keras

from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query
from sqlflow_elastic.models.features import FeatureInputs
from tests.compiler.user_nets import residual

SELECT = "SELECT * FROM passengers"


def build_model(inputs: FeatureInputs) -> keras.Model:
    """The user's network over all the features, where Keras cannot build it from the trained model's file alone."""
    return residual(inputs, units=4, n_classes=2)


if __name__ == "__main__":
    elastic.evaluate(
        name="residuals",
        rows=Query(SELECT),
        label="sex",
        metrics=["accuracy", "auc"],
        build_model=build_model,
    )
