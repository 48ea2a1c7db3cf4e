"""Small batches for the tests: what columns learn from them, and an encoder over them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sqlflow_elastic.models.features import Column, Encoder, Field, Kind, Label
from sqlflow_elastic.models.features.statistics import learn

Data = Mapping[str, Sequence[Any]]


def fields_of(kinds: Mapping[str, Kind]) -> list[Field]:
    return [Field(name, kind) for name, kind in kinds.items()]


def encoder_of(
    columns: Column | Sequence[Column], kinds: Mapping[str, Kind], batch: pa.RecordBatch, label: Label | None = None
) -> Encoder:
    """An encoder of one input, ``feature_columns``, that has learned from the batch."""
    group = [columns] if isinstance(columns, Column) else list(columns)
    fields = fields_of(kinds)
    return Encoder({"feature_columns": group}, fields, learn(group, fields, label, [batch]), label)


def encoded(columns: Column | Sequence[Column], kinds: Mapping[str, Kind], data: Data) -> dict[str, Any]:
    """The encoded arrays, as lists, of the data the columns learned from."""
    batch = pa.record_batch(dict(data))
    arrays = encoder_of(columns, kinds, batch).encode(batch)
    return {name: array.round(4).tolist() for name, array in arrays.items()}
