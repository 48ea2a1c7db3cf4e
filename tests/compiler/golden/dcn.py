"""Trains the model crossed: a DCN.

    SELECT * FROM passengers
    TO TRAIN DCN
    WITH model.cross_layers = 3, model.projection = 4, model.structure = stacked, model.dropout = 0.1
    COLUMN age, sex, EMBEDDING(ticket, 8)
    LABEL pclass
    INTO crossed

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py (--help tells more).
"""

import keras
import tensorflow as tf

from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query
from sqlflow_elastic.models.features import ClassLabel, Dense, Embedding, FeatureInputs, Field, Indicator, Vocabulary

SELECT = "SELECT * FROM passengers"

FIELDS = [Field("age", "float"), Field("pclass", "integer"), Field("sex", "text"), Field("ticket", "text")]
COLUMNS = {"feature_columns": [Dense("age"), Indicator(Vocabulary("sex")), Embedding("ticket", 8)]}
LABEL = ClassLabel("pclass", classes=[1, 2, 3])


def build_model(inputs: FeatureInputs) -> keras.Model:
    """Layers that cross all features (Wang et al. 2021), and hidden layers on them; a logit for each class."""
    features = inputs.embedded(8, "feature_columns")
    width = features.shape[-1]
    crossed = features
    for _ in range(3):
        projected = keras.layers.Dense(4, use_bias=False)(crossed)
        crossed = features * keras.layers.Dense(width)(projected) + crossed
    x = crossed
    for units in [128, 64]:
        x = keras.layers.Dense(units, activation="relu")(x)
        x = keras.layers.Dropout(0.1)(x)
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
        name="crossed",
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
        settings=elastic.TrainSettings(epochs=27, batch_size=16, seed=0),
    )
