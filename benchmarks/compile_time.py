"""How long compiling takes without the database: parsing, binding, checks and the program.

The database's answers are recorded in a first pass and played back in the timed ones.
The median is to be 50 ms or less.

    python benchmarks/compile_time.py [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from sqlflow_elastic.compiler import compile_statement
from sqlflow_elastic.datasource import DataSource, open_source
from sqlflow_elastic.language import parse

TARGET_MS = 50.0

TABLES = """
CREATE TABLE iris AS
    SELECT random() AS a, random() AS b, random() AS c, random() AS d, (i % 3)::INT AS class FROM range(150) t(i);
CREATE TABLE mixed AS
    SELECT random() AS x, i AS n, 'w' || i % 20 AS word, 'id ' || i AS name, DATE '2020-01-01' + (i % 99)::INT AS day,
        i || ',' || i AS pair, i % 2 = 0 AS flag, (i % 2)::INT AS y
    FROM range(20000) t(i);
"""
WIDE = "CREATE TABLE wide AS SELECT {columns}, (i % 2)::INT AS y FROM range(20000) t(i)".format(
    columns=", ".join(f"random() AS c{number}" for number in range(200))
)
STATEMENTS = {
    "iris, derived": "SELECT * FROM iris TO TRAIN DNNClassifier WITH model.n_classes = 3, model.hidden_units = [10] "
    "LABEL class INTO m",
    "8 mixed fields": "SELECT * FROM mixed TO TRAIN DNNClassifier WITH model.hidden_units = [64] LABEL y INTO m",
    "200 fields": "SELECT * FROM wide TO TRAIN LinearClassifier LABEL y INTO m",
    "wide and deep": "SELECT * FROM mixed TO TRAIN DNNLinearCombinedClassifier WITH model.dnn_hidden_units = [64, 32] "
    "COLUMN INDICATOR(word), CROSS([word, flag], 100) FOR linear_feature_columns "
    "COLUMN x, n, EMBEDDING(CATEGORY_HASH(name, 1000), 8) FOR dnn_feature_columns LABEL y INTO m",
}


class Playback:
    """A data source whose answers are asked for once and then played back."""

    def __init__(self, source: DataSource) -> None:
        self._source = source
        self._answers: dict[tuple[Any, ...], Any] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def answer(*arguments: Any) -> Any:
            key = (name, *arguments)
            if key not in self._answers:
                self._answers[key] = getattr(self._source, name)(*arguments)
            return self._answers[key]

        return answer


def compile_once(text: str, source: Any) -> float:
    """Milliseconds from text to program."""
    begun = time.perf_counter()
    (statement,) = parse(text, "duckdb")
    compile_statement(statement, text, source)
    return (time.perf_counter() - begun) * 1e3


def import_seconds() -> float:
    """Seconds that a new process needs for the compiler's imports, the interpreter's own start included."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import sqlflow_elastic.compiler, sqlflow_elastic.language"], check=True)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    worst = 0.0
    with open_source("duckdb://") as database:
        for statement in [*filter(str.strip, TABLES.split(";")), WIDE]:
            database.execute(statement)
        for number, (name, text) in enumerate(STATEMENTS.items()):
            source = Playback(database)
            first = compile_once(text, source)
            times = [compile_once(text, source) for _ in range(rounds)]
            worst = max(worst, statistics.median(times))
            began = f", the first of the process {first:.0f} ms with the database" if number == 0 else ""
            print(f"{name}: median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms{began}")
    print(f"imports of the compiler: {import_seconds():.2f} s")
    print(f"worst median {worst:.1f} ms, target {TARGET_MS:.0f} ms: ratio {worst / TARGET_MS:.2f}")


if __name__ == "__main__":
    main()
