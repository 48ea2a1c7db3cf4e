"""A table that no worker could hold: 50 million rows, all touched, 12 GB with the optimizer's slots, workers of 4 GB.

One statement, which names neither servers nor a strategy, trains a classifier with an embedding of 50,000,000 ids, each
of which is in one row of the data. Prints what was chosen and why, the most memory that each process took of its own,
how many rows are on servers, and how long each part took; then predicts for a few rows, which must not load the table.

    python -m benchmarks.large_table

Exit code 1 if a worker took more than it may, a server more than was asked for, rows are missing, the model has
learned nothing, or the prediction took more memory than a small part of the table. ``BENCHMARK_ROWS`` asks for fewer
rows of the table, and workers with less memory in proportion. Takes 20 GB of disk and 16 of memory.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from sqlflow_elastic.cluster import LocalCluster, Phase
from sqlflow_elastic.datasource import open_source
from sqlflow_elastic.elastic.strategy import SERVER_BYTES
from sqlflow_elastic.events import Event, Message, Metrics, Progress, WorldChanged
from sqlflow_elastic.jobs.records import list_jobs
from sqlflow_elastic.session import Session

ROWS = int(os.environ.get("BENCHMARK_ROWS", "50000000"))
WORKERS, IDS, WIDTH, BATCH = 2, 10, 20, 8192
#: Weights and Adam's two slots, and what a worker may take.
TABLE_BYTES = ROWS * WIDTH * 4 * 3
WORKER_MIB = 4096 if ROWS >= 25_000_000 else 1200
#: Prediction reads the rows that it needs.
PREDICT_MIB = 1500
#: Guessing half-half would be 0.693; the best that can be known of the labels is 0.5.
LEARNED = 0.6
_SAMPLE_SECONDS = 0.2
#: Ids in an order without a pattern.
_STRIDE = 15_485_863

DATA = f"""CREATE TABLE visits AS SELECT
    array_to_string(list_transform(range({IDS}), lambda j: ((i * {IDS} + j) * {_STRIDE}) % {ROWS}), ',') AS ids,
    x, CAST(random() < x AS INTEGER) AS liked
FROM (SELECT i, random() AS x FROM range({ROWS // IDS}) AS r(i))"""
TRAIN = f"""SELECT * FROM visits TO TRAIN DNNClassifier
WITH model.hidden_units = [16], model.optimizer = Adam, optimizer.learning_rate = 0.01, train.epoch = 1,
    train.batch_size = {BATCH}, train.num_workers = {WORKERS}, train.worker_memory = {WORKER_MIB}, train.scaling = "all"
COLUMN x, EMBEDDING(CATEGORY_ID(SPARSE(ids, {ROWS}, ","), {ROWS}), {WIDTH}, "sum")
LABEL liked INTO huge"""
PREDICT = "SELECT ids, x FROM visits LIMIT 5000 TO PREDICT guesses.liked USING huge"


class Watch:
    """The most memory of their own that processes of a cluster take, by their names, in MiB."""

    def __init__(self, session: Session, cluster: LocalCluster) -> None:
        self.most: dict[str, float] = {}
        self._session = session
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            for one in (each for job in self._session.jobs() for each in self._cluster.list(job)):
                if one.phase is Phase.RUNNING and one.pid is not None:
                    self.most[one.name] = max(self.most.get(one.name, 0.0), own_memory(one.pid))


def own_memory(pid: int) -> float:
    """MiB of a process that no other one shares, as a cluster limits it; 0 for one that is gone."""
    with contextlib.suppress(OSError):
        said = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
        found = re.search(r"^Private_Dirty:\s+(\d+) kB", said, re.MULTILINE)
        return int(found[1]) / 1024 if found else 0.0
    return 0.0


def watched(session: Session, cluster: LocalCluster, statement: str) -> tuple[dict[str, float], list[Event], float]:
    """Run a statement: the most memory that its processes took, what was told, and seconds."""
    watch, began, events = Watch(session, cluster), time.monotonic(), []
    try:
        for event in session.execute(statement):
            events.append(event)
            if isinstance(event, Message | WorldChanged) or (isinstance(event, Progress) and event.phase == "training"):
                print(f"    {time.monotonic() - began:6.1f} s  {_line(event)}", flush=True)
    finally:
        watch.close()
    return watch.most, events, time.monotonic() - began


def _line(event: Event) -> str:
    match event:
        case Message(text):
            return text
        case WorldChanged():
            return f"{len(event.members)} workers at step {event.step:,}"
        case Progress():
            return f"step {event.done:,} of {event.total:,}, loss {event.loss or math.nan:.4f}"
    return str(event)


def check(what: str, seen: float, bound: float, *, at_least: bool = False) -> bool:
    """Print a figure beside its bound; whether it holds."""
    holds = seen >= bound if at_least else seen <= bound
    print(f"  {what:<44} {seen:14,.3f}   ({'≥' if at_least else '≤'} {bound:,.3f}){'' if holds else '   MISSED'}")
    return holds


def main() -> int:
    """Train, predict, and look at what it took."""
    print(
        f"{ROWS:,} rows of {WIDTH} numbers, {TABLE_BYTES / 1e9:.1f} GB with slots; {WORKERS} workers, {WORKER_MIB} MiB"
    )
    with (
        tempfile.TemporaryDirectory(prefix="sqlflow-elastic-large-") as folder,
        open_source(f"duckdb:///{folder}/visits.duckdb") as source,
        LocalCluster(slots=WORKERS) as cluster,
        Session(source, cluster, Path(folder) / "jobs", storage=Path(folder) / "models") as session,
    ):
        source.execute(DATA)
        most, events, seconds = watched(session, cluster, TRAIN)
        ((_, record),) = list_jobs(Path(folder) / "jobs", None)
        assert record is not None
        assert record.plan is not None
        print(f"  trained in {seconds:.0f} s, with all around it: {ROWS / seconds:,.0f} rows of the table a second")
        print(f"  {record.plan['strategy']}, as {record.plan['reason']}")
        predicting, _, took = watched(session, cluster, PREDICT)
        print(f"  predicted in {took:.1f} s")
        guessed = session.sql("SELECT count(*) AS n FROM guesses")["n"].to_pylist()[0]
    loss = next(event.values["loss"] for event in reversed(events) if isinstance(event, Metrics))
    servers = [each for each in record.processes if each.name.startswith("ps-")]
    workers = {name: size for name, size in most.items() if name.startswith("worker-")}
    on_servers = sum(most[each.name] for each in servers) * 2**20 - len(servers) * SERVER_BYTES
    print(f"  {', '.join(f'{name} {size:,.0f} MiB' for name, size in sorted(most.items()))}")
    held = [
        check("memory of a worker, MiB", max(workers.values()), WORKER_MIB),
        check("of a server, MiB", max(most[each.name] for each in servers), record.plan["server_memory"]),
        check("of rows on servers, of the table's bytes", on_servers / TABLE_BYTES, 1.3),
        check("rows on servers", sum(each.rows or 0 for each in servers), ROWS, at_least=True),
        check("loss", loss, LEARNED),
        check("memory of a prediction, MiB", max(predicting.values()), PREDICT_MIB),
        check("rows predicted", guessed, 5000, at_least=True),
    ]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
