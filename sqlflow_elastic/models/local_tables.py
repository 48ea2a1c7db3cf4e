"""A trained network with all its tables in it, made of one whose tables are in files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np

from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.models.artifact import Artifact
from sqlflow_elastic.models.features.embedding import EmbeddingBag
from sqlflow_elastic.models.features.inputs import FeatureInputs
from sqlflow_elastic.models.features.layers import PACKAGE
from sqlflow_elastic.models.large_tables import Chunks
from sqlflow_elastic.models.tables.initial import initial_rows
from sqlflow_elastic.models.tables.spec import TableSpec

#: Tables of so many bytes are put into a network at most: TensorFlow's files hold little more in one piece.
MOST_BYTES = 2 << 30

_CHUNK_BYTES = 64 << 20


def network_with_tables(artifact: Artifact) -> keras.Model:
    """The network of an artifact with all its tables in it.

    Raises: ModelStoreError: they are too large for that, one is missing or damaged, or the network cannot be built.
    """
    tables = artifact.tables
    if tables is None:
        return artifact.model
    size = sum(spec.rows * spec.width * np.dtype(spec.dtype).itemsize for spec in tables.specs)
    if size > MOST_BYTES:
        raise ModelStoreError(
            f"its tables are too large: in a network they take {size:,} bytes, of {MOST_BYTES:,} at most, as all rows "
            "are there; predict with TO PREDICT, which reads the rows that it needs, or train with fewer rows "
            "(CATEGORY_HASH)"
        )
    whole = _rebuilt(artifact, tables.specs[0].seed)
    take_weights(whole, artifact)
    return whole


def take_weights(model: keras.Model, artifact: Artifact) -> None:
    """Give a network that the same program built the weights of a trained one, and the tables that it holds.

    Raises: ModelStoreError: it is another network, or a table is missing or damaged.
    """
    bags = bags_of(model)
    files = [] if artifact.tables is None else artifact.tables.files
    in_files = {stream for file in files for stream in file.spec.streams}
    if {stream for stream, bag in bags.items() if bag.served} == in_files:
        artifact.load_weights_into(model)
        return
    trained = artifact.model
    take_dense(model, trained)
    held = {stream: bag for stream, bag in bags.items() if not bag.served}
    for stream, bag in bags_of(trained).items():
        if stream in held and not bag.served:
            held[stream].table.assign(bag.table.value)
    for file in files:
        if held.keys().isdisjoint(file.spec.streams):
            continue
        file.check()
        rows = max(1, _CHUNK_BYTES // (file.spec.width * np.dtype(file.spec.dtype).itemsize))
        fill(held, file.spec, file.chunks(rows))


def bags_of(model: keras.Model) -> dict[int, EmbeddingBag]:
    """The layers of a network that have tables, by their streams."""
    return {layer.stream: layer for layer in model._flatten_layers() if isinstance(layer, EmbeddingBag)}


def take_dense(model: keras.Model, trained: keras.Model) -> None:
    """Give a network all weights but tables of a trained one.

    Raises: ModelStoreError: it is another network.
    """
    to, of = (_dense(each) for each in (model, trained))
    tables, other = (
        {stream: (bag.rows, bag.size) for stream, bag in bags_of(each).items()} for each in (model, trained)
    )
    if tables != other or [tuple(variable.shape) for variable in to] != [tuple(variable.shape) for variable in of]:
        raise ModelStoreError("the stored weights do not fit this network (their shapes differ)")
    for variable, value in zip(to, of, strict=True):
        variable.assign(value.value)


def fill(bags: Mapping[int, EmbeddingBag], spec: TableSpec, chunks: Chunks) -> None:
    """Put a table into the layers that hold it; what was never trained gets what it begins with.

    Args:
        bags: the layers by their streams; those that are not there are left out.
        spec: of the table.
        chunks: its trained rows, ids [n] and rows [n, width].
    """
    parts = [part for each in spec.ranges for part in each.parts if part.stream in bags]
    values = {part.stream: _first(bags[part.stream], spec) for part in parts}
    for ids, rows in chunks:
        for part, places, own, columns in spec.parts_of(ids):
            if part.stream in values:
                values[part.stream][own] = rows[places, columns]
    for stream, value in values.items():
        bags[stream].table.assign(value)


def _first(bag: EmbeddingBag, spec: TableSpec) -> Any:
    """What all rows of a layer begin with, in a training of the table's seed."""
    if bag.seed == spec.seed:
        return np.array(bag.table.numpy())
    part = bag.part
    assert part is not None  # noqa: S101 - else it had no such table
    return initial_rows(part, spec.seed, np.arange(bag.rows), spec.dtype)


def _dense(model: keras.Model) -> list[Any]:
    tables = {id(bag.table) for bag in bags_of(model).values()}
    return [variable for variable in model.variables if id(variable) not in tables]


def _rebuilt(artifact: Artifact, seed: int) -> keras.Model:
    """The network anew, with tables as they begin."""
    try:
        config = keras.saving.serialize_keras_object(artifact.model)
        _set_local(config)
        return keras.saving.deserialize_keras_object(config)
    except (NotImplementedError, TypeError, ValueError):
        if artifact.build_model is None:
            raise
        return artifact.build_model(FeatureInputs(artifact.encoder, seed))


def _set_local(config: Any) -> None:
    """In a network's description, have all layers hold their tables."""
    if isinstance(config, dict):
        if config.get("registered_name") == f"{PACKAGE}>{EmbeddingBag.__name__}":
            config["config"]["served"] = False
        config = list(config.values())
    if isinstance(config, Iterable) and not isinstance(config, str):
        for each in config:
            _set_local(each)
