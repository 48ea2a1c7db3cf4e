"""A click log whose best AUC is known: asynchronous training against synchronous training, and against that.

Who clicks is drawn from probabilities that are known, so nothing ranks better than these do. A model that can say them
is trained from one statement, twice, but for ``train.sync``: by workers that take each step together, and by such that
take their own. Prints the AUC of each on rows that were not trained on.

    python -m benchmarks.click_log

Exit code 1 if the asynchronous one is more than 0.005 away from the synchronous one, or either has learned too little.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sqlflow_elastic.cluster import LocalCluster
from sqlflow_elastic.datasource import Mark, open_source
from sqlflow_elastic.session import Session

ROWS = int(os.environ.get("BENCHMARK_ROWS", "400000"))
HELD_OUT = 100_000
WORKERS = 2
#: Of the two from each other, and of each from the best that there is.
BOUND, FROM_BEST = 0.005, 0.02
FIELDS = {f"field_{i}": ids for i, ids in enumerate((20, 100, 500, 1_000, 2_000, 5_000))}
_SEED = 20
STATEMENT = """
SELECT * FROM clicks TO TRAIN DeepFM
WITH train.epoch = 2, train.batch_size = 128, train.num_workers = {workers}, train.scaling = "all", {how},
    model.hidden_units = [16], model.optimizer = Adagrad, optimizer.learning_rate = 0.05
COLUMN number, {columns} LABEL clicked INTO {into}
"""


def rows(count: int, seed: int) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """A click log, and the probability of each click."""
    weights = np.random.default_rng(_SEED)
    chance = np.random.default_rng(seed)
    columns: dict[str, NDArray[Any]] = {"number": chance.normal(size=count)}
    score = 0.5 * columns["number"] - 1.0
    for name, ids in FIELDS.items():
        popularity = 1 / np.arange(1, ids + 1) ** 1.05
        columns[name] = chance.choice(ids, count, p=popularity / popularity.sum())
        score = score + weights.normal(scale=0.6, size=ids)[columns[name]]
    probability = 1 / (1 + np.exp(-score))
    columns["clicked"] = (chance.random(count) < probability).astype(np.int64)
    return columns, probability


def auc(labels: NDArray[Any], scores: NDArray[Any]) -> float:
    """How often a click has a higher score than none; of scores that are all different."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    clicks = int(labels.sum())
    return float((ranks[labels == 1].sum() - clicks * (clicks + 1) / 2) / (clicks * (len(labels) - clicks)))


def trained(session: Session, into: str, how: str) -> float:
    """Train; its AUC on the rows that were held out."""
    columns = ", ".join(f"EMBEDDING(CATEGORY_ID({name}, {ids}), 4)" for name, ids in FIELDS.items())
    began = time.monotonic()
    for _ in session.execute(STATEMENT.format(workers=WORKERS, how=how, columns=columns, into=into)):
        pass
    seconds = time.monotonic() - began
    session.sql(
        f'SELECT * FROM unseen TO EVALUATE {into} WITH validation.metrics = "AUC" LABEL clicked INTO {into}_auc'
    )
    value = float(session.sql(f"SELECT * FROM {into}_auc")["auc"].to_pylist()[0])
    print(f"  {how:<28} AUC {value:.4f}   {seconds:5.1f} s", flush=True)
    return value


def main() -> int:
    """Train twice, and compare."""
    source = open_source("duckdb://")
    best = 1.0
    for name, count, seed in (("clicks", ROWS, 0), ("unseen", HELD_OUT, 1)):
        columns, probability = rows(count, seed)
        best = auc(columns["clicked"], probability)
        batch = pa.record_batch(columns)
        source.write_table((name,), batch.schema, [batch], Mark.RESULT)
    print(f"{ROWS:,} rows of {len(FIELDS)} fields, {WORKERS} workers; AUC of the true probabilities {best:.4f}")
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(slots=2 * WORKERS) as cluster,
        Session(source, cluster, Path(folder)) as session,
    ):
        together = trained(session, "together", 'train.strategy = "hybrid"')
        alone = trained(session, "alone", "train.sync = False")
    apart = abs(alone - together)
    print(
        f"  apart {apart:.4f} (bound {BOUND}); below the best {best - together:.4f}, {best - alone:.4f} ({FROM_BEST})"
    )
    return 0 if apart <= BOUND and best - min(together, alone) <= FROM_BEST else 1


if __name__ == "__main__":
    sys.exit(main())
