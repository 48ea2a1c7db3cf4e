"""Trains the model clicks: a DeepFM.

    SELECT * FROM passengers
    TO TRAIN DeepFM
    WITH model.hidden_units = [32, 16], model.optimizer = Adagrad, optimizer.learning_rate = 0.05,
        train.num_workers = 2, train.strategy = "hybrid", train.num_ps = 1
    COLUMN age, fare, CATEGORY_ID(pclass, 4), EMBEDDING(CATEGORY_HASH(ticket, 1000000), 16)
    LABEL survived
    INTO clicks

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py (--help tells more).
"""

import keras
import tensorflow as tf

from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query
from sqlflow_elastic.models.features import CategoryHash, CategoryId, ClassLabel, Dense, Embedding, FeatureInputs, Field

SELECT = "SELECT * FROM passengers"

FIELDS = [
    Field("age", "float"),
    Field("pclass", "integer"),
    Field("ticket", "text"),
    Field("fare", "float"),
    Field("survived", "integer"),
]
COLUMNS = {
    "feature_columns": [
        Dense("age"),
        Dense("fare"),
        CategoryId("pclass", 4),
        Embedding(CategoryHash("ticket", 1000000), 16),
    ],
}
LABEL = ClassLabel("survived", classes=[0, 1])


def build_model(inputs: FeatureInputs) -> keras.Model:
    """A factorization machine and hidden layers over the same vectors (Guo et al. 2017), added up; one logit a row."""
    linear = inputs.linear("feature_columns", 1, by_id=True)
    vectors = inputs.vectors(16, "feature_columns")
    # The products of each two vectors, added up: half of what squares of sums have more than sums of squares.
    squares = keras.ops.square(keras.ops.sum(vectors, axis=1)), keras.ops.sum(keras.ops.square(vectors), axis=1)
    pairs = 0.5 * (squares[0] - squares[1])
    pairs = keras.ops.sum(pairs, axis=1, keepdims=True)
    x = keras.layers.Flatten()(vectors)
    for units in [32, 16]:
        x = keras.layers.Dense(units, activation="relu")(x)
    deep = keras.layers.Dense(1, name="outputs")(x)
    return inputs.model(keras.layers.Add()([linear, pairs, deep]))


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
    optimizer = keras.optimizers.Adagrad(learning_rate=0.05)
    return [(optimizer, model.trainable_variables)]


if __name__ == "__main__":
    elastic.train(
        name="clicks",
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
        settings=elastic.TrainSettings(epochs=27, batch_size=16, seed=0, strategy="hybrid", servers=1),
    )
