"""Cancelling, errors, lost and impossible connections; on all four engines."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from sqlflow_elastic.datasource import DataSource, Mark, mysql, open_source, postgresql
from sqlflow_elastic.errors import DataSourceError
from tests.datasource.conftest import SERVERS, server_url
from tests.datasource.engines import ENDLESS, numbers
from tests.datasource.test_contract import read
from tests.datasource.test_contract_writing import NUMBERS, batch
from tests.services import PASSWORD, free_port
from tests.waiting import wait_until


def test_cancel_ends_a_running_query(kind: str, source: DataSource) -> None:
    errors: list[Exception] = []

    def run() -> None:
        try:
            read(source, ENDLESS[kind])
        except DataSourceError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 20
    while thread.is_alive() and time.monotonic() < deadline:
        thread.join(0.2)
        source.cancel()
    thread.join(1)
    assert not thread.is_alive()
    assert [str(error) for error in errors] == ["the statement was cancelled"]
    source.cancel()
    assert read(source, "SELECT 1 AS n")["n"].to_pylist() == [1]


#: How many of the endless queries a server runs.
RUNNING = {
    "mysql": "SELECT count(*) AS n FROM information_schema.processlist WHERE info LIKE 'SELECT BENCHMARK%'",
    "postgresql": "SELECT count(*) AS n FROM pg_stat_activity"
    " WHERE state = 'active' AND datname = current_database() AND query LIKE 'COPY (SELECT count%'",
}
READER = """
import signal
import sys
from sqlflow_elastic.datasource import open_source
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
source = open_source(sys.argv[1])
try:
    print("ready", flush=True)
    with source.query(sys.argv[2]) as stream:
        list(stream.batches)
except KeyboardInterrupt:
    with source.query("SELECT 1 AS n") as stream:
        print("stopped", sum(batch.num_rows for batch in stream.batches), flush=True)
