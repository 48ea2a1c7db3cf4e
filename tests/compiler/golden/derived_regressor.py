"""Trains the model fares: a DNNRegressor.

    SELECT age, pclass, sex, ticket, boarded, alone, fare FROM passengers
    TO TRAIN sqlflow_models.DNNRegressor
    WITH model.hidden_units = [64, 32], model.dropout = 0.1, model.batch_norm = True, model.activation_fn = tanh,
        model.optimizer = RMSprop, optimizer.learning_rate = 1e-3, optimizer.momentum = 0.9, model.loss = Huber,
        validation.fraction = 0.2, validation.metrics = "RMSE,MAPE", train.patience = 5, train.max_steps = 5000
    LABEL fare
    INTO fares

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
    Indicator,
    NumberLabel,
    TimeParts,
    Vocabulary,
)

SELECT = "SELECT age, pclass, sex, ticket, boarded, alone, fare FROM passengers"

FIELDS = [
    Field("age", "float"),
    Field("pclass", "integer"),
    Field("sex", "text"),
    Field("ticket", "text"),
    Field("boarded", "time"),
    Field("alone", "boolean"),
    Field("fare", "float"),
]
COLUMNS = {
    "feature_columns": [
        Dense("age"),
        Dense("pclass"),
        Indicator(Vocabulary("sex")),
        Embedding(CategoryHash("ticket", 16384), 16),
        TimeParts("boarded"),
        Dense("alone"),
    ],
}
LABEL = NumberLabel("fare")


def build_model(inputs: FeatureInputs) -> keras.Model:
    """Hidden layers over all the features; one number a row."""
    x = inputs.dense("feature_columns")
    for units in [64, 32]:
        x = keras.layers.Dense(units, activation="tanh")(x)
        x = keras.layers.Dropout(0.1)(x)
        x = keras.layers.BatchNormalization()(x)
    outputs = keras.layers.Dense(1, name="outputs")(x)
    # In the label's own units: the deviation and the mean of its first values.
    return inputs.model(keras.layers.Rescaling(12.37, offset=21.36)(outputs))


def sample_losses(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """The loss of each sample, [rows]."""
    return keras.losses.huber(labels[:, tf.newaxis], outputs)


def gradients(model: keras.Model, batch: elastic.Batch) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The batch's loss and its gradients. Each sample has its weight, so that the parts of a batch add up."""
    with tf.GradientTape() as tape:
        outputs = model(batch.features, training=True)
        losses = sample_losses(batch.labels, outputs)
        loss = tf.reduce_sum(batch.weights * losses) + batch.share * sum(model.losses)
    return loss, tape.gradient(loss, model.trainable_variables)


def optimizers(model: keras.Model) -> elastic.Optimizers:
    """Who updates which variables."""
    optimizer = keras.optimizers.RMSprop(learning_rate=0.001, momentum=0.9)
    return [(optimizer, model.trainable_variables)]


if __name__ == "__main__":
    elastic.train(
        name="fares",
        rows=Query(SELECT),
        validation=None,
        fields=FIELDS,
        columns=COLUMNS,
        label=LABEL,
        build_model=build_model,
        gradients=gradients,
        sample_losses=sample_losses,
        optimizers=optimizers,
        metrics=["rmse", "mape"],
        settings=elastic.TrainSettings(
            epochs=27,
            batch_size=16,
            seed=0,
            max_steps=5000,
            validation_fraction=0.2,
            patience=5,
        ),
    )
