"""Sums of vectors between processes: the ring against a raw TCP stream, TensorFlow's ring and gloo's figures.

    python -m benchmarks.allreduce [--rounds N]

Two processes take turns: 64 MB through two plain loopback sockets with tuned buffers, both ways at once, a thread for
sending and one for receiving (a ring of two moves as many bytes each way for a vector of 64 MB); then sums of float32
vectors of several sizes, 64 MB among them, and of three vectors at once beside one of their total size. Beside them two
processes sum 64 MB with MultiWorkerMirroredStrategy, over TensorFlow's own ring. Four processes sum the same on what
cores there are; gloo's figures for these were measured on two cores like those of docs/benchmarks.md.

Of large vectors the fastest round counts, since other work on the machine only ever adds to the time; of 4 KB the
median. Where it is allowed (root), all processes, TensorFlow's too, run before other work. Exit code 1 if a bound is
missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from sqlflow_elastic.elastic.comm import Endpoint, Place

LARGE = 64 << 20
SMALL = 4 << 10
SEVERAL = (131_072, 1_048_576, 25_600)
#: Bytes of the vectors of a sum → sums in a round: an MLP's gradients and MobileNetV2's are among them.
SUMS: dict[tuple[int, ...], int] = {
    (LARGE,): 1,
    (14_000_000,): 3,
    (2_700_000,): 10,
    (sum(SEVERAL),): 20,
    SEVERAL: 20,
    (SMALL,): 100,
}
RAW_BUFFER_BYTES = 4 << 20
RAW_PIECE_BYTES = 1 << 20
TENSORFLOW_SUMS = 6
SECONDS = 120.0

RAW_BOUND = 0.75
TENSORFLOW_BOUND = 5.0
#: Milliseconds, by processes and bytes of the vectors.
BOUNDS: dict[tuple[int, tuple[int, ...]], float] = {(2, (SMALL,)): 0.2, (4, (LARGE,)): 86.0, (4, (SMALL,)): 4.4}


def timed(call: Callable[..., object], *arguments: object) -> float:
    begin = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begin


def come_first() -> None:
    """Run before the other work on the machine, if that is allowed."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


