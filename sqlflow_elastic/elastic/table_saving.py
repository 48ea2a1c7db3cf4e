"""The tables of a finished training: into the network if it is small enough, else into files beside its artifact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import numpy as np

from sqlflow_elastic.elastic.served import served_layers
from sqlflow_elastic.elastic.tables.merging import merged
from sqlflow_elastic.models.large_tables import write_tables
from sqlflow_elastic.models.local_tables import bags_of, fill
from sqlflow_elastic.models.tables.spec import TableSpec

#: Tables of so many bytes in all go into the network: the model is one file, and wholly in the database.
WHOLE_BYTES = 256 << 20


def is_small(specs: Sequence[TableSpec]) -> bool:
    """Whether a network may hold its tables."""
    return sum(spec.rows * spec.width * np.dtype(spec.dtype).itemsize for spec in specs) <= WHOLE_BYTES


def whole_model(
    model: keras.Model, build: Callable[[], keras.Model], snapshots: Path, step: int, specs: Sequence[TableSpec]
) -> keras.Model:
    """The network with its tables in it.

    Args:
        model: trained, but for its tables.
        build: makes the same network with all tables in it, as they begin.
        snapshots, step: where and of which step the servers' snapshots are.
        specs: of all tables.
    """
    whole = build()
    served = {layer.stream for layer in served_layers(model)}
    bags = {stream: bag for stream, bag in bags_of(whole).items() if stream in served}
    tables = {id(bag.table) for bag in bags.values()}
    for variable, trained in zip(whole.variables, model.variables, strict=True):
        if id(variable) not in tables:
            variable.assign(trained.value)
    for index, spec in enumerate(specs):
        fill(bags, spec, merged(snapshots, step, index, spec))
    return whole


def save_tables(artifact: Path, snapshots: Path, step: int, specs: Sequence[TableSpec]) -> None:
    """Write the tables beside the artifact; arguments as above."""
    write_tables(artifact, [(spec, merged(snapshots, step, index, spec)) for index, spec in enumerate(specs)])
