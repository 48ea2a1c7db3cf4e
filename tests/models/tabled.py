"""A small trained model whose tables are not in its network, for tests."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow as pa

from sqlflow_elastic.elastic.served import ServedTables
from sqlflow_elastic.models.artifact import save_artifact
from sqlflow_elastic.models.features import CategoryId, ClassLabel, Column, Dense, Embedding, Encoder, FeatureInputs
from sqlflow_elastic.models.features.statistics import learn
from sqlflow_elastic.models.large_tables import write_tables
from sqlflow_elastic.models.local_tables import bags_of
from sqlflow_elastic.models.tables.initial import first_rows
from tests.models.features.rows import fields_of

COLUMNS: list[Column] = [
    Dense("hour"),
    Embedding(CategoryId("person", 100), 4),
    Embedding(CategoryId("item", 300), 4, "mean"),
    Embedding(CategoryId("site", 60), 2),
]
BATCH = pa.record_batch(
    {
        "hour": [1.0, 2.0, 3.0, 4.0],
        "person": [0, 99, 7, 8],
        "item": ["1,2,3", "299", "", "5"],
        "site": [59, 0, 1, 2],
        "y": [0, 1, 0, 1],
    }
)
LABEL = ClassLabel("y", [0, 1])
SEED = 5
INPUT = "feature_columns"
LAYERS = ("embedding_person", "embedding_item", "embedding_site")


def encoder() -> Encoder:
    fields = fields_of({"hour": "float", "person": "integer", "item": "text", "site": "integer", "y": "integer"})
    return Encoder({INPUT: COLUMNS}, fields, learn(COLUMNS, fields, LABEL, [BATCH]), LABEL)


def network(inputs: FeatureInputs) -> keras.Model:
    keras.utils.set_random_seed(1)
    return inputs.model(keras.layers.Dense(1)(keras.layers.Dense(8, "relu")(inputs.dense())))


def build(served: Collection[str], seed: int = SEED) -> keras.Model:
    """The network with the tables of all but some layers in it."""
    return network(FeatureInputs(encoder(), seed, lambda name, rows, size: name in served))


def trained_tables(model: keras.Model) -> list[tuple[Any, list[tuple[Any, Any]]]]:
    """Of each table: what it is, and the rows of every third id, as if they had been trained."""
    optimizer = keras.optimizers.Adagrad()
    optimizer.build(model.trainable_variables)
    served = ServedTables.of(model, [(optimizer, model.trainable_variables)])
    tables: list[tuple[Any, list[tuple[Any, Any]]]] = []
    for spec in [] if served is None else served.specs:
        ids = np.arange(0, spec.rows, 3)
        tables.append((spec, [(ids, first_rows(spec, ids) + 0.5)]))
    return tables


def with_local_tables(model: keras.Model) -> keras.Model:
    """The same network with the same tables in it."""
    whole = build(served=())
    bags = bags_of(whole)
    tables = {id(bags[stream].table) for stream, bag in bags_of(model).items() if bag.served}
    for variable, trained in zip(whole.variables, model.variables, strict=True):
        if id(variable) not in tables:
            variable.assign(trained)
    for spec, _ in trained_tables(model):
        for each, base in zip(spec.ranges, spec.bases[:-1], strict=True):
            for part in each.parts:
                table = bags[part.stream].table
                values = table.numpy().copy()
                values[(np.arange(each.rows) + base) % 3 == 0] += 0.5
                table.assign(values)
    return whole


def save(path: Path, served: Collection[str] = LAYERS) -> keras.Model:
    """Leave an artifact and its tables as a job does; returns the network, which has no tables but those not served."""
    model = build(served)
    for bag in bags_of(model).values():
        bag.table.assign(bag.table + 0.25)
    write_tables(path, trained_tables(model))
    its = encoder()
    save_artifact(
        path,
        columns={INPUT: COLUMNS},
        fields=its.fields,
        label=LABEL,
        statistics=its.statistics,
        model=model,
        extra={"name": "tabled"},
        served=list(served),
    )
    return model
