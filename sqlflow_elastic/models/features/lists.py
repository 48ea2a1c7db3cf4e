"""Texts that hold lists, ``"0.2,1.7"``, ``"3,5,7"``, ``"0:0.2,1:0.3"``, split and checked with Arrow's functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sqlflow_elastic.models.features.columns import Dense, Field, Sparse
from sqlflow_elastic.models.features.raw import Rows, blank_is_null, text_to_integer, text_to_number


def dense_numbers(rows: Rows, field: Field, shape: int, delimiter: str | None) -> NDArray[np.float64]:
    """The numbers of a text field, float64 [rows, shape], NaN where missing: an empty place, or a NULL or blank text.

    Raises: DataError: something is not a number, or a text does not hold ``shape`` of them.
    """
    text = rows.values(field)
    if shape == 1 and delimiter is None:
        return _to_numpy(_numbers(rows, field, text))[:, None]
    delimiter = delimiter or ","
    lists = pc.split_pattern(blank_is_null(text), delimiter)
    lengths = pc.fill_null(pc.list_value_length(lists), shape)
    rows.require(pc.equal(lengths, shape), field, f"{shape} numbers separated by '{delimiter}'")
    numbers = _elements(rows, field, lists, lists.flatten(), text_to_number, "numbers")
    matrix = np.full((len(text), shape), np.nan)
    matrix[np.asarray(lists.is_valid())] = _to_numpy(numbers).reshape(-1, shape)
    return matrix


@dataclass(frozen=True)
class IdLists:
    """The elements of lists: ``values`` (string) and ``weights`` (float64, or None), and how many each row has."""

    values: pa.Array
    weights: pa.Array | None
    lengths: NDArray[np.int64]


def id_lists(rows: Rows, column: Sparse, field: Field) -> IdLists:
    """The elements of a `Sparse`; NULL, blank texts and blank elements give none.

    Raises: DataError: an element is no pair of key and value though pairs are asked for.
    """
    lists = pc.split_pattern(rows.values(field), column.delimiter)
    parents = pc.list_parent_indices(lists)
    elements = blank_is_null(lists.flatten())
    kept = elements.is_valid()
    elements, parents = elements.filter(kept), parents.filter(kept)
    lengths = np.bincount(np.asarray(parents), minlength=len(rows))
    if column.kv_delimiter is None:
        return IdLists(elements, None, lengths)
    pairs = pc.split_pattern(elements, column.kv_delimiter, max_splits=1)
    expected = f"pairs of a key and a value like '3{column.kv_delimiter}0.5'"
    complete = pc.equal(pc.list_value_length(pairs), 2)
    rows.require(_by_row(complete, parents, len(rows)), field, expected)
    weights = pc.list_element(pairs, 1) if len(pairs) else pa.array([], pa.string())
    keys = pc.list_element(pairs, 0) if len(pairs) else pa.array([], pa.string())
    try:
        numbers = text_to_number(weights)
    except pa.ArrowInvalid:
        numbers = None
    if numbers is None or numbers.null_count:
        rows.require(_by_row(_convertible(weights, text_to_number), parents, len(rows)), field, expected)
    return IdLists(pc.utf8_trim_whitespace(keys), numbers, lengths)


def check_ids(rows: Rows, lists: IdLists, field: Field, n: int) -> None:
    """Raise the `DataError` of the first row that has an element which is not an id in [0, n)."""
    try:
        ids = text_to_integer(lists.values)
        valid = pc.and_(pc.greater_equal(ids, 0), pc.less(ids, n))
    except pa.ArrowInvalid:
        valid = _convertible(lists.values, text_to_integer)
    if pc.all(valid, skip_nulls=False).as_py() is not True and len(valid):
        parents = pa.array(np.repeat(np.arange(len(rows)), lists.lengths))
        rows.require(_by_row(valid, parents, len(rows)), field, f"ids from 0 to {n - 1}")


def number_column(rows: Rows, column: Dense, field: Field) -> NDArray[np.float64]:
    """A `Dense` column's numbers, float64 [rows, shape], NaN where missing. Raises: DataError."""
    if field.kind == "text":
        return dense_numbers(rows, field, column.shape, column.delimiter)
    return _to_numpy(rows.values(Field(field.name, "float")))[:, None]


def _numbers(rows: Rows, field: Field, text: pa.Array) -> pa.Array:
    try:
        return text_to_number(text)
    except pa.ArrowInvalid:
        rows.require(_convertible(text, text_to_number), field, "a number")
        raise


def _elements(
    rows: Rows, field: Field, lists: pa.Array, elements: pa.Array, convert: Callable[[pa.Array], pa.Array], what: str
) -> pa.Array:
    try:
        return convert(elements)
    except pa.ArrowInvalid:
        valid = _by_row(_convertible(elements, convert), pc.list_parent_indices(lists), len(rows))
        rows.require(valid, field, what)
        raise


def _convertible(elements: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Which of the texts convert, one by one: slow, for the message of an error."""

    def converts(element: pa.Array) -> bool:
        try:
            convert(element)
        except pa.ArrowInvalid:
            return False
        return True

    return pa.array([converts(elements.slice(i, 1)) for i in range(len(elements))], pa.bool_())


def _by_row(valid: pa.Array, parents: pa.Array, rows: int) -> pa.Array:
    """Which rows have valid elements only."""
    wrong = np.asarray(parents)[~np.asarray(pc.fill_null(valid, False))]
    by_row = np.ones(rows, bool)
    by_row[wrong] = False
    return pa.array(by_row)


def _to_numpy(numbers: pa.Array) -> NDArray[np.float64]:
    """float64 with NaN for NULL."""
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)
