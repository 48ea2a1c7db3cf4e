"""Preprocessing layers for what Keras has none: NULL, texts that hold lists, parts of times, crossings of lists.

All work row by row on raw values, where NULL is NaN among floats, ``INTEGER_NULL`` among int64 and ``TEXT_NULL`` among
texts. None has weights. An id of -1 is none: it fills a list up, and stands for what training never saw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from sqlflow_elastic.models.features.raw import INTEGER_NULL, TEXT_NULL

PACKAGE = "sqlflow_elastic"
ABSENT = -1

YEAR = 31_556_952.0
DAY = 86_400
TIME_PARTS = 9


class _Preprocessing(keras.layers.Layer):  # type: ignore[misc]
    """A layer without weights whose inputs keep the type they come with."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"autocast": False, "trainable": False, **options})


@keras.saving.register_keras_serializable(PACKAGE)
class ToNumber(_Preprocessing):
    """int64 with ``INTEGER_NULL`` → float64 with NaN."""

    def call(self, inputs: Any) -> Any:
        """Convert, any shape."""
        null = tf.constant(math.nan, tf.float64)
        return tf.where(inputs == INTEGER_NULL, null, tf.cast(inputs, tf.float64))

    def compute_output_spec(self, inputs: Any) -> Any:
        """float64 of the same shape."""
        return keras.KerasTensor(inputs.shape, "float64")


