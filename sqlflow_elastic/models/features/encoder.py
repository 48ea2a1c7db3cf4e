"""Rows of a SELECT → the arrays a network is trained on, by the very layers that the exported model has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from numpy.typing import NDArray

from sqlflow_elastic.errors import DataError
from sqlflow_elastic.models.features.columns import ClassLabel, Field, Label, NumberLabel
from sqlflow_elastic.models.features.learners import check_classes, class_kind, label_numbers
from sqlflow_elastic.models.features.preprocessing import LIMIT, Piece, Preprocessing, arrays_of
from sqlflow_elastic.models.features.raw import INTEGER_NULL, TEXT_NULL, Rows
from sqlflow_elastic.models.features.resolve import Inputs, resolve
from sqlflow_elastic.models.features.statistics import Learners, Statistics

BATCH_ROWS = 65_536

Arrays = dict[str, NDArray[Any]]


class Encoder:
    """Encodes rows, as learned from the training data.

    Args:
        columns: the columns of each of the network's inputs, as the program states them.
        fields: the raw fields that columns and label are made of.
        statistics: what was learned from the training data.
        label: what the model says; None if there is none.
    """

    def __init__(
        self, columns: Inputs, fields: Sequence[Field], statistics: Statistics, label: Label | None = None
    ) -> None:
        self.fields = tuple(fields)
        self.statistics = statistics
        self.label = label
        kinds = {field.name: field.kind for field in fields}
        self.columns = {name: [resolve(column, kinds) for column in group] for name, group in columns.items()}
        every = list(dict.fromkeys(column for group in self.columns.values() for column in group))
        preprocessing = Preprocessing(every, fields, statistics)
        self.layout = preprocessing.layout
        self.model: keras.Model = preprocessing.model()
        self._dtypes = preprocessing.dtypes
        self._by_name = {field.name: field for field in fields}
        self._checks = Learners(every, fields)
        places = places_of(preprocessing.pieces)
        self._texts = [(p, at) for p, at in zip(preprocessing.pieces, places, strict=True) if self._of_one_text(p)]
        rest = [(p, at) for p, at in zip(preprocessing.pieces, places, strict=True) if not self._of_one_text(p)]
        self._rest_places = {
            name: np.concatenate([np.arange(at.start, at.stop) for p, at in rest if p.array == name])
            for name in self.layout.arrays
            if any(p.array == name for p, _ in rest)
        }
        self._run_texts = _Run(preprocessing, [p for p, _ in self._texts], side_by_side=False)
        self._run_rest = _Run(preprocessing, [p for p, _ in rest], side_by_side=True)

    def encode(self, batch: pa.RecordBatch, first_row: int = 0) -> Arrays:
        """The rows' encoded arrays, [rows, width]: ``numbers`` float32, ``ids`` int32, ``weights`` float32, if there.

        Columns are found by name; others than the features may be there. ``first_row`` is the number of the batch's
        first row, for messages.

        Raises: DataError: a feature is missing or of another kind, or a value is wrong.
        """
        arrays = {n: np.empty((batch.num_rows, w), dtype) for n, (w, dtype) in self.layout.arrays.items()}
        for start in range(0, batch.num_rows, BATCH_ROWS):
            part = batch.slice(start, BATCH_ROWS)
            rows = Rows(part, first_row + start)
            self._encode(rows, {name: array[start : start + BATCH_ROWS] for name, array in arrays.items()})
        return arrays

    def encode_label(self, batch: pa.RecordBatch, first_row: int = 0) -> NDArray[Any]:
        """The rows' labels: int32 [rows] class indices, or float32 [rows] (or [rows, k] if the label's shape is k > 1).

        Raises: DataError: a label is NULL, none of the classes, or no number.
        """
        rows = Rows(batch, first_row)
        if isinstance(self.label, ClassLabel):
            field = self._by_name[self.label.field]
            field = Field(field.name, class_kind(self.label, field.kind))
            values = rows.values(field)
            classes = self.statistics.classes
            check_classes(rows, values, field, classes)
            indices = pc.index_in(values, value_set=pa.array(classes).cast(values.type))
            return np.asarray(indices.to_numpy(zero_copy_only=False), np.int32)
        if isinstance(self.label, NumberLabel):
            numbers = label_numbers(rows, self.label, self._by_name[self.label.field]).astype(np.float32)
            return numbers[:, 0] if self.label.shape == 1 else numbers
        raise ValueError("this model has no label")

    def decode_label(self, indices: NDArray[np.integer[Any]]) -> pa.Array:
        """Class indices → the classes as the data has them: int64, string or boolean."""
        return pa.array(self.statistics.classes).take(pa.array(indices))

    def raw_tensors(self, batch: pa.RecordBatch) -> dict[str, tf.Tensor]:
        """The rows as the raw inputs of `model`, each [rows]. Raises: DataError: a feature is missing or wrong."""
        rows = Rows(batch)
        texts = {name: _Distinct(self._raw(rows, name)) for name, dtype in self._dtypes.items() if dtype == "string"}
        return {name: self._tensor(rows, name, texts) for name in self._dtypes}

    def _of_one_text(self, piece: Piece) -> bool:
        return len(set(piece.fields)) == 1 and self._dtypes[piece.fields[0]] == "string"

    def _encode(self, rows: Rows, arrays: Arrays) -> None:
        for check in self._checks.ids:
            check.add(rows)
        texts = {name: _Distinct(self._raw(rows, name)) for name, dtype in self._dtypes.items() if dtype == "string"}
        for name, text in texts.items():
            self._check_text(rows, name, text)
        blocks = self._run_rest({name: self._tensor(rows, name, texts) for name in self._run_rest.fields})
        for name, places in self._rest_places.items():
            _fill(arrays[name], places, blocks[name].numpy())
        blocks = self._run_texts({name: texts[name].tensor for name in self._run_texts.fields})
        for i, (piece, at) in enumerate(self._texts):
            arrays[piece.array][:, at] = blocks[str(i)].numpy()[texts[piece.fields[0]].codes]
        numbers = arrays.get("numbers")
        if numbers is not None and max(numbers.max(), -numbers.min()) >= LIMIT:  # by an infinite number, most likely
            self._checks.numbers.check(rows, list(self._dtypes))

    def _check_text(self, rows: Rows, name: str, text: _Distinct) -> None:
        """Refuse wrong texts, looking at each distinct one only, and at the rows to find where a wrong one is."""
        try:
            self._checks.check_text(Rows(pa.record_batch({name: text.values})), name)
        except DataError:
            self._checks.check_text(rows, name)
            raise

    def _raw(self, rows: Rows, name: str) -> pa.Array:
        field = self._by_name[name]
        return rows.values(Field(name, "float") if self._dtypes[name] == "float64" else field)

    def _tensor(self, rows: Rows, name: str, texts: dict[str, _Distinct]) -> tf.Tensor:
        if name in texts:
            return tf.gather(texts[name].tensor, texts[name].codes)
        raw = self._raw(rows, name)
        if self._dtypes[name] == "int64":
            raw = pc.fill_null(raw, INTEGER_NULL)
        return tf.convert_to_tensor(raw.to_numpy(zero_copy_only=False), self._dtypes[name])


class _Run:
    """Some pieces of the model as one function, traced once: raw tensors of ``fields`` → arrays, or piece by piece."""

    def __init__(self, preprocessing: Preprocessing, pieces: Sequence[Piece], side_by_side: bool) -> None:
        self.fields = tuple(dict.fromkeys(name for piece in pieces for name in piece.fields))
        self._function = None
        if pieces:
            outputs = arrays_of(pieces) if side_by_side else {str(i): p.tensor for i, p in enumerate(pieces)}
            model = keras.Model({name: preprocessing.inputs[name] for name in self.fields}, outputs)
            signature = {name: tf.TensorSpec([None], preprocessing.dtypes[name]) for name in self.fields}
            self._function = tf.function(lambda raw: model(raw), input_signature=[signature], autograph=False)

    def __call__(self, raw: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return self._function(raw) if self._function else {}


class _Distinct:
    """The distinct values of a text column, and which one each row has: ``values[codes]``."""

    def __init__(self, column: pa.Array) -> None:
        encoded = pc.fill_null(column, TEXT_NULL).dictionary_encode()
        self.values = encoded.dictionary
        self.codes: NDArray[np.int32] = encoded.indices.to_numpy()

    @property
    def tensor(self) -> tf.Tensor:
        """The distinct values, string [distinct]."""
        return tf.constant(self.values.to_numpy(zero_copy_only=False), tf.string)


def places_of(pieces: Sequence[Piece]) -> list[slice]:
    """Where each piece lies in its array."""
    ends: dict[str, int] = {}
    places = []
    for piece in pieces:
        start = ends.get(piece.array, 0)
        ends[piece.array] = start + piece.width
        places.append(slice(start, start + piece.width))
    return places


def _fill(array: NDArray[Any], places: NDArray[np.integer[Any]], block: NDArray[Any]) -> None:
    if len(places) == array.shape[1]:
        array[:] = block
    else:
        array[:, places] = block
