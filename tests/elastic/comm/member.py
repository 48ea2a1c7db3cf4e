"""A worker that does nothing but sum: run as a process of its own, to be killed, stopped and told to abort.

    python -m tests.elastic.comm.member STEP_DEADLINE

Prints its address. For each line "version rank size next elements" it connects and sums for ever; prints "summed" after
the first sum, and "broken SUSPECT REASON" when the world breaks. SIGUSR1 makes it abort.
"""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from sqlflow_elastic.elastic.comm import Communicator, Endpoint, Place, WorldBroken
from tests.elastic.comm.worlds import SECONDS, TOKEN


class Member:
    """Such a process, seen from the test. Killed at the end of `members`."""

    def __init__(self, step_deadline: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.elastic.comm.member", str(step_deadline)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._said = b""

    def line(self, seconds: float = SECONDS) -> str:
        """The next that it says; fails when it says nothing for so long."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self._said:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"said nothing for {seconds} s"
            data = self.process.stdout.read(65536)
            assert data, "has ended"
            self._said += data
        line, self._said = self._said.split(b"\n", 1)
        return line.decode()

    def broken(self, seconds: float) -> tuple[int | None, str]:
        """Suspect and reason, which it has to tell within the time."""
        word, suspect, reason = self.line(seconds).split(" ", 2)
        assert word == "broken"
        return (None if suspect == "None" else int(suspect)), reason

    def begin(self, place: Place, elements: int) -> None:
        """Take a place, and sum vectors of so many float32."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{place.version} {place.rank} {place.size} {place.next} {elements}\n".encode())


@contextmanager
def members(count: int, step_deadline: float) -> Iterator[list[tuple[Member, str]]]:
    """So many processes and their addresses."""
    started = [Member(step_deadline) for _ in range(count)]
    try:
        yield [(member, member.line()) for member in started]
    finally:
        for member in started:
            member.process.kill()
            member.process.communicate()


def begin_world(version: int, chosen: list[tuple[Member, str]], elements: int) -> None:
    """Let them be a world; returns when all have summed."""
    for rank, (member, _) in enumerate(chosen):
        member.begin(Place(version, rank, len(chosen), chosen[(rank + 1) % len(chosen)][1]), elements)
    for member, _ in chosen:
        assert member.line() == "summed"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    current: list[Communicator] = []
    aborting = threading.Event()

    def abort() -> None:
        aborting.wait()
        current[0].abort("told to")

    threading.Thread(target=abort, daemon=True).start()
    signal.signal(signal.SIGUSR1, lambda *_: aborting.set())
    with Endpoint(TOKEN, step_deadline=float(sys.argv[1])) as endpoint:
        say(endpoint.address)
        for line in sys.stdin:
            version, rank, size, next_, elements = line.split()
            buffer = np.ones(int(elements), np.float32)
            try:
                with endpoint.connect(Place(int(version), int(rank), int(size), next_), SECONDS) as member:
                    current[:] = [member]
                    member.allreduce([buffer])
                    say("summed")
                    while True:
                        buffer[:] = 1
                        member.allreduce([buffer])
            except WorldBroken as broken:
                say(f"broken {broken.suspect} {broken.reason}")


if __name__ == "__main__":
    main()
