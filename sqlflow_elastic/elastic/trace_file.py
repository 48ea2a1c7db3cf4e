"""A file of spans and counters that Perfetto and chrome://tracing open, also while it grows.

It is in the array form of the Trace Event Format: ``[``, then one event a line, each with a comma behind it. The format
allows the closing bracket to be missing, so the file can be read at any time, and the next master goes on writing where
a killed one stopped. Only whole lines are written; what is torn all the same (the machine went down) is cut off by the
next one that opens the file.

Times are unix times in seconds. Any thread may call. Nothing here raises, and nothing is synced to disk: a trace is
never worth a job.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

Argument: TypeAlias = str | int | float | bool

_FLUSH_SECONDS = 1.0
_BUFFER_BYTES = 1 << 20
_NAME_CHARACTERS = 200
#: What is left for world changes and counters when spans and instants no longer fit.
_RESERVED = 0.25
#: A counter's points are no closer than 0.25 s, and than this part of the time the file is open.
_COUNTER_SECONDS = 0.25
_COUNTER_PART = 1 / 500
_WHOLE = "job"
_NAMES = b'{"ph":"M"'


class TraceFile:
    """The file, open for appending by one process at a time.

    A process is a group of tracks, whatever it is named after. A track's spans must not overlap but may lie within one
    another.

    Args:
        path: the file; made if it is not there.
        warn: takes one sentence, once, when the file cannot be read or written. What could not be written is lost;
            later events are tried again.
        limit: bytes the file may have. The last quarter is for `enter`, `leave`, spans that are ``lasting`` and
            counters.
    """

    def __init__(self, path: Path, warn: Callable[[str], None], limit: int = 64 << 20) -> None:
        self._path = path
        self._warn = warn
        self._warned = False
        self._limit = limit
        self._numbers: dict[tuple[str, str], int] = {}  # (process, track) → tid; (process, "") → pid
        self._doing: dict[tuple[str, str], tuple[str, float]] = {}
        self._counted: dict[str, float] = {}
        self._levels: dict[str, float] = {}
        self._lock = threading.RLock()
        self._lines: list[bytes] = []
        self._buffered = 0
        self._opened = self._flushed = time.monotonic()
        self._descriptor = -1
        self._size = 0
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._go_on()
        except OSError as error:
            self._tell(error)

    def span(
        self,
        process: str,
        track: str,
        name: str,
        begin: float,
        seconds: float,
        lasting: bool = False,
        /,
        **args: Argument,
    ) -> None:
        """Something that took ``seconds`` from ``begin`` on."""
        times = {"ts": _microseconds(begin), "dur": max(0, _microseconds(seconds))}
        with self._lock:
            self._write({"ph": "X", **self._place(process, track), **times, **_named(name, args)}, lasting)

    def instant(self, process: str, name: str, at: float, /, **args: Argument) -> None:
        """Something that happened at a moment."""
        what = {"ts": _microseconds(at), **_named(name, args)}
        with self._lock:
            self._write({"ph": "i", "s": "p", **self._place(process, "events"), **what}, lasting=False)

    def enter(self, process: str, track: str, name: str, at: float, /, **args: Argument) -> None:
        """From now on a track does this, which is visible at once; what it did before ends. No news if it does so."""
        with self._lock:
            doing = self._doing.get((process, track))
            if doing is not None and doing[0] == _short(name):
                return
            self.leave(process, track, at)
            self._doing[process, track] = (_short(name), at)
            event = {"ph": "B", **self._place(process, track), "ts": _microseconds(at), **_named(name, args)}
            self._write(event, lasting=True)

    def leave(self, process: str, track: str, at: float, /, **args: Argument) -> None:
        """What a track does, by `enter`, ends; also if the master before began it. No news if it does nothing."""
        with self._lock:
            doing = self._doing.pop((process, track), None)
            if doing is not None:
                event = {"ph": "E", **self._place(process, track), "ts": _microseconds(max(at, doing[1]))}
                self._write({**event, "args": _finite(args)}, lasting=True)

    def leave_all(self, process: str, at: float) -> None:
        """Nothing goes on in a process any more."""
        with self._lock:
            for owner, track in list(self._doing):
                if owner == process:
                    self.leave(process, track, at)

    def counter(self, name: str, at: float, value: float) -> None:
        """A figure of the whole. Points closer to the last one than can be seen are left out."""
        now = time.monotonic()
        apart = max(_COUNTER_SECONDS, (now - self._opened) * _COUNTER_PART)
        with self._lock:
            if now - self._counted.get(name, -math.inf) >= apart:
                self._counted[name] = now
                self.level(name, at, value)

    def level(self, name: str, at: float, value: float) -> None:
        """A figure of the whole that holds until it changes. No news if it is what it was."""
        with self._lock:
            if math.isfinite(value) and self._levels.get(name) != value:
                self._levels[name] = value
                place = {"pid": self._place(_WHOLE, "")["pid"], "ts": _microseconds(at)}
                self._write({"ph": "C", **place, "name": _short(name), "args": {"value": value}}, lasting=True)

    def flush(self) -> None:
        """Hand what is buffered to the operating system, which happens by itself once a second while events come."""
        with self._lock:
            self._flushed = time.monotonic()
            lines, self._lines, self._buffered = self._lines, [], 0
            if not lines or self._descriptor < 0:
                return
            try:
                self._append(b"".join(lines))
            except OSError as error:
                self._tell(error)
                # Without their names later events would say nothing.
                self._lines = [line for line in lines if line.startswith(_NAMES)]
                self._buffered = sum(map(len, self._lines))

    def close(self) -> None:
        """Write the rest. What is going on stays open in the file, for the next master."""
        with self._lock:
            self.flush()
            self._lines = []
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def _append(self, data: bytes) -> None:
        """Write all of it or nothing. Raises: OSError."""
        self._size = os.fstat(self._descriptor).st_size
        written = os.write(self._descriptor, data)
        if written < len(data):
            os.ftruncate(self._descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written

    def _write(self, event: dict[str, Any], lasting: bool) -> None:
        line = json.dumps(event, separators=(",", ":"), allow_nan=False).encode() + b",\n"
        fits = self._limit if lasting else self._limit * (1 - _RESERVED)
        if self._descriptor < 0 or self._size + self._buffered + len(line) > fits:
            return
        self._lines.append(line)
        self._buffered += len(line)
        if self._buffered > _BUFFER_BYTES or time.monotonic() - self._flushed >= _FLUSH_SECONDS:
            self.flush()

    def _place(self, process: str, track: str) -> dict[str, int]:
        """The numbers of a process and a track: of every two things another one, as viewers mix up equal ones."""
        numbers = []
        for kind, key in (("process_name", (process, "")), ("thread_name", (process, track))):
            if key not in self._numbers:
                self._numbers[key] = len(self._numbers) + 1
                place = {"pid": self._numbers[process, ""], "tid": self._numbers[key]}
                # It keeps the names for the next master beside the one for people, which the viewer shows.
                args = {"name": _short(key[1] or process), "process": process, "track": key[1]}
                self._write({"ph": "M", "name": kind, **place, "args": args}, lasting=True)
            numbers.append(self._numbers[key])
        return dict(zip(("pid", "tid"), numbers, strict=True))

    def _go_on(self) -> None:
        """Read what the master before named and left open; cut off what is not a whole line."""
        names: dict[int, tuple[str, str]] = {}
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            for line in file:
                if not line.endswith(b",\n") and line != b"[\n":
                    break
                self._size += len(line)
                if line.startswith((_NAMES, b'{"ph":"B"', b'{"ph":"E"')):
                    with contextlib.suppress(ValueError, KeyError, TypeError):  # what somebody else wrote
                        self._recall(json.loads(line[:-2]), names)
        os.ftruncate(self._descriptor, self._size)
        if self._size == 0:
            self._append(b"[\n")

    def _recall(self, event: dict[str, Any], names: dict[int, tuple[str, str]]) -> None:
        if event["ph"] == "M":
            names[event["tid"]] = key = (event["args"]["process"], event["args"]["track"])
            self._numbers[key] = event["tid"]
        elif event["ph"] == "B":
            self._doing[names[event["tid"]]] = (event["name"], event["ts"] / 1e6)
        else:
            self._doing.pop(names[event["tid"]], None)

    def _tell(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"{self._path} has gaps: {error.strerror or error}")


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6) if math.isfinite(seconds) else 0


def _short(name: str) -> str:
    return name[:_NAME_CHARACTERS]


def _named(name: str, args: Mapping[str, Argument]) -> dict[str, Any]:
    return {"name": _short(name), "args": _finite(args)}


def _finite(args: Mapping[str, Argument]) -> dict[str, Argument]:
    """As JSON has no infinite numbers."""
    return {
        _short(key): str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in args.items()
    }
