"""Derivation: what each sort of field becomes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sqlflow_elastic.compiler.derive import MANY_BUCKETS, derive, embedding_size
from sqlflow_elastic.models.features import Kind
from sqlflow_elastic.models.features.raw import kind_of

WORDS = [f"word {i}" for i in range(60)]
LISTS = 'Embedding(CategoryHash(Sparse("f", 2147483647), 1024), 8, combiner="mean")'


def derived(values: Any, type_: pa.DataType | None = None, complete: bool = False) -> tuple[str, str | None]:
    column = pa.chunked_array([pa.array(values, type_)])
    kind: Kind | None = kind_of(column.type)
    found = derive("f", kind, column, complete)
    return repr(found.column), found.note


@pytest.mark.parametrize(
    ("values", "type_", "column"),
    [
        ([1.5, None, 2.5], pa.float64(), 'Dense("f")'),
        ([1, 2, 3], pa.int64(), 'Dense("f")'),
        ([2**64 - 1, 1], pa.uint64(), 'Dense("f")'),
        ([7, 7, 7], pa.int64(), 'Dense("f")'),
        ([None, None], pa.int64(), 'Dense("f")'),
        ([True, False], pa.bool_(), 'Dense("f")'),
        ([1, 2], pa.decimal128(20, 4), 'Dense("f")'),
        ([0, 1], pa.date32(), 'TimeParts("f")'),
        ([0, 1], pa.timestamp("us"), 'TimeParts("f")'),
        (["1", "-2.5", " 3e4 ", None, ""], pa.string(), 'Dense("f")'),
        (["01", "02"], pa.string(), 'Indicator(Vocabulary("f"))'),
        (["0", "0.5"], pa.string(), 'Dense("f")'),
        (["0.2,1.7", "1,2"], pa.string(), 'Dense("f", shape=2)'),
        (["0.2;1.7;3", "1;2;3"], pa.string(), 'Dense("f", shape=3, delimiter=";")'),
        (["1 2", "3 4"], pa.string(), 'Dense("f", shape=2, delimiter=" ")'),
        (["3,5,7", "1", "", None], pa.string(), LISTS),
        (["3\t5", "1"], pa.string(), LISTS.replace("47)", '47, delimiter="\\t")')),
        (["1.5,2", "1"], pa.string(), 'Indicator(Vocabulary("f"))'),
        (
            ["0:0.2,1:0.3", "7:1"],
            pa.string(),
            'Embedding(WeightedCategory(CategoryHash(Sparse("f", 2147483647, dtype="float32", kv_delimiter=":"), '
            "1024)), 8)",
        ),
        (["red", "green", "red", None], pa.string(), 'Indicator(Vocabulary("f"))'),
        ([*WORDS, *WORDS], pa.string(), 'Embedding(CategoryHash("f", 1024), 8)'),
        (
            [*map(str.upper, map(chr, range(0x4E00, 0x4E00 + 300)))] * 2,
            pa.string(),
            'Embedding(CategoryHash("f", 16384), 16)',
        ),
        (["a, b", "c"], pa.string(), 'Indicator(Vocabulary("f"))'),
        ([None, None], pa.string(), 'Embedding(CategoryHash("f", 1024), 8)'),
    ],
)
def test_field_becomes(values: Any, type_: pa.DataType, column: str) -> None:
    assert derived(values, type_) == (column, None)


def test_a_field_that_is_always_null_is_left_out_when_all_rows_are_known() -> None:
    for type_ in (pa.int64(), pa.string(), pa.null()):
        assert derived([None, None], type_, complete=True) == ("None", "field 'f' is left out: it holds only NULL")


def test_a_type_without_a_kind_is_left_out() -> None:
    note = "field 'f' is left out: no feature can be made of type list<item: int64>"
    assert derived([[1], [2]], pa.list_(pa.int64())) == ("None", note)


def test_a_text_whose_values_are_all_different_is_kept_with_a_note() -> None:
    column, note = derived(WORDS)
    assert column == 'Embedding(CategoryHash("f", 1024), 8)'
    assert note == "every value of field 'f' is different; leave it out of the SELECT if it only names the row"


@pytest.mark.parametrize(
    ("ids", "size"), [(2, 4), (256, 4), (257, 8), (1024, 8), (MANY_BUCKETS, 16), (10**6, 32), (10**9, 32)]
)
def test_embedding_size_grows_with_the_fourth_root(ids: int, size: int) -> None:
    assert embedding_size(ids) == size
