"""Trains the model prices: a LinearRegressor.

    SELECT * FROM lists TO TRAIN LinearRegressor LABEL price INTO prices

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py (--help tells more).
"""

import keras
import tensorflow as tf

from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query
from sqlflow_elastic.models.features import (
    CategoryHash,
    Dense,
    Embedding,
    FeatureInputs,
    Field,
    NumberLabel,
    Sparse,
    WeightedCategory,
)

SELECT = "SELECT * FROM lists"

FIELDS = [
    Field("vector", "text"),
    Field("ids", "text"),
    Field("pairs", "text"),
    Field("code", "text"),
    Field("written", "text"),
    Field("flag", "boolean"),
    Field("price", "float"),
]
COLUMNS = {
    "feature_columns": [
        Dense("vector", shape=3),
        Embedding(CategoryHash(Sparse("ids", 2147483647), 1024), 8, combiner="mean"),
        Embedding(
            WeightedCategory(
                CategoryHash(Sparse("pairs", 2147483647, delimiter=" ", dtype="float32", kv_delimiter=":"), 1024),
            ),
            8,
        ),
        Embedding(CategoryHash("code", 1024), 8),
        Dense("written"),
        Dense("flag"),
    ],
}
LABEL = NumberLabel("price")


def build_model(inputs: FeatureInputs) -> keras.Model:
    """A weighted sum of all the features; one number a row."""
    outputs = inputs.linear("feature_columns", 1)
    # In the label's own units: the deviation and the mean of its first values.
    return inputs.model(keras.layers.Rescaling(11.55, offset=19.83)(outputs))


def sample_losses(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """The loss of each sample, [rows]."""
    return keras.losses.mean_squared_error(labels[:, tf.newaxis], outputs)


def gradients(model: keras.Model, batch: elastic.Batch) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The batch's loss and its gradients. Each sample has its weight, so that the parts of a batch add up."""
    with tf.GradientTape() as tape:
        outputs = model(batch.features, training=True)
        losses = sample_losses(batch.labels, outputs)
        loss = tf.reduce_sum(batch.weights * losses) + batch.share * sum(model.losses)
    return loss, tape.gradient(loss, model.trainable_variables)


def optimizers(model: keras.Model) -> elastic.Optimizers:
    """Who updates which variables."""
    optimizer = keras.optimizers.Adam(learning_rate=0.001)
    return [(optimizer, model.trainable_variables)]


if __name__ == "__main__":
    elastic.train(
        name="prices",
        rows=Query(SELECT),
        validation=None,
        fields=FIELDS,
        columns=COLUMNS,
        label=LABEL,
        build_model=build_model,
        gradients=gradients,
        sample_losses=sample_losses,
        optimizers=optimizers,
        metrics=["rmse", "mae"],
        settings=elastic.TrainSettings(epochs=17, batch_size=4, seed=0),
    )
