"""Memory that is kept from one operation to the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Scratch:
    """Bytes for one user at a time."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def take(self, count: int) -> NDArray[np.uint8]:
        """So many bytes ``[count]``, which hold anything; the same memory each time, unless it has to grow."""
        if len(self._memory) < count:
            self._memory = np.empty(count, np.uint8)
        return self._memory[:count]
