"""How many numbers the vectors of categories have in models that give one to each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from sqlflow_elastic.compiler.attributes import Attributes
from sqlflow_elastic.compiler.columns import ColumnReader
from sqlflow_elastic.models.features import Column, Embedding
from sqlflow_elastic.models.zoo.declarations import Family, Model

_SIZE = 8


def vector_size(attributes: Attributes, columns: Iterable[Column]) -> int:
    """What ``model.embedding_size`` says, else the first EMBEDDING of these columns, else 8."""
    sizes = (column.size for column in columns if isinstance(column, Embedding))
    return int(attributes.values.get("model.embedding_size") or next(sizes, _SIZE))


def with_vectors(
    model: Model, attributes: Attributes, reader: ColumnReader, columns: Mapping[str, tuple[Column, ...]]
) -> Mapping[str, tuple[Column, ...]]:
    """The columns of a model with vectors of the size that it has for them; those of other models as they are.

    An EMBEDDING that was written keeps its size, and one that was derived gets the model's.

    Raises: CompileError: a written one has another size than the model's, and it is a DeepFM, whose vectors are
        multiplied with each other.
    """
    if model.family not in (Family.DEEPFM, Family.DCN):
        return columns
    every = [column for group in columns.values() for column in group]
    size = vector_size(attributes, [column for column in every if column in reader.written])
    if model.family is Family.DEEPFM:
        for column in every:
            if isinstance(column, Embedding) and column in reader.written and column.size != size:
                message = f"all vectors of {model.name} have one size: this one has {column.size} numbers, not {size}"
                raise reader.program.error(reader.written[column], message, f"write EMBEDDING(…, {size})")

    def sized(column: Column) -> Column:
        if isinstance(column, Embedding) and column not in reader.written:
            return dataclasses.replace(column, size=size)
        return column

    return {name: tuple(dict.fromkeys(map(sized, group))) for name, group in columns.items()}
