"""Predicts sex with the trained model net_of_mine.

    SELECT * FROM passengers TO PREDICT guesses.sex USING net_of_mine

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py --model model.artifact
"""

import keras

from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query
from sqlflow_elastic.models.features import Dense, FeatureInputs
from tests.compiler.user_nets import Net

SELECT = "SELECT * FROM passengers"
COLUMNS = {"feature_columns": [Dense("age")]}


def build_model(inputs: FeatureInputs) -> keras.Model:
    """The user's network over all the features, where Keras cannot build it from the trained model's file alone."""
    feature_columns = COLUMNS["feature_columns"]
    network = Net(feature_columns)
    return inputs.model(network(inputs.dense("feature_columns")))


if __name__ == "__main__":
    keras.saving.register_keras_serializable()(Net)
    elastic.predict(
        name="net_of_mine",
        rows=Query(SELECT),
        target="sex",
        batch_size=1024,
        build_model=build_model,
    )
