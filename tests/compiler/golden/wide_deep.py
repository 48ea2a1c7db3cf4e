"""Trains the model combined: a DNNLinearCombinedClassifier.

    SELECT * FROM passengers
    TO TRAIN DNNLinearCombinedClassifier
    WITH model.dnn_hidden_units = [16, 8], model.dnn_optimizer = Adagrad, dnn_optimizer.learning_rate = 0.1,
        linear_optimizer.l1_regularization_strength = 0.01,
        validation.select = "SELECT * FROM passengers WHERE age < 30"
    COLUMN INDICATOR(sex), CROSS([sex, pclass], 50) FOR linear_feature_columns
    COLUMN age, fare, EMBEDDING(ticket, 8) FOR dnn_feature_columns
    LABEL survived
    INTO combined

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py (--help tells more).
"""

import keras
import tensorflow as tf

from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query
from sqlflow_elastic.models.features import ClassLabel, Cross, Dense, Embedding, FeatureInputs, Field, Indicator

SELECT = "SELECT * FROM passengers"
VALIDATION_SELECT = "SELECT * FROM passengers WHERE age < 30"

FIELDS = [
    Field("age", "float"),
    Field("pclass", "integer"),
    Field("sex", "text"),
    Field("ticket", "text"),
    Field("fare", "float"),
    Field("survived", "integer"),
]
COLUMNS = {
    "linear_feature_columns": [Indicator("sex"), Cross(["sex", "pclass"], 50)],
    "dnn_feature_columns": [Dense("age"), Dense("fare"), Embedding("ticket", 8)],
}
LABEL = ClassLabel("survived", classes=[0, 1])


def build_model(inputs: FeatureInputs) -> keras.Model:
    """A weighted sum and hidden layers, side by side and added up; one logit a row."""
    linear = inputs.linear("linear_feature_columns", 1)
    x = inputs.dense("dnn_feature_columns")
    for units in [16, 8]:
        x = keras.layers.Dense(units, activation="relu")(x)
    deep = keras.layers.Dense(1, name="outputs")(x)
    return inputs.model(keras.layers.Add()([linear, deep]))


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
    linear = [variable for variable in model.trainable_variables if variable.path.startswith(("weights_", "bias"))]
    others = [variable for variable in model.trainable_variables if not variable.path.startswith(("weights_", "bias"))]
    linear_optimizer = keras.optimizers.Ftrl(learning_rate=0.1, l1_regularization_strength=0.01)
    dnn_optimizer = keras.optimizers.Adagrad(learning_rate=0.1)
    return [(linear_optimizer, linear), (dnn_optimizer, others)]


if __name__ == "__main__":
    elastic.train(
        name="combined",
        rows=Query(SELECT),
        validation=Query(VALIDATION_SELECT),
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
