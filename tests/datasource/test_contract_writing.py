"""Writing tables: in bulk, whole or not at all, marked; on all four engines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pyarrow as pa
import pytest

from sqlflow_elastic.datasource import DataSource, Mark, open_source
from sqlflow_elastic.errors import DataSourceError
from tests.datasource.engines import DAY, HALF_PAST, MOMENT, TIME, US, UTC, ZONED
from tests.datasource.test_contract import read

NUMBERS = pa.schema([("n", pa.int64())])
COLUMNS = {
    "i": pa.array([-(2**63), None, 2**63 - 1]),
    "u": pa.array([0, None, 2**64 - 1], pa.uint64()),
    "small": pa.array([-128, None, 127], pa.int8()),
    "f32": pa.array([0.1, None, -3e38], pa.float32()),
    "f64": pa.array([0.1, None, 1.7976931348623157e308]),
    "d": pa.array([Decimal("-1.50"), None, Decimal("99999999.99")], pa.decimal128(10, 2)),
    "dd": pa.array([Decimal("1E-10"), None, Decimal(10**27)], pa.decimal128(38, 10)),
    "b": pa.array([True, None, False]),
    "s": pa.array(["", None, "a'b\"c\\d,\n\r\t\\N NULL 100%s :x 中文 😀"]),
    "x": pa.array([b"", None, bytes(range(256))]),
    "date": pa.array([DAY, None, DAY.replace(year=1000, day=1)]),
    "time": pa.array([HALF_PAST, None, HALF_PAST.replace(hour=0)], TIME),
    "ts": pa.array([MOMENT, None, MOMENT.replace(year=1969, day=1)], US),
    "tz": pa.array([ZONED, None, ZONED.replace(year=1999, day=1)], UTC),
    "dict": pa.array(["red", None, "red"]).dictionary_encode(),
}
#: What an engine has no type for arrives as the nearest one it has.
NEAREST = {
    "duckdb": {},
    "sqlite": {},
    "mysql": {"b": pa.int64(), "tz": US},
    "postgresql": {"u": pa.decimal128(20, 0)},
}
EXPECTED = {"small": pa.int64(), "dict": pa.string()}


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([list(values)], schema=NUMBERS)


def marked(source: DataSource, mark: Mark) -> list[tuple[str, ...]]:
    """The marked tables without those of a MySQL server's other databases."""
    return [table for table in source.marked(mark) if len(table) == 1 or "other_place" in table]


def test_every_type_comes_back(kind: str, source: DataSource) -> None:
    written = pa.record_batch(COLUMNS)
    assert source.write_table(("t",), written.schema, [written], Mark.RESULT) == 3
    table = read(source, f"SELECT * FROM {source.quote(('t',))}")
    assert table.schema.names == list(COLUMNS)
    for name, column in COLUMNS.items():
        expected = NEAREST[kind].get(name) or EXPECTED.get(name) or column.type
        assert table.schema.field(name).type == expected, name
        assert table[name].combine_chunks().cast(column.type if name != "dict" else pa.string()).to_pylist() == (
            column.to_pylist()
        ), name


def test_odd_names_of_tables_and_columns(source: DataSource) -> None:
    for name in ["select", "a b", "q`q", 'q"q', "表", "x%s"]:
        schema = pa.schema([("order", pa.int64()), ("列 1", pa.string()), ('"`', pa.int64())])
        rows = pa.record_batch([[1], ["a"], [2]], schema=schema)
        assert source.write_table((name,), schema, [rows], Mark.RESULT) == 1
        assert read(source, f"SELECT * FROM {source.quote((name,))}").to_pylist() == rows.to_pylist()
        assert marked(source, Mark.RESULT) == [(name,)]
        source.drop_table((name,))


def test_many_batches_and_none(source: DataSource) -> None:
    count = source.write_table(("t",), NUMBERS, (batch(n, n + 1) for n in range(0, 2000, 2)), Mark.RESULT)
    assert count == 2000
    assert read(source, "SELECT count(*) AS c, min(n) AS a, max(n) AS z FROM t").to_pylist() == [
        {"c": 2000, "a": 0, "z": 1999}
    ]
    assert source.write_table(("t",), NUMBERS, [], Mark.RESULT) == 0
    assert read(source, "SELECT * FROM t").num_rows == 0


def test_rows_of_a_query_go_into_the_table_it_reads_beside(source: DataSource) -> None:
    source.write_table(("a",), NUMBERS, [batch(*range(100))], Mark.RESULT)
    with source.query("SELECT n FROM a", 10) as stream:
        assert source.write_table(("b",), stream.schema, stream.batches, Mark.RESULT) == 100
    assert read(source, "SELECT * FROM b").num_rows == 100


