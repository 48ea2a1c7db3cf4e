"""Trains the model sexes_by_columns: a LinearClassifier.

    SELECT * FROM passengers
    TO TRAIN LinearClassifier
    WITH model.label_vocabulary = ["male", "female"], train.class_weight = [1, 2.5],
        train.batch_size = 64, train.seed = 7
    COLUMN DENSE(age, 1), BUCKET(DENSE(fare, 1), [0, 10, 20, 30]), CROSS([BUCKET(age, [25, 50]), pclass], 100),
        INDICATOR(CATEGORY_ID(pclass, 4)), EMBEDDING(CATEGORY_HASH(ticket, 500), 8, mean), alone
    LABEL sex
    INTO sexes_by_columns

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py (--help tells more).
"""

import keras
import tensorflow as tf

from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query
from sqlflow_elastic.models.features import (
    Bucket,
    CategoryHash,
    CategoryId,
    ClassLabel,
    Cross,
    Dense,
    Embedding,
    FeatureInputs,
    Field,
    Indicator,
)

SELECT = "SELECT * FROM passengers"

FIELDS = [
    Field("age", "float"),
    Field("pclass", "integer"),
    Field("sex", "text"),
    Field("ticket", "text"),
    Field("alone", "boolean"),
    Field("fare", "float"),
]
COLUMNS = {
    "feature_columns": [
        Dense("age"),
        Bucket(Dense("fare"), [0, 10, 20, 30]),
        Cross([Bucket("age", [25, 50]), "pclass"], 100),
        Indicator(CategoryId("pclass", 4)),
        Embedding(CategoryHash("ticket", 500), 8, combiner="mean"),
        Dense("alone"),
    ],
}
LABEL = ClassLabel("sex", classes=["male", "female"])


def build_model(inputs: FeatureInputs) -> keras.Model:
    """A weighted sum of all the features; one logit a row."""
    return inputs.model(inputs.linear("feature_columns", 1))


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
        name="sexes_by_columns",
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
        settings=elastic.TrainSettings(epochs=100, batch_size=64, seed=7),
        class_weight={"male": 1, "female": 2.5},
    )
