"""The order of samples: a function of (rows, seed, epoch) and of nothing else.

Epoch e's order is a permutation of the rows by a counter-based generator (Philox) keyed with (seed, e). Up to `WINDOW`
rows it is a uniform permutation. Beyond that the rows are cut into blocks of `BLOCK`; the blocks are shuffled, as many
blocks as fill a window are taken together, and their rows are shuffled: so a step reads from one window of a memory
map, whatever the table's size, and any piece of the order costs memory for one window.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Rows that are shuffled with each other, at least.
WINDOW = 4_194_304

#: Consecutive rows that stay within one window.
BLOCK = 4_096

Rows = NDArray[np.int64]


class SampleOrder:
    """Which sample comes when, for all epochs. Keeps the last window in memory: at most 32 MB."""

    def __init__(self, rows: int, seed: int, *, window: int = WINDOW, block: int = BLOCK) -> None:
        if window % block:
            raise ValueError("a window is a whole number of blocks")
        self.rows = rows
        self._seed = seed
        self._window = window
        self._block = block
        self._cached: tuple[int, int] | None = None
        self._cache: Rows = np.empty(0, np.int64)
        self._blocks: tuple[int, Rows] | None = None

    def take(self, epoch: int, start: int, stop: int) -> Rows:
        """The rows at positions ``[start, stop)`` of an epoch's order, int64; positions past the end do not exist."""
        stop = min(stop, self.rows)
        if self.rows <= self._window:
            return self._shuffled(epoch, 0)[start:stop]
        pieces = []
        for window in range(start // self._window, -(-stop // self._window)):
            first = window * self._window
            pieces.append(self._shuffled(epoch, window)[max(0, start - first) : stop - first])
        return np.concatenate(pieces) if pieces else np.empty(0, np.int64)

    def _shuffled(self, epoch: int, window: int) -> Rows:
        if self._cached != (epoch, window):
            rows = self._members(epoch, window)
            self._generator(epoch, window).shuffle(rows)
            self._cache, self._cached = rows, (epoch, window)
        return self._cache

    def _members(self, epoch: int, window: int) -> Rows:
        """The rows of a window, block after block: positions in the concatenation of the shuffled blocks."""
        if self.rows <= self._window:
            return np.arange(self.rows, dtype=np.int64)
        order = self._block_order(epoch)
        short = self.rows % self._block
        # The table's last block may be short. It goes last, so that every window but the last is full.
        per_window = self._window // self._block
        blocks = order[window * per_window : (window + 1) * per_window]
        rows = (blocks[:, None] * self._block + np.arange(self._block, dtype=np.int64)).reshape(-1)
        if short and (window + 1) * self._window >= self.rows:
            tail = np.arange(self.rows - short, self.rows, dtype=np.int64)
            rows = np.concatenate([rows, tail])
        return rows

    def _block_order(self, epoch: int) -> Rows:
        """The order of the full blocks."""
        if self._blocks is None or self._blocks[0] != epoch:
            order = self._generator(epoch, -1).permutation(self.rows // self._block).astype(np.int64)
            self._blocks = (epoch, order)
        return self._blocks[1]

    def _generator(self, epoch: int, window: int) -> np.random.Generator:
        # Philox4x64: a key of two words, (seed, epoch), and a counter of four, whose last word names the stream.
        key = np.array([self._seed % 2**64, epoch], dtype=np.uint64)
        counter = np.array([0, 0, 0, window + 1], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))


def steps_per_epoch(rows: int, batch_size: int) -> int:
    """Batches of an epoch, the short last one included."""
    return -(-rows // batch_size)


def batch_indices(rows: int, seed: int, epoch: int, first_step: int, steps: int, batch_size: int) -> Rows:
    """The rows of ``steps`` batches of an epoch from its ``first_step``-th (from 0) on, one after the other, int64.

    All batches have ``batch_size`` rows but the epoch's last, which may have fewer.
    """
    return SampleOrder(rows, seed).take(epoch, first_step * batch_size, (first_step + steps) * batch_size)
