"""Texts that hold lists, ``"0.2,1.7"``, ``"3,5,7"``, ``"0:0.2,1:0.3"``, split and checked with Arrow's functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sqlflow_elastic.models.features.columns import Dense, Field, Sparse
from sqlflow_elastic.models.features.raw import (
    Converter,
    Rows,
    blank_is_null,
    convertible,
    text_to_integer,
    text_to_number,
)


@dataclass(frozen=True)
class Elements:
    """Elements of the lists of a field's texts: what they are, and the row in the batch that each is in."""

    rows: Rows
    field: Field
    values: pa.Array
    parents: pa.Array

    def convert(self, convert: Converter, expected: str) -> pa.Array:
        """The elements converted. Raises: DataError: one does not convert."""
        try:
            return convert(self.values)
        except pa.ArrowInvalid:
            self.require(convertible(self.values, convert), expected)
            raise

    def require(self, valid: pa.Array, expected: str) -> None:
        """Raise the `DataError` of the first row with an element that is not valid (a boolean for each element)."""
        wrong = ~np.asarray(pc.fill_null(valid, False))
        if wrong.any():
            by_row = np.ones(len(self.rows), bool)
            by_row[np.asarray(self.parents)[wrong]] = False
            self.rows.require(pa.array(by_row), self.field, expected)


def number_column(rows: Rows, column: Dense, field: Field) -> NDArray[np.float64]:
    """A `Dense` column's numbers, float64 [rows, shape], NaN where missing. Raises: DataError."""
    if field.kind == "text":
        return dense_numbers(rows, field, column.shape, column.delimiter)
    return _to_numpy(rows.values(Field(field.name, "float")))[:, None]


def dense_numbers(rows: Rows, field: Field, shape: int, delimiter: str | None) -> NDArray[np.float64]:
    """The numbers of a text field, float64 [rows, shape], NaN where missing: an empty place, or a NULL or blank text.

    Raises: DataError: something is not a number, or a text does not hold ``shape`` of them.
    """
    text = blank_is_null(rows.values(field))
    if shape == 1 and delimiter is None:
        single = Elements(rows, field, text, pa.array(np.arange(len(rows))))
        return _to_numpy(single.convert(text_to_number, "a number"))[:, None]
    expected = f"{shape} numbers separated by '{delimiter or ','}'"
    lists = pc.split_pattern(text, delimiter or ",")
    rows.require(pc.equal(pc.fill_null(pc.list_value_length(lists), shape), shape), field, expected)
    elements = Elements(rows, field, lists.flatten(), pc.list_parent_indices(lists))
    matrix = np.full((len(rows), shape), np.nan)
    matrix[np.asarray(lists.is_valid())] = _to_numpy(elements.convert(text_to_number, expected)).reshape(-1, shape)
    return matrix


def id_elements(rows: Rows, column: Sparse, field: Field) -> Elements:
    """The elements of a `Sparse`, without their weights; NULL, blank texts and blank elements give none.

    Raises: DataError: an element is no pair of key and number though pairs are asked for.
    """
    lists = pc.split_pattern(rows.values(field), column.delimiter)
    values = blank_is_null(lists.flatten())
    kept = values.is_valid()
    elements = Elements(rows, field, values.filter(kept), pc.list_parent_indices(lists).filter(kept))
    if column.kv_delimiter is None or not len(elements.values):
        return elements
    expected = f"pairs of an id and a number like '3{column.kv_delimiter}0.5'"
    pairs = pc.split_pattern(elements.values, column.kv_delimiter, max_splits=1)
    elements.require(pc.equal(pc.list_value_length(pairs), 2), expected)
    keys, weights = (Elements(rows, field, pc.list_element(pairs, i), elements.parents) for i in (0, 1))
    weights.require(weights.convert(text_to_number, expected).is_valid(), expected)
    return keys


def check_ids(elements: Elements, n: int) -> None:
    """Raise the `DataError` of the first row that has an element which is not an id in [0, n)."""
    expected = f"ids from 0 to {n - 1}"
    ids = elements.convert(text_to_integer, expected)
    elements.require(pc.and_(pc.greater_equal(ids, 0), pc.less(ids, n)), expected)


def _to_numpy(numbers: pa.Array) -> NDArray[np.float64]:
    """float64 with NaN for NULL."""
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)