def test_marks_come_and_go_with_their_tables(source: DataSource) -> None:
    assert marked(source, Mark.MODEL) == []
    source.write_table(("m",), NUMBERS, [batch(1)], Mark.MODEL)
    source.write_table(("r",), NUMBERS, [batch(1)], Mark.RESULT)
    assert (source.mark(("m",)), source.mark(("r",))) == (Mark.MODEL, Mark.RESULT)
    assert (marked(source, Mark.MODEL), marked(source, Mark.RESULT)) == ([("m",)], [("r",)])
    source.write_table(("m",), NUMBERS, [batch(2)], Mark.RESULT)
    assert source.mark(("m",)) is Mark.RESULT
    source.drop_table(("m",))
    assert source.mark(("m",)) is None
    source.execute("CREATE TABLE m (n INTEGER)")
    assert source.mark(("m",)) is None
    assert marked(source, Mark.RESULT) == [("r",)]


def test_a_table_of_somebody_else_is_left(source: DataSource) -> None:
    source.execute("CREATE TABLE mine (n INTEGER)")
    source.execute("INSERT INTO mine VALUES (7)")
    source.execute("CREATE VIEW view_of_mine AS SELECT n FROM mine")
    for name in ["mine", "view_of_mine"]:
        with pytest.raises(DataSourceError, match=f"the table {name} is there and was not written by"):
            source.write_table((name,), NUMBERS, [batch(1)], Mark.RESULT)
        with pytest.raises(DataSourceError, match="not written by"):
            source.drop_table((name,))
        assert read(source, f"SELECT n FROM {name}")["n"].to_pylist() == [7]
    with pytest.raises(DataSourceError, match="no table nothing"):
        source.drop_table(("nothing",))


class Trouble(Exception):  # noqa: N818
    """What a caller's rows raise."""


def failing() -> Iterator[pa.RecordBatch]:
    yield batch(*range(100_000))
    raise Trouble("half way")


@pytest.mark.parametrize("other", ["SALES", "Salés", "sales"])
def test_a_name_that_is_nearly_the_same(source: DataSource, other: str) -> None:
    """Some engines take it for the same table and some for another one, but all of an engine agrees on that."""
    source.write_table(("Sales",), NUMBERS, [batch(1)], Mark.MODEL)
    same = source.columns((other,)) is not None
    assert source.mark((other,)) is (Mark.MODEL if same else None)
    if same:
        source.write_table((other,), NUMBERS, [batch(2)], Mark.MODEL)
        assert read(source, f"SELECT n FROM {source.quote(('Sales',))}")["n"].to_pylist() == [2]
        return
    source.execute(f"CREATE TABLE {source.quote((other,))} (theirs INTEGER)")
    with pytest.raises(DataSourceError, match="was not written by sqlflow-elastic"):
        source.write_table((other,), NUMBERS, [batch(2)], Mark.MODEL)
    with pytest.raises(DataSourceError, match="was not written by sqlflow-elastic"):
        source.drop_table((other,))
    source.execute(f"DROP TABLE {source.quote((other,))}")
    source.write_table((other,), NUMBERS, [batch(2)], Mark.MODEL)
    assert read(source, f"SELECT n FROM {source.quote(('Sales',))}")["n"].to_pylist() == [1]
    assert read(source, f"SELECT n FROM {source.quote((other,))}")["n"].to_pylist() == [2]


@pytest.mark.parametrize("kind", ["sqlite", "mysql", "postgresql"], indirect=True)
def test_two_writers_of_one_new_table(url: str) -> None:
    """Both succeed, and the table is that of one of them. (DuckDB has one process for a file, and refuses one.)"""
    with open_source(url) as one, open_source(url) as other, ThreadPoolExecutor(2) as pool:
        for turn in range(15):
            table = (f"t{turn}",)
            writing = [
                pool.submit(source.write_table, table, NUMBERS, [batch(value)], Mark.RESULT)
                for value, source in enumerate((one, other))
            ]
            assert [done.result(60) for done in writing] == [1, 1]
            assert read(one, f"SELECT n FROM t{turn}")["n"].to_pylist() in ([0], [1])


