"""The command as a process: output, errors, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, SECONDS, environment, run

MEMORY = ("--datasource", "duckdb://")


def test_rows_go_to_stdout_and_everything_else_to_stderr(tmp_path: Path) -> None:
    done = run(tmp_path, *MEMORY, "run", "-e", "CREATE TABLE t (a INT); INSERT INTO t VALUES (7); SELECT a FROM t")
    assert done.returncode == 0
    assert done.stdout == "a\n─\n7\n"
    assert [line.partition(" (")[0] for line in done.stderr.splitlines()] == ["OK", "OK, 1 row affected", "1 row"]
    assert "\x1b" not in done.stdout + done.stderr


def test_formats_and_quiet(tmp_path: Path) -> None:
    program = "SELECT 1 AS a, NULL AS b"
    done = run(tmp_path, *MEMORY, "--format", "json", "run", "--quiet", "-e", program)
    assert json.loads(done.stdout) == {"a": 1, "b": None}
    assert done.stderr == ""
    done = run(tmp_path, "run", *MEMORY, "--format", "csv", "-q", "-f", "-", stdin=program)
    assert done.stdout == "a,b\n1,\n"


def test_rows_left_out_are_told(tmp_path: Path) -> None:
    done = run(tmp_path, *MEMORY, "run", "--max-rows", "3", "-e", "SELECT * FROM range(10)")
    assert len(done.stdout.splitlines()) == 5
    assert done.stderr.startswith("… 7 more rows not shown\n10 rows (")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("run", "-e", "SELECT 1; SELECT * FROM nowhere"), 1, "error in statement 2 of 2: Catalog Error"),
        (("run", "-e", "SELECT 1 TO TRAIN"), 3, "error: line 1, column 18: "),
        (("run", "-e", "SELECT 1 AS a TO TRAIN Nothing LABEL a INTO m"), 3, "error: line 1, column 24: "),
        (("run",), 2, "give the program with -e SQL or with -f FILE"),
        (("run", "-e", "SELECT 1", "-f", "x.sql"), 2, "give the program with -e SQL or with -f FILE"),
        (("run", "-f", "missing.sql"), 2, "missing.sql cannot be read: No such file"),
        (("run", "--nonsense"), 2, "No such option"),
        (("repl",), 2, "the prompt needs a terminal"),
        (("compile", "-e", "SELECT 1"), 2, "one TO TRAIN, TO PREDICT or TO EVALUATE statement is needed, not 0"),
        (("compile", "-e", "SELECT 1 TO"), 3, "error: "),
        (("export", "nothing", "there"), 1, "error: there is no model nothing"),
        (("-d", "oracle://x", "run", "-e", "SELECT 1"), 1, "error: no data source of kind 'oracle'"),
    ],
)
def test_mistakes_are_a_message_and_an_exit_code(
    tmp_path: Path, arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    done = run(tmp_path, *MEMORY, *arguments)
    assert done.returncode == exit_code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mistake_is_shown_at_its_place(tmp_path: Path) -> None:
    done = run(tmp_path, *MEMORY, "run", "-e", "SELECT 1 AS a\nTO TRAIN Nothing LABEL a INTO m")
    assert done.stderr.splitlines()[-2:] == ["  TO TRAIN Nothing LABEL a INTO m", "           ^^^^^^^"]


def test_a_wrong_configuration_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "sqlflow-elastic.toml").write_text("datasourse = 'duckdb://'")
    done = run(tmp_path, "run", "-e", "SELECT 1")
    assert done.returncode == 2
    assert "did you mean 'datasource'?" in done.stderr


def test_the_data_source_comes_from_the_folder_s_configuration(tmp_path: Path) -> None:
    (tmp_path / "sqlflow-elastic.toml").write_text('datasource = "duckdb:///here.duckdb"\nformat = "csv"')
    assert run(tmp_path, "run", "-e", "CREATE TABLE t AS SELECT 1 AS a").returncode == 0
    assert (tmp_path / "here.duckdb").exists()
    assert run(tmp_path, "run", "-q", "-e", "SELECT * FROM t").stdout == "a\n1\n"


def test_nobody_reads_the_output_any_more(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        [COMMAND, *MEMORY, "--format", "csv", "run", "-e", "SELECT * FROM range(100000000)"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
    )
    os.close(theirs)
    with os.fdopen(ours) as output:
        assert output.readline() == "range\n"
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 141
    assert errors == b""


def test_a_program_is_compiled_to_stdout_or_a_file(tmp_path: Path, points: Path) -> None:
    arguments = ("--datasource", f"duckdb:///{points}", "compile", "-e")
    statement = "SELECT * FROM points TO TRAIN LinearClassifier LABEL above INTO m"
    done = run(tmp_path, *arguments, statement)
    assert done.returncode == 0, done.stderr
    compile(done.stdout, "program.py", "exec")
    assert run(tmp_path, *arguments, statement, "--output", "program.py").stdout == ""
    assert (tmp_path / "program.py").read_text() == done.stdout


def test_versions(tmp_path: Path) -> None:
    lines = run(tmp_path, "version").stdout.splitlines()
    assert lines[0].startswith("sqlflow-elastic ")
    assert any(line.startswith("tensorflow") for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ("version",),
        ("run", "-e", "SELECT 1 AS a"),
        ("run", "-e", "EXPLAIN SELECT * FROM points TO TRAIN LinearClassifier LABEL above INTO m; SHOW MODELS"),
        (
            "run",
            "-e",
            "SELECT * FROM points TO TRAIN LinearClassifier WITH train.epoch = 1 LABEL above INTO m; DROP MODEL m",
        ),
    ],
)
def test_the_command_never_imports_tensorflow(tmp_path: Path, points: Path, arguments: tuple[str, ...]) -> None:
    program = (
        "import sys\n"
        "from sqlflow_elastic.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    code = end.code\n"
        "print(code, [name for name in ('tensorflow', 'keras') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--datasource", f"duckdb:///{points}", *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment(tmp_path),
        check=False,
    )
    assert done.stderr.splitlines()[-1] in {"0 []", "None []"}
