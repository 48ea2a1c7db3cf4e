"""TensorBoard's event files, written and read without TensorFlow.

A file is a row of records: length (8 bytes, little-endian), its checksum, data, the data's checksum; the checksums are
CRC-32C, masked. The data is a protobuf message ``tensorflow.Event``, of which only what scalars need is here.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_VERSION: Final = b"brain.Event:2"


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_TABLE: Final = _table()


class EventFile:
    """A new file in a folder, which one process appends to. Records reach it by `flush`, whole ones only.

    Args:
        folder: made if it is not there.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # Read by name: the files of one folder have to be in the order of their times.
        stem = f"events.out.tfevents.{time.time_ns() // 1000:020d}.{socket.gethostname()}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(folder / stem, flags, 0o666)
        self._head = _record(_double(1, time.time()) + _bytes(3, _VERSION))
        self._waiting = bytearray()
        #: Bytes written.
        self.size = 0

    def scalars(self, at: float, step: int, values: Mapping[str, float]) -> int:
        """Append scalars by tag, of a step, at a unix time in seconds. Returns how many bytes wait for `flush`."""
        summary = b"".join(_bytes(1, _bytes(1, tag.encode()) + _float(2, value)) for tag, value in values.items())
        self._waiting += _record(_double(1, at) + _integer(2, step) + _bytes(5, summary))
        return len(self._waiting)

    def flush(self) -> None:
        """Hand the records to the operating system.

        Raises:
            OSError: that did not go; the file is as it was, and the records are lost.
        """
        data = bytes(self._waiting) if self.size else self._head + self._waiting
        self._waiting.clear()
        written = os.write(self._descriptor, data)
        if written < len(data):
            os.ftruncate(self._descriptor, self.size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.size += written

    def close(self) -> None:
        """Close without `flush`."""
        os.close(self._descriptor)


def last_step(folder: Path) -> int:
    """The highest step in the files of a folder that this module wrote; -1 if there is none. Reads all of them.

    Raises:
        OSError: they cannot be read.
    """
    last = -1
    for path in folder.glob("events.out.tfevents.*"):
        data = path.read_bytes()
        place = 0
        while place + 12 <= len(data):
            (length,) = struct.unpack_from("<Q", data, place)
            end = place + 12 + length
            # The time is a field of 9 bytes, then comes the step's key.
            if end + 4 <= len(data) and length > 10 and data[place + 21] == 2 << 3:
                last = max(last, _varint_at(data, place + 22))
            place = end + 4
    return last


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


def _checksum(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _varint_at(data: bytes, place: int) -> int:
    value = 0
    for shift, byte in enumerate(data[place : place + 10]):
        value |= (byte & 0x7F) << 7 * shift
        if byte <= 0x7F:
            break
    return value


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    try:
        return _varint(field << 3 | 5) + struct.pack("<f", value)
    except OverflowError:
        return _float(field, float("inf") if value > 0 else float("-inf"))


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value
