"""Columns in their plain form: what `Embedding("x", 8)` or `CategoryId("x", 9)` leave to the reader is written out.

After `resolve` a column is a `Dense`, a `TimeParts`, or an `Indicator` or `Embedding` over a category, which is one of

    one id          Vocabulary(field), Bucket(Dense), CategoryId(field | Bucket, n), CategoryHash(field | category, n)
    a list of ids   Sparse, CategoryId(Sparse, n), CategoryHash(Sparse, n), WeightedCategory(one of these)
    either          Cross([field | category, …], n)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from sqlflow_elastic.models.features.columns import (
    Bucket,
    Category,
    CategoryHash,
    CategoryId,
    Column,
    Cross,
    Dense,
    Embedding,
    Indicator,
    Kind,
    Source,
    Sparse,
    Vocabulary,
    WeightedCategory,
)

Inputs = Mapping[str, Sequence[Column]]
"""The columns of each of a network's inputs."""


def resolve(column: Column, kinds: Mapping[str, Kind]) -> Column:
    """The plain form of a column over fields of these kinds."""
    if isinstance(column, Indicator | Embedding):
        return dataclasses.replace(column, category=_category(column.category, kinds))
    if isinstance(column, Sparse) and column.kv_delimiter is not None:
        return Indicator(WeightedCategory(column))
    if isinstance(column, Category):
        return Indicator(_category(column, kinds))
    return column


def parts(columns: Iterable[Column]) -> list[Column]:
    """Every column and every column inside one, each once, what is inside first."""
    seen: dict[Column, None] = {}

    def visit(column: Column) -> None:
        for source in column.sources:
            if isinstance(source, Column):
                visit(source)
        seen.setdefault(column)

    for column in columns:
        visit(column)
    return list(seen)


def _category(source: Source, kinds: Mapping[str, Kind]) -> Column:
    if isinstance(source, str):
        return Vocabulary(source)
    if isinstance(source, Bucket) and isinstance(source.source, str):
        return dataclasses.replace(source, source=Dense(source.source))
    if isinstance(source, CategoryId):
        return dataclasses.replace(source, source=_ids(source, kinds))
    if isinstance(source, Sparse) and kinds[source.field] != "text":
        return CategoryId(source.field, source.shape)
    if isinstance(source, CategoryHash):
        return dataclasses.replace(source, source=_value(source.source, kinds))
    if isinstance(source, WeightedCategory):
        return WeightedCategory(_category(source.category, kinds))
    if isinstance(source, Cross):
        return Cross([_value(item, kinds) for item in source.columns], source.n)
    return source


def _ids(column: CategoryId, kinds: Mapping[str, Kind]) -> Source:
    """What a CATEGORY_ID takes its ids from: a field of one id, a list of them, or a bucket."""
    source = column.source
    delimiter = (source.delimiter if isinstance(source, Dense) else None) or ","
    if isinstance(source, Dense):
        source = source.field
    if isinstance(source, str):
        return Sparse(source, column.n, delimiter) if kinds[source] == "text" else source
    if isinstance(source, Sparse):
        return source if kinds[source.field] == "text" else source.field
    return _category(source, kinds)


def _value(source: Source, kinds: Mapping[str, Kind]) -> Source:
    """What a hash is taken of: a field's value, or ids."""
    if isinstance(source, str):
        return source
    if isinstance(source, Dense):
        return source.field
    if isinstance(source, Sparse) and kinds[source.field] != "text":
        return source.field
    return _category(source, kinds)
