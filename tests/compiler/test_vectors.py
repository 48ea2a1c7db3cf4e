"""DeepFM and DCN: which vectors their categories have, and what they learn."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from sqlflow_elastic.compiler import TrainPlan
from sqlflow_elastic.datasource import DataSource, open_source
from sqlflow_elastic.models.features import ClassLabel, Embedding, NumberLabel
from tests.compiler.database import fill, train_plan
from tests.compiler.test_network import module_of

MANY = """
(SELECT 'user ' || (i % 70) AS person, 'item ' || i AS item, 'c' || (i % 3) AS city,
    CASE i % 2 WHEN 0 THEN '1,2,3' ELSE '4' END AS tags, i / 3 AS price, i % 2 AS y FROM range(999) AS rows(i))
"""


def sizes(plan: TrainPlan) -> dict[str, int]:
    (columns,) = plan.features.columns.values()
    return {column.fields()[0]: column.size for column in columns if isinstance(column, Embedding)}


@pytest.mark.parametrize("model", ["DeepFM", "DCN"])
@pytest.mark.parametrize(
    ("clauses", "size", "expected"),
    [
        ("", 8, {"person": 8, "item": 8, "tags": 8}),
        ("WITH model.embedding_size = 4", 4, {"person": 4, "item": 4, "tags": 4}),
        ("COLUMN EMBEDDING(person, 16), *", 16, {"person": 16, "item": 16, "tags": 16}),
        ("COLUMN item, EMBEDDING(city, 2)", 2, {"item": 2, "city": 2}),
    ],
)
def test_what_is_derived_has_vectors_of_the_models_size(
    model: str, clauses: str, size: int, expected: dict[str, int], source: DataSource
) -> None:
    plan = train_plan(f"SELECT * FROM {MANY} TO TRAIN {model} {clauses} LABEL y INTO m", source)
    assert sizes(plan) == expected
    assert f"({size}, " in plan.program


def test_sizes_that_were_written_may_differ_where_vectors_stand_side_by_side(source: DataSource) -> None:
    columns = "item, EMBEDDING(person, 16), EMBEDDING(city, 2)"
    plan = train_plan(f"SELECT * FROM {MANY} TO TRAIN DCN COLUMN {columns} LABEL y INTO m", source)
    assert sizes(plan) == {"item": 16, "person": 16, "city": 2}


def test_other_models_keep_the_sizes_that_suit_their_ids(source: DataSource) -> None:
    plan = train_plan(
        f"SELECT * FROM {MANY} TO TRAIN DNNClassifier WITH model.hidden_units = [4] LABEL y INTO m", source
    )
    assert sizes(plan) == {"person": 8, "item": 16, "tags": 8}


@pytest.mark.parametrize("model", ["DeepFM", "DCN"])
@pytest.mark.parametrize(
    ("clauses", "label", "outputs"),
    [
        ("LABEL y", ClassLabel("y", [0, 1]), 1),
        ("LABEL city", ClassLabel("city", ["c0", "c1", "c2"]), 3),
        ("LABEL price", NumberLabel("price"), 1),
        ("WITH model.loss = mse LABEL y", NumberLabel("y"), 1),
        ('WITH model.label_vocabulary = ["c2", "c1", "c0"] LABEL city', ClassLabel("city", ["c2", "c1", "c0"]), 3),
    ],
)
def test_the_label_and_the_loss_say_what_is_learned(
    model: str, clauses: str, label: Any, outputs: int, source: DataSource
) -> None:
    plan = train_plan(f"SELECT * FROM {MANY} TO TRAIN {model} {clauses} INTO m", source)
    assert plan.features.label == label
    assert f'keras.layers.Dense({outputs}, name="outputs")' in plan.program


COLUMNS = (
    "price",
    "city",
    "EMBEDDING(CATEGORY_HASH(item, 1000000), 8, mean, zeros)",
    "CROSS([city, person], 1000)",
    "BUCKET(price, [10, 100])",
    "SEQ_CATEGORY_ID(tags, 6)",
    "INDICATOR(city), EMBEDDING(city, 8)",
)


@pytest.mark.parametrize("columns", [*COLUMNS, ", ".join(COLUMNS)])
@pytest.mark.parametrize(
    ("model", "attributes"),
    [
        ("DeepFM", "model.dropout = 0.1"),
        ("DeepFM", "model.batch_norm = True, model.n_classes = 3"),
        ("DCN", "model.structure = parallel"),
        ("DCN", "model.structure = stacked, model.projection = 2, model.cross_layers = 3, model.n_classes = 3"),
    ],
)
def test_programs_build_what_was_explained_over_all_columns(
    model: str, attributes: str, columns: str, source: DataSource
) -> None:
    label = "kind" if "n_classes" in attributes else "y"
    text = f"SELECT *, (price % 3)::INT % 3 AS kind FROM {MANY} TO TRAIN {model} WITH {attributes} "
    plan = train_plan(text + f"COLUMN {columns} LABEL {label} INTO m", source)
    network, _ = built(plan, source)
    (size,) = [detail for part, item, detail in plan.explanation if (part, item) == ("size", "weights")]
    assert size.split(" weight")[0] == f"{network.count_params():,}"


@pytest.mark.parametrize("model", ["DeepFM", "DCN"])
@pytest.mark.parametrize("optimizer", ["Adam", "Adagrad", "Ftrl", "SGD", "RMSprop"])
def test_gradients_of_tables_are_rows(model: str, optimizer: str, source: DataSource) -> None:
    import tensorflow as tf

    from sqlflow_elastic.elastic import Batch
    from sqlflow_elastic.elastic.row_updates import row_rule
    from sqlflow_elastic.models.features.embedding import EmbeddingBag

    text = (
        f"SELECT * FROM {MANY} TO TRAIN {model} WITH model.optimizer = {optimizer} "
        "COLUMN price, city, EMBEDDING(CATEGORY_ID(tags, 1000000), 8), CATEGORY_HASH(item, 1000000) LABEL y INTO m"
    )
    plan = train_plan(text, source)
    network, (features, labels) = built(plan, source)
    module = module_of(plan.program)
    count = len(labels)
    batch = Batch(features, labels, tf.fill([count], 1 / count), tf.constant(1.0))
    _, gradients = module.gradients(network, batch)
    tables = {id(layer.table) for layer in network.layers if isinstance(layer, EmbeddingBag)}
    assert len(tables) == (6 if model == "DeepFM" else 3)
    for variable, gradient in zip(network.trainable_variables, gradients, strict=True):
        assert isinstance(gradient, tf.IndexedSlices) == (id(variable) in tables), variable.path
    assert all(row_rule(each) for each, _ in module.optimizers(network))


def test_a_factorization_machine_adds_up_the_products_of_pairs(source: DataSource) -> None:
    """The network's outputs less those of its linear part and its hidden layers, against the sum written out."""
    text = f"SELECT * FROM {MANY} TO TRAIN DeepFM COLUMN price, city, item LABEL y INTO m"
    network, (features, _) = built(train_plan(text, source), source)
    last = network.get_layer("outputs")
    last.set_weights([np.zeros_like(weight) for weight in last.get_weights()])
    vectors = [layer for layer in network.layers if layer.name.startswith("embedding_")]
    numbers = next(layer for layer in network.layers if layer.name.startswith("vectors_"))
    rows = features["numbers"].shape[0]
    each = [numbers.vectors.numpy() * features["numbers"].numpy()]
    for position, layer in enumerate(vectors):
        each.append(layer.table.numpy()[features["ids"].numpy()[:, position]])
    pairs = sum((one * other).sum(axis=1) for one, other in itertools.combinations(each, 2))
    assert all(vector.shape == (rows, 8) for vector in each)
    np.testing.assert_allclose(network(features).numpy()[:, 0], pairs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attributes", ["", "WITH model.projection = 3"])
def test_crossing_layers_are_those_of_the_paper(attributes: str, source: DataSource) -> None:
    """x_{l+1} = x_0 * (W x_l + b) + x_l, of a network whose outputs show the crossed features only."""
    text = f"SELECT * FROM {MANY} TO TRAIN DCN {attributes} COLUMN price, city LABEL y INTO m"
    network, (features, _) = built(train_plan(text, source), source)
    weights = {variable.path: variable.numpy() for variable in network.trainable_variables}
    last = next(layer for layer in network.layers if layer.name == "outputs")
    kernel = last.kernel.numpy()
    kernel[9:] = 0.0
    last.kernel.assign(kernel)
    (table,) = [value for path, value in weights.items() if path.startswith("embedding_")]
    inputs = np.hstack([features["numbers"].numpy(), table[features["ids"].numpy()[:, 0]]])
    crossed = inputs
    plain = [layer for layer in network.layers if type(layer).__name__ == "Dense" and layer.name != "outputs"]
    per_layer = 2 if attributes else 1
    for index in range(2):
        x = crossed
        for layer in plain[index * per_layer : (index + 1) * per_layer]:
            x = x @ layer.kernel.numpy() + (layer.bias.numpy() if layer.use_bias else 0.0)
        crossed = inputs * x + crossed
    np.testing.assert_allclose(network(features).numpy(), crossed @ kernel[:9], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", ["DeepFM", "DCN"])
def test_a_trained_one_is_trained_again_as_it_is(model: str, tmp_path: Any) -> None:
    from sqlflow_elastic.models.store import ModelMetadata, save_model

    artifact = tmp_path / "model.artifact"
    artifact.write_bytes(b"weights")
    with open_source("duckdb://") as source:
        fill(source, tmp_path)
        first = train_plan(f"SELECT * FROM {MANY} TO TRAIN {model} LABEL y INTO m", source)
        metadata = ModelMetadata(
            name="m",
            statement="",
            estimator=first.estimator,
            features=first.features.to_json(),
            label="y",
            fields={},
            metrics={},
            program=first.program,
            versions={},
            created="2026-01-01T00:00:00+00:00",
            rows=1,
            seconds=1.0,
        )
        save_model(source, ("m",), metadata, artifact)
        again = train_plan(f"SELECT * FROM {MANY} TO TRAIN {model} COLUMN * LABEL y USING m INTO m", source)
    assert again.features.columns == first.features.columns
    body = "def build_model"
    assert again.program.split(body)[1].split("def ")[0] == first.program.split(body)[1].split("def ")[0]


def built(plan: TrainPlan, source: DataSource) -> tuple[Any, Any]:
    """The program's network, and some encoded rows with their labels."""
    import tensorflow as tf

    from sqlflow_elastic.models.features import Encoder, FeatureInputs
    from sqlflow_elastic.models.features.statistics import learn

    module = module_of(plan.program)
    batches = source.probe(plan.select, 1000).combine_chunks().to_batches()
    columns = [column for group in module.COLUMNS.values() for column in group]
    encoder = Encoder(module.COLUMNS, module.FIELDS, learn(columns, module.FIELDS, module.LABEL, batches), module.LABEL)
    network = module.build_model(FeatureInputs(encoder))
    rows = batches[0].slice(0, 16)
    features = {name: tf.constant(array) for name, array in encoder.encode(rows).items()}
    return network, (features, tf.constant(encoder.encode_label(rows)))
