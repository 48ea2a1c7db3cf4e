"""Which server an id belongs to: ids over shards by a hash, shards over servers by rendezvous hashing.

Rendezvous hashing (Thaler and Ravishankar, "A name-based mapping scheme for rendezvous", 1996): every shard goes to the
server whose name, hashed together with the shard, gives the highest number. So a server that comes takes shards from
all others, one that goes leaves its own to all others, and nothing else moves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: How many parts all ids have. Enough that some ten servers get about the same number of them.
SHARDS = 256

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - 8)


def shards_of(ids: NDArray[np.int64]) -> NDArray[np.int32]:
    """The shard of each id: int32 [n], in [0, SHARDS). By Fibonacci hashing, so that no pattern in ids is one in it."""
    mixed = np.asarray(ids, np.int64).astype(np.uint64)
    mixed ^= mixed >> np.uint64(32)
    return ((mixed * _MIX) >> _SHIFT).astype(np.int32)


def owners(names: Sequence[str]) -> NDArray[np.int32]:
    """The server of each shard: int32 [SHARDS], an index into ``names``, which are different. At least one name."""
    keys = np.array([[_weight(name, shard) for name in names] for shard in range(SHARDS)], np.uint64)
    best: NDArray[np.int32] = keys.argmax(axis=1).astype(np.int32)
    return best


def places(count: int) -> list[str]:
    """What to name so many servers by, for `owners`, if a successor is to have just the shards of the one before it."""
    return [str(place) for place in range(count)]


def _weight(name: str, shard: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{shard}/{name}".encode(), digest_size=8).digest(), "big")
