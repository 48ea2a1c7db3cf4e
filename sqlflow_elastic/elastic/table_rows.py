"""Gradients of tables between members: as the rows that a batch names, or whole.

A whole one is a table's sums over the batch, and behind each row how often the batch names it: rows that it does not
name are not updated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sqlflow_elastic.elastic.replica import Exchange

Numbers = NDArray[Any]


class TableRows:
    """Gathers the members' rows of a model's tables.

    Args:
        shapes: the tables', ``[rows, …]`` each.
        dtype: in which rows travel.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtype: tf.DType) -> None:
        self._shapes = shapes
        self._widths = [int(np.prod(shape[1:])) for shape in shapes]
        self._dtype = np.dtype(dtype.as_numpy_dtype)

    @staticmethod
    def joined(gradients: Sequence[tf.IndexedSlices], dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor]:
        """Graph code: all tables' gradients in two vectors.

        Returns:
            int64: how many rows each table has in it, then all their indices; and all their values.
        """
        counts = tf.stack([tf.size(gradient.indices, out_type=tf.int64) for gradient in gradients])
        indices = [tf.cast(tf.reshape(gradient.indices, [-1]), tf.int64) for gradient in gradients]
        values = [tf.cast(tf.reshape(gradient.values, [-1]), dtype) for gradient in gradients]
        return tf.concat([counts, *indices], 0), tf.concat(values, 0)

    def gathered(self, world: Exchange, indices: Numbers, values: Numbers) -> list[Numbers]:
        """Each table's indices ``[n]`` and rows ``[n, …]`` of all members, in rank order; one table after the other.

        Args:
            world: this member's.
            indices, values: this member's, see `joined`.

        Raises:
            comm.WorldBroken: not all members gave theirs.
        """
        length = np.array([indices.nbytes])
        parts = world.allgather(np.concatenate([array.view(np.uint8) for array in (length, indices, values)]))
        return self._split([self._read(part) for part in parts])

    def _split(self, parts: Sequence[tuple[Numbers, Numbers]]) -> list[Numbers]:
        tables = len(self._shapes)
        indices: list[list[Numbers]] = [[] for _ in range(tables)]
        values: list[list[Numbers]] = [[] for _ in range(tables)]
        for whole, numbers in parts:
            at, value_at = tables, 0
            for table, (count, width) in enumerate(zip(whole[:tables].tolist(), self._widths, strict=True)):
                indices[table].append(whole[at : at + count])
                values[table].append(numbers[value_at : value_at + count * width])
                at, value_at = at + count, value_at + count * width
        together: list[Numbers] = []
        for table, shape in enumerate(self._shapes):
            together += [np.concatenate(indices[table]), np.concatenate(values[table]).reshape(-1, *shape[1:])]
        return together

    def _read(self, part: memoryview) -> tuple[Numbers, Numbers]:
        length = int(np.frombuffer(part, np.int64, 1)[0])
        return np.frombuffer(part[8 : 8 + length], np.int64), np.frombuffer(part[8 + length :], self._dtype)


def is_less_whole(shape: tuple[int, ...], batch_size: int) -> bool:
    """Whether members send less if a table travels whole: in a ring twice, each row of a batch once with its index."""
    rows, width = shape[0], math.prod(shape[1:])
    return 2 * rows * (width + 1) <= batch_size * (width + 2)


def whole_size(shape: tuple[int, ...]) -> int:
    """How many numbers a whole table has."""
    return int(shape[0]) * (math.prod(shape[1:]) + 1)


def whole_table(gradient: tf.IndexedSlices, shape: tuple[int, ...], dtype: tf.DType) -> tf.Tensor:
    """Graph code: a gradient as a whole table, a vector."""
    values = tf.reshape(tf.cast(gradient.values, dtype), [-1, math.prod(shape[1:])])
    counted = tf.concat([values, tf.ones_like(values[:, :1])], 1)
    return tf.reshape(tf.math.unsorted_segment_sum(counted, tf.reshape(gradient.indices, [-1]), shape[0]), [-1])


def touched_rows(whole: tf.Tensor, variable: keras.Variable) -> tf.IndexedSlices:
    """Graph code: the inverse of `whole_table`, of sums of such; each row once."""
    shape = tuple(variable.shape)
    table = tf.reshape(whole, [shape[0], math.prod(shape[1:]) + 1])
    indices = tf.reshape(tf.where(table[:, -1] > 0), [-1])
    values = tf.reshape(tf.gather(table[:, :-1], indices), [-1, *shape[1:]])
    return tf.IndexedSlices(tf.cast(values, variable.dtype), indices, tf.constant(shape))
