"""Reading: what every data source must do, on all four engines."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from sqlflow_elastic.datasource import DataSource, RowStream
from sqlflow_elastic.errors import DataSourceError
from tests.datasource.engines import TYPES, numbers

AWKWARD = "100%s %(x)s :x ?1 $1 {y} ; -- # /* */ 中文 😀"


def read(source: DataSource, sql: str, batch_rows: int = 65_536) -> pa.Table:
    with source.query(sql, batch_rows) as stream:
        return pa.Table.from_batches(stream.batches, stream.schema)


def test_types_arrive_as_the_contract_says_and_nulls_as_null(kind: str, source: DataSource) -> None:
    columns = TYPES[kind]
    names = [f"c{i}" for i in range(len(columns))]
    if kind == "mysql":
        source.execute("SET sql_mode = ''")  # zero dates are allowed
    source.execute(f"CREATE TABLE t ({', '.join(f'{n} {c.declaration}' for n, c in zip(names, columns, strict=True))})")
    source.execute(f"INSERT INTO t VALUES ({', '.join(column.literal for column in columns)})")
    source.execute(f"INSERT INTO t VALUES ({', '.join('NULL' for _ in columns)})")

    table = read(source, "SELECT * FROM t")

    assert dict(zip(names, table.schema.types, strict=True)) == {
        n: c.arrow for n, c in zip(names, columns, strict=True)
    }
    for name, column in zip(names, columns, strict=True):
        value, null = table[name].to_pylist()
        assert null is None, name
        if not pa.types.is_decimal(column.arrow) or column.value is not None:
            assert value == column.value, name
    assert source.probe("SELECT * FROM t", 2) == table
    assert read(source, "SELECT * FROM t", batch_rows=1) == table


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_decimals_nan_is_null(source: DataSource) -> None:
    source.execute("CREATE TABLE t (d NUMERIC(5, 2), wide NUMERIC(60, 2), word TEXT, f FLOAT, n NUMERIC)")
    source.execute("INSERT INTO t VALUES (1.5, 'NaN', 'NaN', 1, 1), ('NaN', 2.5, '', 'NaN', 'NaN')")
    table = read(source, "SELECT * FROM t")
    assert table.schema.types[:2] == [pa.decimal128(5, 2), pa.decimal256(60, 2)]
    assert [float(value or 0) for value in table["d"].to_pylist()] == [1.5, 0]
    assert [float(value or 0) for value in table["wide"].to_pylist()] == [0, 2.5]
    assert (table["d"].null_count, table["wide"].null_count) == (1, 1)
    assert table["word"].to_pylist() == ["NaN", ""]
    assert [str(table[name].to_pylist()) for name in ("f", "n")] == ["[1.0, nan]"] * 2


def test_empty_results_have_their_schema(kind: str, source: DataSource) -> None:
    columns = [column for column in TYPES[kind] if column.declaration and column.literal != "'many'"]
    names = [f"c{i}" for i in range(len(columns))]
    source.execute(f"CREATE TABLE t ({', '.join(f'{n} {c.declaration}' for n, c in zip(names, columns, strict=True))})")
    table = read(source, "SELECT * FROM t")
    assert table.num_rows == 0
    assert table.schema == source.columns(("t",))
    assert table.schema.names == names


def test_types_do_not_hang_on_the_first_rows(kind: str, source: DataSource) -> None:
    with source.query(
        f"SELECT CASE WHEN n > 150 THEN n + 0.5 END AS late, CASE WHEN n > 150 THEN 'x' END AS word"
        f" FROM ({numbers(kind, 200)}) AS numbers",
        batch_rows=50,
    ) as stream:
        batches = list(stream.batches)
    assert [batch.num_rows for batch in batches] == [50] * 4
    assert all(batch.schema == stream.schema for batch in batches)
    assert [float(value) for value in batches[3].column("late").to_pylist()] == [n + 0.5 for n in range(151, 201)]
    assert stream.schema.field("word").type == pa.string()


def test_a_query_streams_in_bounded_memory(kind: str, url: str) -> None:
    """80 to 240 MB of rows, read by a process that must not grow with them."""
    rows = {"duckdb": 1_200_000, "postgresql": 1_200_000, "mysql": 400_000, "sqlite": 400_000}[kind]
    repeat = "printf('%0200d', n)" if kind == "sqlite" else "repeat('x', 200)"
    program = f"""
import resource
from sqlflow_elastic.datasource import open_source
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
with open_source({url!r}) as source:
    counts = []
    for sql in {[f"SELECT n, {repeat} AS t FROM ({numbers(kind, n)}) AS r" for n in (50_000, rows)]!r}:
        with source.query(sql, 8192) as stream:
            counts.append((sum(batch.num_rows for batch in stream.batches), peak()))
