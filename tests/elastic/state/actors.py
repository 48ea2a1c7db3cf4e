"""Processes that use a state store beside the test's: ``python -m tests.elastic.state.actors URL ACTION ARGUMENTS…``.

Each prints a line when what the line says has happened.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sqlflow_elastic.elastic.state import Conflict, StateStore, open_store
from sqlflow_elastic.elastic.state.embedded import EmbeddedStore


def count(store: StateStore, times: int) -> None:
    """Add to the number under "counter", so many times."""
    while times:
        entry = store.get("counter")
        number = int(entry.value) if entry else 0
        try:
            store.write({"counter": b"%d" % (number + 1)}, {"counter": entry.revision if entry else 0})
        except Conflict:
            continue
        times -= 1


def write_alike(store: StateStore) -> None:
    """Write 1, 2, 3 … under several keys at once, each number printed when it is written."""
    number = 0
    while True:
        number += 1
        store.write({f"alike/{key}": b"%d" % number + b" " * 2_000 for key in range(5)})
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


def write_numbers(store: StateStore, name: str, times: int) -> None:
    """Write 0, 1, 2 … under a key."""
    for number in range(times):
        store.write({f"numbers/{name}": b"%d" % number})


def hold(store: StateStore, seconds: float) -> None:
    """Write "held" with a lease and refresh it until killed."""
    lease = store.lease(seconds)
    store.write({"held": b"here", "held too": b"here"}, lease=lease)
    with store.watch("nothing") as watch:
        while True:
            sys.stdout.write("held\n")
            sys.stdout.flush()
            watch.next(seconds / 4)
            lease.refresh()


def stay_in_a_write(store: StateStore) -> None:
    """Begin to write and stay there until killed."""

    assert isinstance(store, EmbeddedStore)
    with store._file.writing() as sql:
        sql.execute("INSERT INTO entries VALUES (?, ?, 1, NULL)", (b"a", b"never"))
        sys.stdout.write("writing\n")
        sys.stdout.flush()
        signal.pause()


@contextmanager
def acting(url: str, action: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process that does this; killed at the end if it has not ended."""
    command = [sys.executable, "-m", __name__, url, action, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def main(url: str, action: str, *arguments: str) -> None:
    with open_store(url) as store:
        match action:
            case "count":
                count(store, int(arguments[0]))
            case "write_alike":
                write_alike(store)
            case "write_numbers":
                write_numbers(store, arguments[0], int(arguments[1]))
            case "stay_in_a_write":
                stay_in_a_write(store)
            case "hold":
                hold(store, float(arguments[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