"""


def test_ctrl_c_ends_a_running_query(kind: str, url: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", READER, url, ENDLESS[kind]], stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        if kind in SERVERS:
            with open_source(url) as admin:
                wait_until(lambda: read(admin, RUNNING[kind])["n"][0].as_py() > 0, 20)
        else:
            used = psutil.Process(reader.pid).cpu_times().user
            wait_until(lambda: psutil.Process(reader.pid).cpu_times().user > used + 0.3, 20)
        reader.send_signal(signal.SIGINT)
        try:
            assert reader.communicate(timeout=20)[0] == "stopped 1\n"
        finally:
            reader.kill()


def test_cancel_between_batches_ends_the_stream(kind: str, source: DataSource) -> None:
    with source.query(numbers(kind, 300_000), 1000) as stream:
        next(stream.batches)
        source.cancel()
        with pytest.raises(DataSourceError, match="cancelled"):
            list(stream.batches)
    assert read(source, "SELECT 1 AS n")["n"].to_pylist() == [1]


def test_cancel_while_writing_leaves_the_old_table(source: DataSource) -> None:
    source.write_table(("t",), NUMBERS, [batch(1)], Mark.RESULT)

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch(*range(70_000))
        source.cancel()
        yield batch(*range(70_000))

    with pytest.raises(DataSourceError, match="cancelled"):
        source.write_table(("t",), NUMBERS, rows(), Mark.RESULT)
    assert read(source, "SELECT n FROM t")["n"].to_pylist() == [1]


def test_mistakes_are_errors_in_the_engines_words(kind: str, source: DataSource) -> None:
    for sql, word in [("SELECT * FROM nowhere", "nowhere"), ("SELEC 1", "SELEC"), ("SELECT nothing AS x", "nothing")]:
        for call in (lambda sql: read(source, sql), source.execute, lambda sql: source.probe(sql, 1)):
            with pytest.raises(DataSourceError, match=word):
                call(sql)
    assert read(source, "SELECT 1 AS n")["n"].to_pylist() == [1]


def test_a_mistake_in_the_middle_of_the_rows_is_an_error(kind: str, source: DataSource) -> None:
    failing = {
        "duckdb": "SELECT CAST(CASE WHEN n > 90000 THEN 'x' ELSE '1' END AS INTEGER) AS v FROM ({}) AS r",
        "sqlite": "SELECT abs(CASE WHEN n > 90000 THEN -9223372036854775807 - 1 ELSE 1 END) AS v FROM ({}) AS r",
        "mysql": "SELECT IF(n > 90000, (SELECT 1 UNION SELECT 2 + n), 1) AS v FROM ({}) AS r",
        "postgresql": "SELECT 1 / CASE WHEN n > 90000 THEN 0 ELSE 1 END AS v FROM ({}) AS r",
    }[kind].format(numbers(kind, 200_000))
    with pytest.raises(DataSourceError):
        read(source, failing, 1000)
    assert read(source, "SELECT 1 AS n")["n"].to_pylist() == [1]


def test_a_closed_source_says_so(source: DataSource) -> None:
    source.close()
    source.close()
    with pytest.raises(DataSourceError, match="closed"):
        source.execute("SELECT 1")


@pytest.mark.parametrize("kind", ["sqlite", "mysql", "postgresql"], indirect=True)  # DuckDB opens a file once
def test_two_sources_of_one_database_in_two_threads(url: str, kind: str) -> None:
    counts: list[int] = []

    def work() -> None:
        with open_source(url) as mine:
            counts.extend(read(mine, numbers(kind, 20_000)).num_rows for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert counts == [20_000] * 6


def test_no_table_has_a_name_of_more_parts_than_the_engines(kind: str, source: DataSource) -> None:
    most, parts = {
        "duckdb": (3, "catalog.schema.table"),
        "sqlite": (2, "database.table"),
        "mysql": (2, "database.table"),
        "postgresql": (3, "database.schema.table"),
    }[kind]
    name = tuple("abcde")
    for table in (name, name[: most + 1], name[:most]):
        assert source.columns(table) is None
        assert source.mark(table) is None
        with pytest.raises(DataSourceError) as caught:
            source.write_table(table, NUMBERS, [batch(1)], Mark.RESULT)
        told = f"a table's name has at most {most} parts here, {parts}"
        assert (str(caught.value) == told) == (len(table) > most)


@pytest.mark.parametrize("kind", ["mysql"], indirect=True)
@pytest.mark.parametrize("value", ["-00:00:01", "24:00:00", "838:59:59.5", "-25:00:00"])
def test_a_duration_is_told_to_be_no_time_of_day(source: DataSource, value: str) -> None:
    source.execute("CREATE TABLE t (shift TIME(1))")
    source.execute(f"INSERT INTO t VALUES ('23:59:59.9'), (NULL), ('{value}')")
    with pytest.raises(DataSourceError) as caught:
        read(source, "SELECT shift FROM t")
    shown = value if "." in value else f"{value}.0"
    assert str(caught.value) == (
        f"column 'shift' holds {shown}, a duration and no time of day; select TIME_TO_SEC(shift)"
    )
    assert read(source, "SELECT TIME_TO_SEC(shift) AS s FROM t").num_rows == 3


@pytest.mark.parametrize("kind", SERVERS)
def test_no_password_shows(kind: str, source: DataSource, url: str) -> None:
    assert PASSWORD not in source.url + repr(source)
    assert ":***@" in source.url
    wrong = url.replace("p%40ss", "s%65cr%65t%40")
    with pytest.raises(DataSourceError) as caught:
        open_source(wrong)
    text = repr(caught.value) + str(caught.value)
    assert "s%65cr" not in text
    assert "secret" not in text
    with pytest.raises(DataSourceError) as caught:
        source.execute(f"SELECT '{PASSWORD}' + + FROM WHERE {PASSWORD!r}")
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_lost_connection_is_renewed(kind: str, source: DataSource, url: str) -> None:
    who, kill = {
        "mysql": ("SELECT CONNECTION_ID() AS id", "KILL {}"),
        "postgresql": ("SELECT pg_backend_pid() AS id", "SELECT pg_terminate_backend({})"),
    }[kind]
    if kind == "mysql":
        source.execute("USE information_schema")
    identity = read(source, who)["id"][0].as_py()
    with open_source(url) as admin:
        admin.execute(kill.format(identity))
    assert read(source, who)["id"][0].as_py() != identity
    if kind == "mysql":
        assert read(source, "SELECT DATABASE() AS d")["d"].to_pylist() == ["information_schema"]


@pytest.mark.parametrize("kind", SERVERS)
def test_a_connection_lost_in_a_stream_is_an_error(kind: str, source: DataSource, url: str) -> None:
    who, kill = {
        "mysql": ("SELECT CONNECTION_ID() AS id", "KILL {}"),
        "postgresql": ("SELECT pg_backend_pid() AS id", "SELECT pg_terminate_backend({})"),
    }[kind]
    identity = read(source, who)["id"][0].as_py()
    with open_source(url) as admin, source.query(numbers(kind, 20_000_000), 1000) as stream:
        next(stream.batches)
        admin.execute(kill.format(identity))
        with pytest.raises(DataSourceError):
            list(stream.batches)
    assert read(source, "SELECT 1 AS n")["n"].to_pylist() == [1]


@pytest.mark.parametrize("kind", SERVERS)
def test_a_closed_port_or_a_silent_server_is_an_error_in_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (mysql, postgresql):
        monkeypatch.setattr(module, "CONNECT_SECONDS", 2.0)
    with pytest.raises(DataSourceError, match=r"127\.0\.0\.1|refused"):
        open_source(f"{kind}://u:secret@127.0.0.1:{free_port()}/d")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = time.monotonic()
        with pytest.raises(DataSourceError) as caught:
            open_source(f"{kind}://u:secret@127.0.0.1:{silent.getsockname()[1]}/d")
        assert time.monotonic() - begin < 10
        assert "secret" not in str(caught.value)


def test_a_password_may_hold_any_character() -> None:
    server = server_url("mysql")
    with open_source(server) as admin:
        admin.execute("CREATE USER 'any'@'%' IDENTIFIED BY 'é:/@ %中'")
        try:
            place = server.rpartition("@")[2].rpartition("/")[0]
            with open_source(f"mysql://any:%C3%A9%3A%2F%40%20%25%E4%B8%AD@{place}/") as source:
                assert read(source, "SELECT 1 AS n")["n"].to_pylist() == [1]
        finally:
            admin.execute("DROP USER 'any'@'%'")


def test_the_go_drivers_form_of_url() -> None:
    place = server_url("mysql").partition("://")[2].replace("@", "@tcp(").replace("/test", ")/test")
    with open_source(f"mysql://{place}?maxAllowedPacket=0&parseTime=true") as source:
        assert read(source, "SELECT DATABASE() AS d")["d"].to_pylist() == ["test"]


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("not a database at all, only a text of some length" * 100)
    for url in (f"duckdb:///{tmp_path}/x.db", f"sqlite:///{tmp_path}/x.db", f"sqlite:///{tmp_path}/no/folder.db"):
        with pytest.raises(DataSourceError):
            open_source(url)