print(counts[1][0], counts[1][1] - counts[0][1])
"""
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120)
    count, growth = output.stdout.split()
    assert int(count) == rows
    assert float(growth) < 40, "MB"


def test_a_stream_may_be_left_early(kind: str, source: DataSource) -> None:
    rows = 200_000 if kind == "sqlite" else 50_000_000
    with source.query(numbers(kind, rows)) as stream:
        assert next(stream.batches).column(0)[0].as_py() == 1
    assert read(source, "SELECT 42 AS n")["n"].to_pylist() == [42]


def test_text_goes_unchanged(kind: str, source: DataSource) -> None:
    text = AWKWARD.replace("\\", "\\\\") if kind == "mysql" else AWKWARD
    assert read(source, f"SELECT '{text}' AS t")["t"].to_pylist() == [AWKWARD]
    source.execute("CREATE TABLE 数据 (名字 VARCHAR(100))")
    source.execute(f"INSERT INTO 数据 VALUES ('{text}')")
    assert read(source, "SELECT 名字 FROM 数据 WHERE 名字 LIKE '100%' -- ; the end").to_pydict() == {"名字": [AWKWARD]}
    backslash = "\\\\" if kind == "mysql" else "\\"
    assert read(source, f"SELECT 'a{backslash}b;' AS t;")["t"].to_pylist() == ["a\\b;"]


def test_two_columns_may_have_one_name(source: DataSource) -> None:
    for table in (read(source, "SELECT 1 AS a, 2 AS a"), source.probe("SELECT 1 AS a, 2 AS a", 5)):
        assert table.schema.names == ["a", "a"]
        assert [column.to_pylist() for column in table.columns] == [[1], [2]]


def test_execute_gives_rows_counts_or_nothing(kind: str, source: DataSource) -> None:
    assert not source.execute("CREATE TABLE t (n INTEGER)")
    assert source.execute("INSERT INTO t VALUES (1), (2), (3)") == 3
    assert source.execute("UPDATE t SET n = n + 1 WHERE n > 1") == 2
    rows = source.execute("SELECT n FROM t ORDER BY n")
    assert isinstance(rows, RowStream)
    assert [value for batch in rows.batches for value in batch.column(0).to_pylist()] == [1, 3, 4]
    unread = source.execute(numbers(kind, 200_000))
    assert isinstance(unread, RowStream)
    assert source.execute("DELETE FROM t") == 3


def test_query_wants_rows(source: DataSource) -> None:
    with pytest.raises(DataSourceError, match="no rows"), source.query("CREATE TABLE t (n INTEGER)"):
        pass


def test_probe_stops_early_and_takes_any_select(kind: str, source: DataSource) -> None:
    probed = source.probe(f"{numbers(kind, 10_000_000 if kind != 'sqlite' else 1000)} -- all of them\n;", 3)
    assert probed["n"].to_pylist() == [1, 2, 3]
    union = source.probe("WITH a AS (SELECT 1 AS x UNION ALL SELECT 2) SELECT x FROM a ORDER BY x DESC", 10)
    assert sorted(union["x"].to_pylist()) == [1, 2]  # MySQL sorts no derived table
    assert source.probe("SELECT 1 AS x", 0).schema.names == ["x"]


def test_other_statements_work_while_a_stream_is_open(kind: str, source: DataSource) -> None:
    source.execute("CREATE TABLE t (n INTEGER)")
    source.execute("INSERT INTO t VALUES (1), (2)")
    with source.query(numbers(kind, 200_000), 1000) as outer:
        assert next(outer.batches).num_rows == 1000
        assert read(source, "SELECT count(*) AS c FROM t")["c"].to_pylist() == [2]
        assert source.execute("INSERT INTO t VALUES (3)") == 1
        assert sum(batch.num_rows for batch in outer.batches) == 199_000


def test_the_catalogue(source: DataSource) -> None:
    source.execute("CREATE TABLE birds (name VARCHAR(20), age INTEGER)")
    source.execute("CREATE VIEW old_birds AS SELECT * FROM birds WHERE age > 10")
    assert [name for name in source.tables() if "." not in name] == ["birds", "old_birds"]
    assert source.columns(("birds",)) == pa.schema([("name", pa.string()), ("age", pa.int64())])
    assert source.columns(("old_birds",)) == source.columns(("birds",))
    for missing in [("fish",), ("nowhere", "birds"), ('a"b`c',)]:
        assert source.columns(missing) is None
        assert source.mark(missing) is None
    assert source.mark(("birds",)) is None


def test_names_are_quoted(source: DataSource) -> None:
    for name in ["select", "a b", 'q"q', "b`b", "名字", "Mixed"]:
        quoted = source.quote((name,))
        assert read(source, f"SELECT 1 AS {quoted}").schema.names == [name]