@keras.saving.register_keras_serializable(PACKAGE)
class FillMissing(_Preprocessing):
    """NaN → a value of its own for each of the k places: float64 [rows, k] → float64 [rows, k]."""

    def __init__(self, values: Sequence[float], **options: Any) -> None:
        super().__init__(**options)
        self.values = list(values)

    def call(self, inputs: Any) -> Any:
        """Fill."""
        return tf.where(tf.math.is_nan(inputs), tf.constant(self.values, inputs.dtype), inputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        """As the input."""
        return keras.KerasTensor(inputs.shape, inputs.dtype)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return _config(self, values=self.values)


@keras.saving.register_keras_serializable(PACKAGE)
class SplitNumbers(_Preprocessing):
    """Texts of ``shape`` numbers → float64 [rows, shape]; NULL, blank texts and empty places are NaN."""

    def __init__(self, shape: int, delimiter: str | None, **options: Any) -> None:
        super().__init__(**options)
        self.shape = shape
        self.delimiter = delimiter

    def call(self, inputs: Any) -> Any:
        """Split and convert, string [rows] → float64 [rows, shape]."""
        if self.delimiter is None:
            return _to_numbers(inputs)[:, None]
        parts = tf.strings.split(_strip(inputs), self.delimiter)
        return _to_numbers(parts.to_tensor(default_value="", shape=(None, self.shape)))

    def compute_output_spec(self, inputs: Any) -> Any:
        """float64 [rows, shape]."""
        return keras.KerasTensor((inputs.shape[0], self.shape), "float64")

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return _config(self, shape=self.shape, delimiter=self.delimiter)


@keras.saving.register_keras_serializable(PACKAGE)
class SplitList(_Preprocessing):
    """Texts of elements → the elements, string [rows, length], filled up with ``TEXT_NULL``, and their weights.

    Blank elements are left out; of more than ``length`` the first are kept.

    Args:
        length: how many elements a row has at most.
        delimiter: between elements.
        kv_delimiter: between an element and its weight, or None: then weights are 1.
    """

    def __init__(self, length: int, delimiter: str, kv_delimiter: str | None, **options: Any) -> None:
        super().__init__(**options)
        self.length = length
        self.delimiter = delimiter
        self.kv_delimiter = kv_delimiter

    def call(self, inputs: Any) -> Any:
        """Split, string [rows] → string [rows, length], float32 [rows, length]."""
        text = tf.where(inputs == TEXT_NULL, "", inputs)
        parts = tf.strings.split(text, self.delimiter)
        parts = parts.with_values(_strip(parts.values))
        parts = tf.ragged.boolean_mask(parts, parts != "")
        weights = tf.ones_like(parts, tf.float32)
        if self.kv_delimiter is not None:
            separator = rf"\Q{self.kv_delimiter}\E"
            values = tf.strings.regex_replace(parts.values, f"(?s)^.*?{separator}", "")
            weights = parts.with_values(tf.cast(_to_numbers(values), tf.float32))
            keys = tf.strings.regex_replace(parts.values, f"(?s){separator}.*$", "")
            parts = parts.with_values(_strip(keys))
        shape = (None, self.length)
        return parts.to_tensor(TEXT_NULL, shape=shape), weights.to_tensor(0.0, shape=shape)

    def compute_output_spec(self, inputs: Any) -> Any:
        """string and float32, both [rows, length]."""
        shape = (inputs.shape[0], self.length)
        return keras.KerasTensor(shape, "string"), keras.KerasTensor(shape, "float32")

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return _config(self, length=self.length, delimiter=self.delimiter, kv_delimiter=self.kv_delimiter)


@keras.saving.register_keras_serializable(PACKAGE)
class ToId(_Preprocessing):
    """Raw ids, int64 or text → ids in [0, n), int64 of the same shape; others are absent.

    Args:
        n: ids are below.
        null: the id of NULL.
    """

    def __init__(self, n: int, null: int = ABSENT, **options: Any) -> None:
        super().__init__(**options)
        self.n = n
        self.null = null

    def call(self, inputs: Any) -> Any:
        """Convert, any shape."""
        if inputs.dtype == tf.string:
            numbers = tf.where(inputs == TEXT_NULL, str(INTEGER_NULL), inputs)
            inputs = tf.strings.to_number(numbers, tf.int64)
        inputs = tf.cast(inputs, tf.int64)
        known = tf.where((inputs >= 0) & (inputs < self.n), inputs, ABSENT)
        return tf.where(inputs == INTEGER_NULL, tf.constant(self.null, tf.int64), known)

    def compute_output_spec(self, inputs: Any) -> Any:
        """int64 of the same shape."""
        return keras.KerasTensor(inputs.shape, "int64")

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return _config(self, n=self.n, null=self.null)


@keras.saving.register_keras_serializable(PACKAGE)
class NullId(_Preprocessing):
    """The ids, but that of NULL where the raw value is NULL: (raw of any type, int64) → int64, all of one shape."""

    def __init__(self, null: int = ABSENT, **options: Any) -> None:
        super().__init__(**options)
        self.null = null

    def call(self, raw: Any, ids: Any) -> Any:
        """Choose."""
        return tf.where(_is_null(raw), tf.constant(self.null, tf.int64), tf.cast(ids, tf.int64))

    def compute_output_spec(self, raw: Any, ids: Any) -> Any:
        """int64 of the same shape."""
        return keras.KerasTensor(ids.shape, "int64")

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return _config(self, null=self.null)


@keras.saving.register_keras_serializable(PACKAGE)
class CrossLists(_Preprocessing):
    """All combinations of one element of each list, hashed: each [rows, k_i] → int64 [rows, k_1 · k_2 · …].

    Absent elements (an id of -1, ``TEXT_NULL`` in a list of more than one place) take part in none.

    Args:
        n: ids are below.
    """

    def __init__(self, n: int, **options: Any) -> None:
        super().__init__(**options)
        self.n = n

    def call(self, inputs: Sequence[Any]) -> Any:
        """Combine."""
        lists = [
            tf.ragged.boolean_mask(values, tf.ones_like(values, tf.bool) if values.shape[1] == 1 else _present(values))
            for values in inputs
        ]
        crossed = tf.ragged.cross_hashed(lists, self.n)
        return crossed.to_tensor(ABSENT, shape=(None, math.prod(values.shape[1] for values in inputs)))

    def compute_output_spec(self, inputs: Sequence[Any]) -> Any:
        """int64 [rows, product of the widths]."""
        width = math.prod(values.shape[1] for values in inputs)
        return keras.KerasTensor((inputs[0].shape[0], width), "int64")

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return _config(self, n=self.n)


@keras.saving.register_keras_serializable(PACKAGE)
class SplitTime(_Preprocessing):
    """Seconds since 1970 → years since 1970 (with fraction), and month, day, weekday and hour as sine and cosine.

    int64 [rows] → float64 [rows, 9]; NULL is NaN. The calendar is the proleptic Gregorian one, by the algorithm of
    Howard Hinnant, "chrono-compatible low-level date algorithms".
    """

    def call(self, inputs: Any) -> Any:
        """Take apart."""
        days = inputs // DAY
        month, day = _civil(days)
        hour = tf.cast(inputs % DAY, tf.float64) / 3600
        cycles = [(month, 12.0), (day, 31.0), (tf.cast((days + 3) % 7, tf.float64), 7.0), (hour, 24.0)]
        parts = [tf.cast(inputs, tf.float64) / YEAR]
        for value, period in cycles:
            angle = value * (2 * math.pi / period)
            parts += [tf.sin(angle), tf.cos(angle)]
        null = tf.constant(math.nan, tf.float64)
        return tf.where((inputs == INTEGER_NULL)[:, None], null, tf.stack(parts, axis=1))

    def compute_output_spec(self, inputs: Any) -> Any:
        """float64 [rows, 9]."""
        return keras.KerasTensor((inputs.shape[0], TIME_PARTS), "float64")


def _civil(days: Any) -> tuple[Any, Any]:
    """Month and day of the month, counted from 0, float64, of days since 1970."""
    days = days + 719_468
    day_of_era = days % 146_097
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5
    return tf.cast((shifted_month + 2) % 12, tf.float64), tf.cast(day, tf.float64)


def _strip(text: Any) -> Any:
    return tf.strings.strip(text)


def _to_numbers(text: Any) -> Any:
    """float64 of the same shape; NaN for NULL and blank texts."""
    text = _strip(text)
    return tf.strings.to_number(tf.where((text == "") | (text == TEXT_NULL), "nan", text), tf.float64)


def _is_null(values: Any) -> Any:
    if values.dtype == tf.string:
        return values == TEXT_NULL
    return tf.math.is_nan(values) if values.dtype.is_floating else values == INTEGER_NULL


def _present(values: Any) -> Any:
    return values != TEXT_NULL if values.dtype == tf.string else values != ABSENT


def _config(layer: keras.layers.Layer, **arguments: Any) -> dict[str, Any]:
    return {"name": layer.name, **arguments}
