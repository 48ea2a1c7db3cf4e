"""Memory that the members of a world have in common when all of them run on one machine.

One member makes it, as a file without a name, and offers it to the others over their connections; each opens it among
that process's open files. It is gone when the last of them has let it go or is dead: there is nothing to clean up.

Whether members are on one machine shows when they try. Where they are not, or may not see each other's files, the
opening fails, or what is opened does not hold the offer's secret.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import mmap
import os
import secrets
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

_NAME = "sqlflow-elastic"
_SECRET_BYTES = 32
#: What lies before the memory that members use, so that it begins at a cache line.
_HEAD_BYTES = 64


class SharedMemory:
    """See above.

    Args:
        descriptor: of the open file, which is closed with this object.
        size: bytes to use.

    Raises:
        OSError, ValueError: it cannot be mapped.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._size = size
        self._map = mmap.mmap(descriptor, _HEAD_BYTES + size)

    @classmethod
    def make(cls, size: int) -> Self:
        """Of so many bytes. Raises: OSError."""
        descriptor = os.memfd_create(_NAME)
        try:
            os.ftruncate(descriptor, _HEAD_BYTES + size)
            memory = cls(descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
        memory._map[:_SECRET_BYTES] = secrets.token_bytes(_SECRET_BYTES)
        return memory

    def offer(self) -> bytes:
        """What another member needs to `accept` it, as long as the file is open here."""
        secret = self._map[:_SECRET_BYTES].hex()
        return json.dumps({"process": os.getpid(), "file": self._descriptor, "secret": secret}).encode()

    @classmethod
    def accept(cls, offer: bytes, size: int) -> Self:
        """The memory of so many bytes that another member offers.

        Raises:
            OSError, ValueError: it is not on this machine, may not be seen from here, or is too small.
        """
        told = json.loads(offer)
        path = Path(f"/proc/{int(told['process'])}/fd/{int(told['file'])}")
        # Elsewhere the number may be that of any process, and its file one that blocks or does something when opened.
        if not str(path.readlink()).startswith(f"/memfd:{_NAME}"):
            raise ValueError(f"{path} is no shared memory")
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            memory = cls(descriptor, size)
            memory._check(bytes.fromhex(told["secret"]))
        except BaseException:
            os.close(descriptor)
            raise
        return memory

    def _check(self, secret: bytes) -> None:
        if not hmac.compare_digest(self._map[:_SECRET_BYTES], secret):
            raise ValueError("the memory is not the one that was offered")

    def keep(self) -> NDArray[np.uint8]:
        """The bytes ``[size]``, zero at first. They stay, as long as anybody here refers to them, after `close`."""
        return np.frombuffer(self._map, np.uint8, self._size, _HEAD_BYTES)

    def close(self) -> None:
        """Nobody else opens it from here on; what is not kept is let go."""
        os.close(self._descriptor)
        with contextlib.suppress(BufferError):
            self._map.close()
