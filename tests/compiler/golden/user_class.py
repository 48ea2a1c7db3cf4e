"""Trains the model own: a tests.compiler.user_nets.Net.

    SELECT age, fare, survived FROM passengers
    TO TRAIN tests.compiler.user_nets.Net
    WITH model.layers = [8, 4], model.loss = BinaryFocalCrossentropy
    LABEL survived INTO own

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py (--help tells more).
"""

import keras
import tensorflow as tf

from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query
from sqlflow_elastic.models.features import ClassLabel, Dense, FeatureInputs, Field
from tests.compiler.user_nets import Net

SELECT = "SELECT age, fare, survived FROM passengers"

FIELDS = [Field("age", "float"), Field("fare", "float"), Field("survived", "integer")]
COLUMNS = {"feature_columns": [Dense("age"), Dense("fare")]}
LABEL = ClassLabel("survived", classes=[0, 1])


def build_model(inputs: FeatureInputs) -> keras.Model:
    """The user's network over all the features."""
    keras.saving.register_keras_serializable()(Net)
    feature_columns = COLUMNS["feature_columns"]
    network = Net(feature_columns, layers=[8, 4])
    return inputs.model(network(inputs.dense("feature_columns")))


def sample_losses(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """The loss of each sample, [rows]."""
    return keras.losses.binary_focal_crossentropy(labels[:, tf.newaxis], outputs, from_logits=True)


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
        name="own",
        rows=Query(SELECT),
        validation=None,
        fields=FIELDS,
        columns=COLUMNS,
        label=LABEL,
        build_model=build_model,
        gradients=gradients,
        sample_losses=sample_losses,
        optimizers=optimizers,
        metrics=["accuracy", "auc"],
        settings=elastic.TrainSettings(epochs=27, batch_size=16, seed=0),
    )
