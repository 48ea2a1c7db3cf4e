"""What a network sees of the encoded arrays: numbers as they are, indicators, embeddings."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from sqlflow_elastic.models.features.columns import (
    Category,
    Column,
    Dense,
    Embedding,
    Indicator,
    SeqCategoryId,
    TimeParts,
)
from sqlflow_elastic.models.features.embedding import SMALL, AddBias, EmbeddingBag, MultiHot, NumberVectors
from sqlflow_elastic.models.features.encoder import Encoder


class FeatureInputs:
    """The inputs of a network over encoded rows; `model` closes it.

    Args:
        encoder: gives the columns of each input and the layout of the arrays.
        seed: of the vectors that embeddings begin with.
        served: whether the table of an `EmbeddingBag` is elsewhere, by the layer's name, its rows and their size.
    """

    def __init__(
        self, encoder: Encoder, seed: int = 0, served: Callable[[str, int, int], bool] = lambda name, rows, size: False
    ) -> None:
        self._seed = seed
        self._served = served
        self._tables = 0
        self._columns = encoder.columns
        self._layout = encoder.layout
        self._arrays = {
            name: keras.Input((width,), dtype=dtype, name=name)
            for name, (width, dtype) in encoder.layout.arrays.items()
        }
        self._names: dict[str, int] = {}

    def dense(self, name: str = "feature_columns") -> Any:
        """All the columns of one input side by side, float32 [rows, width].

        The numbers stand first, in the order in which they are encoded.
        """
        tensors = self._numbers(name)
        tensors += [self._combined(c) for c in self._columns[name] if isinstance(c, Indicator | Embedding)]
        return _beside(tensors)

    def columns(self, name: str = "feature_columns") -> dict[str, Any]:
        """Each column of one input by itself, float32 [rows, width], by the names of its fields: ``age``, ``a_x_b``.

        An `Embedding` of a `SeqCategoryId` is [rows, length, size], one step for each id, with a Keras mask. A second
        column over the same fields gets ``_2`` behind its name.
        """
        named: dict[str, Any] = {}
        for column in self._columns[name]:
            base = name_of(column)
            key, count = base, 1
            while key in named:
                count += 1
                key = f"{base}_{count}"
            if isinstance(column, Dense | TimeParts):
                named[key] = _take(self._arrays["numbers"], self._layout.numbers[column].all)
            elif isinstance(column, Embedding) and isinstance(column.category, SeqCategoryId):
                named[key] = self._looked_up(column.category, column.size, None, column.initializer)
            else:
                named[key] = self._combined(column)
        return named

    def embedded(self, size: int, name: str = "feature_columns") -> Any:
        """Numbers and vectors of one input side by side, float32 [rows, width].

        The ids of an `Indicator` have vectors of ``size`` numbers; those of an `Embedding` have its own size.
        """
        return _beside(self._numbers(name) + self._vectors(size, name))

    def vectors(self, size: int, name: str = "feature_columns") -> Any:
        """A vector for each category and for each number of one input, float32 [rows, vectors, size].

        A category's are looked up by its ids and combined; a number's is the number times a vector that is learned.
        They begin small, but for those of an `Embedding` that says how.
        """
        vectors = [keras.layers.Reshape((1, size))(vector) for vector in self._vectors(size, name, SMALL)]
        numbers = self._numbers(name)
        if numbers:
            vectors.append(NumberVectors(size, name=self._unique("vectors_numbers"))(numbers[0]))
        return _beside(vectors)

    def linear(self, name: str = "feature_columns", units: int = 1, *, by_id: bool = False) -> Any:
        """A linear model of one input, float32 [rows, units]: weights times columns, and a bias; all start at zero.

        An `Indicator` is never written out: the weights of the ids that are there are looked up and added. So are
        those of an `Embedding`'s ids if ``by_id``; else its vector's numbers have weights.
        """
        columns = self._columns[name]
        terms = [
            self._looked_up(column.category, units, "sum", "zeros", "weights")
            for column in columns
            if isinstance(column, Indicator) or (by_id and isinstance(column, Embedding))
        ]
        numbers = self._numbers(name)
        if not by_id:
            numbers += [self._combined(column) for column in columns if isinstance(column, Embedding)]
        if numbers:
            weigh = keras.layers.Dense(
                units, use_bias=False, kernel_initializer="zeros", name=self._unique("weights_numbers")
            )
            terms.append(weigh(_beside(numbers)))
        return AddBias(name=self._unique("bias"))(ops.sum(ops.stack(terms), axis=0) if len(terms) > 1 else terms[0])

    def model(self, outputs: Any) -> keras.Model:
        """The network from encoded arrays (a dictionary by name) to these outputs."""
        return keras.Model(self._arrays, outputs)

    def _numbers(self, name: str) -> list[Any]:
        """The numbers of one input as at most one tensor, taken out of the array in one piece."""
        places = {place for c in self._columns[name] for place in _number_places(self._layout.numbers, c)}
        return [_take(self._arrays["numbers"], sorted(places))] if places else []

    def _vectors(self, size: int, name: str, initializer: str | None = None) -> list[Any]:
        """The vectors of the categories of one input, each [rows, size] (an `Embedding`'s own size and initializer)."""
        vectors = []
        for column in self._columns[name]:
            if isinstance(column, Embedding):
                combiner = column.combiner or "sum"
                vectors.append(
                    self._looked_up(column.category, column.size, combiner, column.initializer or initializer)
                )
            elif isinstance(column, Indicator):
                vectors.append(self._looked_up(column.category, size, "sum", initializer))
        return vectors

    def _combined(self, column: Column) -> Any:
        """An indicator or an embedding, [rows, width]."""
        if isinstance(column, Embedding):
            return self._looked_up(column.category, column.size, column.combiner, column.initializer)
        if isinstance(column, Indicator) and isinstance(column.category, Column):
            name = self._unique(f"indicator_{name_of(column.category)}")
            hot = MultiHot(self._layout.categories[column.category].rows, name=name)
            return hot(*self._ids(column.category))
        raise TypeError(f"{column!r} is no column of a network")

    def _looked_up(
        self, category: Any, size: int, combiner: str | None, initializer: str | None, kind: str = "embedding"
    ) -> Any:
        places = self._layout.categories[category]
        name = self._unique(f"{kind}_{name_of(category)}")
        bag = EmbeddingBag(
            places.rows,
            size,
            combiner,
            initializer,
            columns=places.ids,
            stream=self._tables,
            seed=self._seed,
            served=self._served(name, places.rows, size),
            name=name,
        )
        self._tables += 1
        return bag(*self._ids(category))

    def _ids(self, category: Category | Column) -> tuple[Any, ...]:
        """A category's ids, and their weights if there are any."""
        places = self._layout.categories[category]
        ids = _take(self._arrays["ids"], places.ids)
        return (ids,) if places.weights is None else (ids, _take(self._arrays["weights"], places.weights))

    def _unique(self, base: str) -> str:
        """A layer's name that no other has."""
        base = ascii_name(base)
        self._names[base] = self._names.get(base, 0) + 1
        return base if self._names[base] == 1 else f"{base}_{self._names[base]}"


def ascii_name(name: str) -> str:
    """A name made of the characters that TensorFlow's graphs allow."""
    if not name.isascii():
        name = name.encode("punycode").decode("ascii")
    return re.sub(r"[^A-Za-z0-9_.]", "_", name)


def name_of(column: Column) -> str:
    """A column's name, made of its fields: ``age``, ``city_x_age``."""
    return "_x_".join(column.fields())


def _number_places(numbers: Any, column: Column) -> tuple[int, ...]:
    return numbers[column].all if isinstance(column, Dense | TimeParts) else ()


def _take(array: Any, places: Sequence[int]) -> Any:
    """Some places of an array [rows, width]: all of it, a slice, or picked one by one."""
    first, last = places[0], places[-1]
    if list(places) != list(range(first, last + 1)):
        return ops.take(array, list(places), axis=1)
    return array if len(places) == array.shape[1] else array[:, first : last + 1]


def _beside(tensors: Sequence[Any]) -> Any:
    return ops.concatenate(list(tensors), axis=1) if len(tensors) > 1 else tensors[0]