def test_a_failure_half_way_leaves_the_old_table(source: DataSource) -> None:
    source.write_table(("t",), NUMBERS, [batch(1, 2)], Mark.RESULT)
    with pytest.raises(Trouble, match="half way"):
        source.write_table(("t",), NUMBERS, failing(), Mark.RESULT)
    with pytest.raises(Trouble):
        source.write_table(("new",), NUMBERS, failing(), Mark.RESULT)
    with pytest.raises(DataSourceError, match="'n'"):
        source.write_table(("t",), NUMBERS, [pa.record_batch({"n": ["one"]})], Mark.RESULT)
    assert read(source, "SELECT n FROM t ORDER BY n")["n"].to_pylist() == [1, 2]
    assert source.mark(("t",)) is Mark.RESULT
    assert [name for name in source.tables() if "." not in name] == ["t"]


def test_readers_see_the_old_table_until_the_new_one_is_there(kind: str, source: DataSource) -> None:
    source.write_table(("t",), NUMBERS, [batch(1)], Mark.RESULT)
    seen: list[int] = []

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch(*range(70_000))
        seen.extend(read(source, "SELECT n FROM t")["n"].to_pylist())
        yield batch(*range(70_000))

    assert source.write_table(("t",), NUMBERS, rows(), Mark.RESULT) == 140_000
    assert seen == [1]
    assert read(source, "SELECT count(*) AS c FROM t")["c"].to_pylist() == [140_000]


WRITER = """
import sys
import pyarrow as pa
from sqlflow_elastic.datasource import Mark, open_source
schema = pa.schema([("n", pa.int64())])
def rows():
    for _ in range(3):
        yield pa.record_batch([list(range(70_000))], schema=schema)
    print("half way", flush=True)
    sys.stdin.read()
open_source(sys.argv[1]).write_table(("t",), schema, rows(), Mark.RESULT)
"""


def test_a_writer_killed_half_way_leaves_the_old_table_and_no_rest(url: str) -> None:
    with open_source(url) as source:
        source.write_table(("t",), NUMBERS, [batch(1, 2)], Mark.RESULT)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "half way\n"
        writer.kill()
        writer.wait(10)
    with open_source(url) as source:
        assert read(source, "SELECT n FROM t ORDER BY n")["n"].to_pylist() == [1, 2]
        source.write_table(("t",), NUMBERS, [batch(3)], Mark.RESULT)
        assert read(source, "SELECT n FROM t")["n"].to_pylist() == [3]
        assert marked(source, Mark.RESULT) == [("t",)]


def test_values_an_engine_cannot_hold_are_errors(kind: str, source: DataSource) -> None:
    floats = pa.record_batch({"x": [1.0, float("nan"), float("inf")]})
    if kind == "mysql":
        with pytest.raises(DataSourceError, match=r"column 'x': MySQL cannot hold NaN"):
            source.write_table(("t",), floats.schema, [floats], Mark.RESULT)
        assert source.columns(("t",)) is None
        return
    source.write_table(("t",), floats.schema, [floats], Mark.RESULT)
    first, nan, infinite = read(source, "SELECT x FROM t")["x"].to_pylist()
    assert (first, infinite) == (1.0, float("inf"))
    assert nan is None if kind == "sqlite" else nan != nan


def test_a_table_in_another_schema(kind: str, source: DataSource) -> None:
    schema = {"sqlite": "main"}.get(kind, "other_place")
    if kind == "mysql":
        schema = read(source, "SELECT DATABASE() AS d")["d"][0].as_py()
    elif kind != "sqlite":
        source.execute("CREATE SCHEMA other_place")
    assert source.write_table((schema, "t"), NUMBERS, [batch(5)], Mark.MODEL) == 1
    assert source.mark((schema, "t")) is Mark.MODEL
    assert read(source, f"SELECT n FROM {source.quote((schema, 't'))}")["n"].to_pylist() == [5]
    assert marked(source, Mark.MODEL) == [("t",)] if kind in {"mysql", "sqlite"} else [(schema, "t")]
    with pytest.raises(DataSourceError, match="nowhere"):
        source.write_table(("nowhere", "t"), NUMBERS, [batch(5)], Mark.MODEL)


@pytest.mark.parametrize("kind", ["mysql"], indirect=True)  # the others write in one transaction: nothing can be left
def test_a_dead_writers_table_is_removed_by_the_next(source: DataSource) -> None:
    left = "sqlflow_elastic_aside_" + "0" * 32
    source.execute(f"CREATE TABLE {left} (n INT) COMMENT 'sqlflow-elastic result'")
    not_ours = "sqlflow_elastic_aside_x"
    source.execute(f"CREATE TABLE {not_ours} (n INT)")
    assert marked(source, Mark.RESULT) == []
    source.write_table(("t",), NUMBERS, [batch(5)], Mark.RESULT)
    assert source.columns((left,)) is None
    assert source.columns((not_ours,)) is not None