class RawStream:
    """Two plain sockets: one to the other process, one from it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._data = np.ones(LARGE, np.uint8).data
        self._piece = np.empty(RAW_PIECE_BYTES, np.uint8).data

    def connect(self, port: int) -> None:
        self._to = socket.socket()
        self._to.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RAW_BUFFER_BYTES)
        self._to.connect(("127.0.0.1", port))
        self._from, _ = self._listener.accept()
        self._from.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RAW_BUFFER_BYTES)

    def exchange(self) -> None:
        """64 MB each way."""
        sender = threading.Thread(target=self._to.sendall, args=(self._data,))
        sender.start()
        left = LARGE
        while left:
            count = self._from.recv_into(self._piece[: min(left, RAW_PIECE_BYTES)])
            if not count:
                raise RuntimeError("the other process has ended")
            left -= count
        sender.join()


def member(rounds: int) -> None:
    """One process of the ring: says where it listens, is told its place, says its seconds by bytes of the vectors."""
    come_first()
    raw = RawStream()
    endpoint = Endpoint(bytes.fromhex(os.environ["ALLREDUCE_TOKEN"]))
    print(json.dumps({"address": endpoint.address, "raw": raw.port}), flush=True)
    told = json.loads(sys.stdin.readline())
    times: dict[str, list[float]] = {name: [] for name in ("raw", *map(str, SUMS))}
    with endpoint, endpoint.connect(Place(**told["place"]), SECONDS) as ring:
        if ring.place.size == 2:
            raw.connect(told["raw"])
        together = np.zeros(1, np.float32)
        vectors = {sizes: [np.ones(size // 4, np.float32) for size in sizes] for sizes in SUMS}
        for turn in range(rounds + 1):
            if ring.place.size == 2:
                ring.allreduce([together])
                times["raw"].append(timed(raw.exchange))
            for sizes, count in SUMS.items():
                for _ in range(count):
                    for vector in vectors[sizes]:
                        vector[:] = 1
                    ring.allreduce([together])
                    times[str(sizes)].append(timed(ring.allreduce, vectors[sizes]))
                    if not all((vector == ring.place.size).all() for vector in vectors[sizes]):
                        raise RuntimeError("a sum is wrong")
            if not turn:  # the first warms up
                for seconds in times.values():
                    seconds.clear()
    print(json.dumps(times), flush=True)


def tensorflow_member(ports: list[str], rank: int) -> None:
    """One process of TensorFlow's ring: says its seconds for 64 MB."""
    come_first()
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": [f"127.0.0.1:{port}" for port in ports]}, "task": {"type": "worker", "index": rank}}
    )
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING
        )
    )
    with strategy.scope():
        vector = tf.Variable(tf.ones(LARGE // 4))

    def reduced() -> Any:
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, vector.read_value())[0]

    # One number of the result is fetched: the step has ended when it is there.
    step = tf.function(lambda: strategy.run(reduced), autograph=False)
    times = [timed(lambda: float(step())) for _ in range(TENSORFLOW_SUMS + 1)]
    print(json.dumps(times[1:]), flush=True)


def start(cleanup: ExitStack, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    process = cleanup.enter_context(
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.allreduce", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
        )
    )
    cleanup.callback(process.kill)
    watchdog = threading.Timer(SECONDS, process.kill)
    watchdog.start()
    cleanup.callback(watchdog.cancel)
    return process


def said(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a process of the benchmark has ended")
    return json.loads(line)


def ring_times(size: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each sum between so many processes, by bytes, and of each raw exchange."""
    with ExitStack() as cleanup:
        token = secrets.token_hex(16)
        processes = [start(cleanup, "--member", "--rounds", str(rounds), ALLREDUCE_TOKEN=token) for _ in range(size)]
        where = [said(process) for process in processes]
        for rank, process in enumerate(processes):
            next_ = where[(rank + 1) % size]
            place = {"version": 1, "rank": rank, "size": size, "next": next_["address"]}
            assert process.stdin is not None
            process.stdin.write(json.dumps({"place": place, "raw": next_["raw"]}) + "\n")
            process.stdin.flush()
        ended = [said(process) for process in processes]
    times: dict[str, list[float]] = ended[0]
    return times


def tensorflow_times() -> list[float]:
    """Seconds of each sum of 64 MB between two processes of TensorFlow's."""
    with ExitStack() as cleanup:
        with ExitStack() as reserved:
            sockets = [reserved.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
            ports = ",".join(str(server.getsockname()[1]) for server in sockets)
        processes = [
            start(
                cleanup, "--tensorflow", ports, "--rank", str(rank), TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES=""
            )
            for rank in range(2)
        ]
        ended = [said(process) for process in processes]
    times: list[float] = ended[0]
    return times


def report(size: int, times: dict[str, list[float]]) -> bool:
    """Print the sums between so many processes; whether they are within their absolute bounds."""
    held = True
    for sizes in SUMS:
        best, median = (1000 * of(times[str(sizes)]) for of in (min, statistics.median))
        bound = BOUNDS.get((size, sizes))
        counts = median if sizes == (SMALL,) else best
        held = held and (bound is None or counts <= bound)
        what = " + ".join(f"{each / 1e6:.3f}" for each in sizes)
        print(
            f"{size} processes  {what:>21} MB   fastest {best:8.3f} ms   median {median:8.3f} ms"
            + (f"   at most {bound:g} ms is wanted" if bound else ""),
            flush=True,
        )
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--member", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tensorflow", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.member:
        member(arguments.rounds)
        return 0
    if arguments.tensorflow:
        tensorflow_member(arguments.tensorflow.split(","), arguments.rank)
        return 0
    two = ring_times(2, arguments.rounds)
    held = report(2, two)
    held = report(4, ring_times(4, arguments.rounds)) and held
    ours, raw, tensorflow = min(two[str((LARGE,))]), min(two["raw"]), min(tensorflow_times())
    for name, theirs, bound in (("raw stream", raw, RAW_BOUND), ("TensorFlow's ring", tensorflow, TENSORFLOW_BOUND)):
        print(f"64 MB, {name:<17} {1000 * theirs:8.3f} ms   ratio {theirs / ours:5.2f}   at least {bound:g} is wanted")
    return 0 if held and raw / ours >= RAW_BOUND and tensorflow / ours >= TENSORFLOW_BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
