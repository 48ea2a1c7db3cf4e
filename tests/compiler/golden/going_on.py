"""Trains the model iris.my_model: a DNNClassifier.

    SELECT * FROM iris.train
    TO TRAIN DNNClassifier WITH train.epoch = 3, train.class_weight = "balanced"
    LABEL class USING iris.my_model INTO iris.my_model

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py (--help tells more).
"""

import keras
import tensorflow as tf

from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query
from sqlflow_elastic.models.features import ClassLabel, Dense, FeatureInputs, Field

SELECT = "SELECT * FROM iris.train"

FIELDS = [
    Field("sepal_length", "float"),
    Field("sepal_width", "float"),
    Field("petal_length", "float"),
    Field("petal_width", "float"),
    Field("class", "integer"),
]
COLUMNS = {
    "feature_columns": [Dense("sepal_length"), Dense("sepal_width"), Dense("petal_length"), Dense("petal_width")],
}
LABEL = ClassLabel("class", classes=[0, 1, 2])


def build_model(inputs: FeatureInputs) -> keras.Model:
    """Hidden layers over all the features; a logit for each class."""
    x = inputs.dense("feature_columns")
    for units in [10, 20]:
        x = keras.layers.Dense(units, activation="relu")(x)
    return inputs.model(keras.layers.Dense(3, name="outputs")(x))


def sample_losses(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """The loss of each sample, [rows]."""
    return keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=True)


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
        name="iris.my_model",
        rows=Query(SELECT),
        validation=None,
        fields=FIELDS,
        columns=COLUMNS,
        label=LABEL,
        build_model=build_model,
        gradients=gradients,
        sample_losses=sample_losses,
        optimizers=optimizers,
        metrics=["accuracy"],
        settings=elastic.TrainSettings(epochs=3, batch_size=4, seed=0),
        class_weight="balanced",
        using=True,
    )
