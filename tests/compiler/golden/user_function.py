"""Trains the model own: a tests.compiler.user_nets.residual.

    SELECT age, fare, sex FROM passengers
    TO TRAIN tests.compiler.user_nets.residual WITH model.units = 8 LABEL sex INTO own

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py (--help tells more).
"""

import keras
import tensorflow as tf

from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query
from sqlflow_elastic.models.features import ClassLabel, Dense, FeatureInputs, Field
from tests.compiler.user_nets import residual

SELECT = "SELECT age, fare, sex FROM passengers"

FIELDS = [Field("age", "float"), Field("fare", "float"), Field("sex", "text")]
COLUMNS = {"feature_columns": [Dense("age"), Dense("fare")]}
LABEL = ClassLabel("sex", classes=["female", "male"])


def build_model(inputs: FeatureInputs) -> keras.Model:
    """The user's network over all the features."""
    return residual(inputs, units=8, n_classes=2)


def sample_losses(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """The loss of each sample, [rows]."""
    return keras.losses.binary_crossentropy(labels[:, tf.newaxis], outputs, from_logits=True)


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
