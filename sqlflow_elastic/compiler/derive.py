r"""Derivation: from a field's type and its first values to a feature column.

========================  =================================================  ==================================
field                     values                                             column
========================  =================================================  ==================================
integer, float, boolean   any, also always the same one                      ``Dense``
time                      any                                                ``TimeParts``
text                      numbers (with a leading zero they are codes)       ``Dense``
text                      lists of numbers, all of one length n > 1          ``Dense`` of shape n
text                      lists of ids, of different lengths                 ``Embedding`` of hashed ``Sparse``
text                      lists of ``id:weight``                             the same, weighted
text                      at most `FEW_VALUES` different ones                ``Indicator`` of a ``Vocabulary``
text                      more                                               ``Embedding`` of a ``CategoryHash``
any                       only NULL in all of the rows                       none: left out, and said so
bytes, lists, structures  any                                                none: left out, and said so
========================  =================================================  ==================================

NULL has no part in this: every column learns what a NULL means. A comma, semicolon, space or tab separates lists.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import pyarrow as pa

from sqlflow_elastic.models.features import (
    Category,
    CategoryHash,
    Column,
    Dense,
    Embedding,
    Indicator,
    Kind,
    Sparse,
    TimeParts,
    Vocabulary,
    WeightedCategory,
)

#: A text field with at most so many different values in the sample becomes 0/1 numbers.
FEW_VALUES = 50

#: Texts and ids are hashed into one of these numbers of ids.
FEW_BUCKETS = 1 << 10
MANY_BUCKETS = 1 << 14

#: The shape of a `Sparse` whose ids may be any: they are hashed.
ANY_ID = 2**31 - 1

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NUMBERS = re.compile(rf"\s*{_NUMBER}\s*")
_CODE = re.compile(r"\s*[+-]?0\d")
_DELIMITERS = (",", ";", "\t", " ")
_LISTS = {d: re.compile(rf"\s*{_NUMBER}(?:\s*{d}\s*{_NUMBER})*\s*") for d in _DELIMITERS}
_IDS = {d: re.compile(rf"\s*\d+(?:\s*{d}\s*\d+)*\s*") for d in _DELIMITERS}
_PAIRS = {d: re.compile(rf"\s*\d+:{_NUMBER}(?:\s*{d}\s*\d+:{_NUMBER})*\s*") for d in _DELIMITERS}


@dataclass(frozen=True)
class Derived:
    """What became of a field: its column, or None when it is left out; ``note`` is a sentence for the user."""

    column: Column | None
    note: str | None = None


def derive(field: str, kind: Kind | None, values: pa.ChunkedArray, complete: bool) -> Derived:
    """The column of a field with these first values, or with all of its values if ``complete``."""
    if kind is None:
        return Derived(None, f"field '{field}' is left out: no feature can be made of type {values.type}")
    if complete and values.null_count == len(values):
        return Derived(None, f"field '{field}' is left out: it holds only NULL")
    if kind == "time":
        return Derived(TimeParts(field))
    if kind == "text":
        return _of_text(field, values)
    return Derived(Dense(field))


def derived_category(field: str, kind: Kind, values: pa.ChunkedArray) -> Category | str:
    """What a field means where a category is asked for: the lists of ids it holds, or its values (the field's name)."""
    lists = _of_lists(field, _texts(values)) if kind == "text" else None
    return lists if isinstance(lists, Category) else field


def embedding_size(ids: int) -> int:
    """How many numbers stand for one of so many ids: the fourth root, rounded up to a power of two, from 4 to 32."""
    return min(32, max(4, 1 << (math.ceil(math.sqrt(math.sqrt(ids))) - 1).bit_length()))


def embedded(category: Category, ids: int, combiner: str = "sum") -> Embedding:
    """An embedding of the size that suits so many ids."""
    return Embedding(category, embedding_size(ids), combiner)


def _texts(values: pa.ChunkedArray) -> list[str]:
    """The different texts that are neither NULL nor blank."""
    return [text for text in values.unique().to_pylist() if text is not None and text.strip()]


def _of_text(field: str, values: pa.ChunkedArray) -> Derived:
    texts = _texts(values)
    if texts and all(map(_NUMBERS.fullmatch, texts)) and not any(map(_CODE.match, texts)):
        return Derived(Dense(field))
    lists = _of_lists(field, texts)
    if isinstance(lists, Category):
        return Derived(embedded(lists, FEW_BUCKETS, "sum" if isinstance(lists, WeightedCategory) else "mean"))
    if lists is not None:
        return Derived(lists)
    if 0 < len(texts) <= FEW_VALUES:
        return Derived(Indicator(Vocabulary(field)))
    note = None
    if len(texts) > FEW_VALUES and len(texts) == len(values) - values.null_count:
        note = f"every value of field '{field}' is different; leave it out of the SELECT if it only names the row"
    buckets = _buckets(len(texts))
    return Derived(embedded(CategoryHash(field, buckets), buckets), note)


def _buckets(different: int) -> int:
    """How many ids to hash into when a sample shows so many different values."""
    return FEW_BUCKETS if different < FEW_BUCKETS // 4 else MANY_BUCKETS


def _of_lists(field: str, texts: list[str]) -> Dense | Category | None:
    """What a field is that holds lists of numbers; None if it does not hold them.

    Ids are hashed: those of the sample say nothing about how far the others go.
    """
    for delimiter in _DELIMITERS:
        if not any(delimiter in text.strip() for text in texts):
            continue
        if all(map(_PAIRS[delimiter].fullmatch, texts)):
            return WeightedCategory(CategoryHash(Sparse(field, ANY_ID, delimiter, "float32", ":"), FEW_BUCKETS))
        if not all(map(_LISTS[delimiter].fullmatch, texts)):
            continue
        lengths = {text.strip().count(delimiter) + 1 for text in texts}
        if len(lengths) == 1:
            return Dense(field, lengths.pop(), None if delimiter == "," else delimiter)
        if all(map(_IDS[delimiter].fullmatch, texts)):
            return CategoryHash(Sparse(field, ANY_ID, delimiter), FEW_BUCKETS)
    return None
