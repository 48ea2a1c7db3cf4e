"""A server of tables and its clients over loopback: how long steps take that compute nothing, and how much they send.

    python -m benchmarks.table_server

Measured are the lookup and the update of 100,000 different rows of 16 numbers, the steps of two workers whose batches
are those of `click_model`, and the bytes of such a step. Exit code 1 if one is above its bound.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from sqlflow_elastic.elastic.comm.base import Place
from sqlflow_elastic.elastic.tables.client import Session, enter
from sqlflow_elastic.elastic.tables.server import TableServer
from sqlflow_elastic.models.tables.spec import Distribution, Initial, Part, Range, RowOptimizer, TableSpec

FIELDS, IDS, SIZE, BATCH = 26, 1_000_000, 16, 512
WORKERS = 2
STEPS, WARM_UP = 1000, 50
#: Different batches, taken again and again.
BATCHES = 40
LARGE, LARGE_ROUNDS = 100_000, 20
ZIPF = 1.2
SECONDS = 120.0

#: Milliseconds of the large step, of a small one at the server and at a client; bytes in multiples of rows and ids.
LARGE_BOUND, SERVER_BOUND, CLIENT_BOUND, BYTES_BOUND = 60.0, 2.0, 1.0, 1.10

_TOKEN = b"the token of this benchmark"
_SERVER = "ps-0"
_SGD = RowOptimizer("sgd", {"momentum": 0.0, "nesterov": 0.0}, ())
_VECTOR, _WEIGHT = Initial(Distribution.UNIFORM, -0.05, 0.05), Initial(Distribution.CONSTANT)


def large_table() -> TableSpec:
    return TableSpec("large", (Range("field", IDS, (Part(SIZE, _VECTOR, 0),)),), _SGD, "float32", 0)


def click_table() -> TableSpec:
    """All fields' vectors and weights."""
    ranges = tuple(
        Range(f"field {i}", IDS, (Part(SIZE, _VECTOR, 2 * i), Part(1, _WEIGHT, 2 * i + 1))) for i in range(FIELDS)
    )
    return TableSpec("clicks", ranges, _SGD, "float32", 0)


def click_ids(rank: int) -> list[Any]:
    """The different ids of a worker's batches, int64 [n] each."""
    rng = np.random.default_rng(rank)
    batches = rng.zipf(ZIPF, (BATCHES, BATCH, FIELDS)) % IDS + IDS * np.arange(FIELDS)
    return [np.concatenate([np.unique(batch[:, field]) for field in range(FIELDS)]) for batch in batches]


def take_steps(session: Session, ids: list[Any], gradients: list[Any], steps: int) -> list[float]:
    """Each step's seconds, from its rows to those of the next one."""
    times = []
    for step in range(min(2, steps)):
        session.want([ids[step % len(ids)]])
    session.rows()
    for step in range(steps):
        began = time.perf_counter()
        ahead = [ids[(step + 2) % len(ids)]] if step + 2 < steps else None
        session.push([gradients[step % len(ids)]], [(0.01, step)], ahead)
        session.applied()
        if step + 1 < steps:
            session.rows()
        times.append(time.perf_counter() - began)
    return times


def server(folder: str) -> None:
    """Say where it is; at the end of the input, what processor time it has taken so far."""
    served = TableServer(_TOKEN, "127.0.0.1", _SERVER, Path(folder))
    thread = threading.Thread(target=served.serve)
    thread.start()
    print(served.address, flush=True)
    for _ in sys.stdin:
        print(time.process_time(), flush=True)
    served.close()
    thread.join()


def client(at: str, rank: int, version: int) -> None:
    """Take a worker's steps, when told; says what they took."""
    ids, spec = click_ids(rank), click_table()
    gradients = [np.full((len(each), spec.width), 1e-3, np.float32) for each in ids]
    place = Place(version, rank, WORKERS, "")
    with enter(_TOKEN, [(_SERVER, at)], [spec], place, 0, root=rank == 0, new=True, seconds=SECONDS) as session:
        take_steps(session, ids, gradients, WARM_UP)
        print("ready", flush=True)
        sys.stdin.readline()
        sent, used, began = session.sent + session.received, time.process_time(), time.perf_counter()
        take_steps(session, ids, gradients, STEPS)
        seconds, used = time.perf_counter() - began, time.process_time() - used
        # A row comes and its gradient goes; its id goes.
        needed = sum(len(ids[step % BATCHES]) * (4 + 2 * 4 * spec.width) for step in range(STEPS))
        said = {"seconds": seconds, "used": used, "bytes": (session.sent + session.received - sent) / needed}
        print(json.dumps({**said, "rows": statistics.mean(map(len, ids))}), flush=True)
        sys.stdin.readline()


def start(cleanup: ExitStack, *arguments: str) -> subprocess.Popen[str]:
    process = cleanup.enter_context(
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.table_server", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    )
    cleanup.callback(process.kill)
    watchdog = threading.Timer(SECONDS, process.kill)
    watchdog.start()
    cleanup.callback(watchdog.cancel)
    return process


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a process of the benchmark has ended")
    return line.strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def large(at: str) -> float:
    """Milliseconds of a large step, at its best: rows are there, but not those of the step before."""
    rng = np.random.default_rng(0)
    ids = [rng.permutation(IDS)[:LARGE] for _ in range(4)]
    gradient = np.full((LARGE, SIZE), 1e-3, np.float32)
    times = []
    place = Place(1, 0, 1, "")
    spec = large_table()
    with enter(_TOKEN, [(_SERVER, at)], [spec], place, 0, root=True, new=True, seconds=SECONDS) as session:
        for step in range(len(ids) + LARGE_ROUNDS):
            began = time.perf_counter()
            session.want([ids[step % len(ids)]])
            session.rows()
            session.push([gradient], [(0.01, step)])
            session.applied()
            times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times[len(ids) :])


def judged(what: str, value: float, unit: str, bound: float) -> bool:
    print(f"{what:<64} {value:8.2f} {unit:<3} at most {bound:g} is wanted", flush=True)
    return value <= bound


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", help=argparse.SUPPRESS)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.server:
        server(arguments.server)
        return 0
    if arguments.client:
        client(arguments.client, arguments.rank, 2)
        return 0
    with ExitStack() as cleanup:
        serving = start(cleanup, "--server", cleanup.enter_context(tempfile.TemporaryDirectory()))
        at = heard(serving)
        milliseconds = large(at)
        workers = [start(cleanup, "--client", at, "--rank", str(rank)) for rank in range(WORKERS)]
        for worker in workers:
            heard(worker)
        tell(serving)
        before = float(heard(serving))
        for worker in workers:
            tell(worker)
        ended = [json.loads(heard(worker)) for worker in workers]
        tell(serving)
        used = 1000 * (float(heard(serving)) - before) / STEPS
        for worker in workers:
            tell(worker)
    held = [judged(f"lookup and update of {LARGE:,} rows x {SIZE}", milliseconds, "ms", LARGE_BOUND)]
    seconds, rows = max(each["seconds"] for each in ended), statistics.mean(each["rows"] for each in ended)
    print(f"{WORKERS} workers, 1 server, {rows:,.0f} rows of {SIZE + 1} each: {STEPS / seconds:.0f} steps/s")
    held.append(judged("processor time of a step at the server", used, "ms", SERVER_BOUND))
    held.append(judged("at a client", 1000 * max(each["used"] for each in ended) / STEPS, "ms", CLIENT_BOUND))
    held.append(
        judged("bytes of a step over those of its rows and ids", max(e["bytes"] for e in ended), "", BYTES_BOUND)
    )
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
