"""The prompt in a real terminal."""

from __future__ import annotations

import stat
from pathlib import Path

from tests.cli.command import Terminal, family, run

MEMORY = ("--datasource", "duckdb://", "repl")
PROMPT = "sqlflow>"
ENTER, TAB, CTRL_C, CTRL_D, UP = "\r", "\t", "\x03", "\x04", "\x1b[A"


def test_statements_run_and_mistakes_leave_the_session(tmp_path: Path) -> None:
    with Terminal(tmp_path, *MEMORY) as terminal:
        terminal.expect(PROMPT)
        terminal.enter("CREATE TABLE t AS SELECT 41 + 1 AS answer;" + ENTER)
        terminal.expect("1 row affected")
        terminal.enter("SELECT * FROM nowhere;" + ENTER)
        terminal.expect("error: Catalog Error")
        terminal.enter("SELECT * FROM t" + ENTER)
        terminal.expect("...")
        terminal.enter("WHERE true;" + ENTER)
        terminal.expect("answer")
        terminal.expect("42")
        terminal.expect("1 row (")
        terminal.expect(PROMPT)
        terminal.enter(CTRL_D)
        assert terminal.exit_code() == 0


def test_ctrl_c_drops_the_line_and_stops_a_statement(tmp_path: Path) -> None:
    with Terminal(tmp_path, *MEMORY) as terminal:
        terminal.expect(PROMPT)
        terminal.enter("SELECT nonsense")
        terminal.expect("nonsense")
        terminal.enter(CTRL_C)
        terminal.expect(PROMPT)
        terminal.enter("SELECT 1 AS begun; SELECT count(*) FROM range(100000000000) a, range(1000000);" + ENTER)
        terminal.expect("1 row (")
        terminal.interrupt()
        terminal.expect("the statement was stopped")
        terminal.expect(PROMPT)
        terminal.enter("SELECT 6 * 7 AS answer;" + ENTER)
        terminal.expect("42")
        terminal.enter("\\q" + ENTER)
        assert terminal.exit_code() == 0


def test_training_shows_its_progress_and_leaves_nothing_behind(tmp_path: Path, points: Path) -> None:
    with Terminal(tmp_path, "--datasource", f"duckdb:///{points}", "repl") as terminal:
        terminal.expect(PROMPT)
        terminal.enter("SELECT * FROM points TO TRAIN LinearClassifier WITH train.epoch = 1000000 LABEL above INTO m;")
        terminal.enter(ENTER)
        terminal.expect("samples/s")
        processes = family(terminal.process.pid)
        assert len(processes) == 3  # the fork server, the master and its worker
        terminal.interrupt()
        terminal.expect("the job was stopped")
        terminal.expect(PROMPT)
        assert not any(process.is_running() for process in processes[1:])
        terminal.enter("\\q" + ENTER)
        assert terminal.exit_code() == 0
        assert not processes[0].is_running()


def test_completion(tmp_path: Path, points: Path) -> None:
    with Terminal(tmp_path, "--datasource", f"duckdb:///{points}", "repl") as terminal:
        terminal.expect(PROMPT)
        terminal.enter("SELECT * FROM poi" + TAB)
        terminal.expect("nts")
        terminal.enter(" TO TRAIN DNNC" + TAB)
        terminal.expect("lassifier")
        terminal.enter(" WITH model.hid" + TAB)
        terminal.expect("den_units")
        terminal.enter(CTRL_C)
        terminal.expect(PROMPT)
        terminal.enter("\\q" + ENTER)
        assert terminal.exit_code() == 0


def test_what_was_typed_is_kept_for_the_user_alone(tmp_path: Path) -> None:
    with Terminal(tmp_path, *MEMORY) as terminal:
        terminal.expect(PROMPT)
        terminal.enter("SELECT 'kept' AS word;" + ENTER)
        terminal.expect("1 row (")
        terminal.enter("\\q" + ENTER)
        assert terminal.exit_code() == 0
    history = tmp_path / ".local/state/sqlflow-elastic/history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    with Terminal(tmp_path, *MEMORY) as terminal:
        terminal.expect(PROMPT)
        terminal.enter(UP)
        terminal.enter(UP)
        terminal.expect("SELECT 'kept' AS word;")
        terminal.enter(ENTER)
        terminal.expect("1 row (")


def test_help(tmp_path: Path) -> None:
    with Terminal(tmp_path, *MEMORY) as terminal:
        terminal.expect(PROMPT)
        terminal.enter("\\?" + ENTER)
        terminal.expect("SELECT … TO TRAIN model")
        terminal.enter("\\? DNNClassifier" + ENTER)
        terminal.expect("model.hidden_units")
        terminal.expect("optimizer.learning_rate")
        terminal.enter("\\x" + ENTER)
        terminal.expect("\\x is no command")


def test_the_prompt_needs_a_terminal(tmp_path: Path) -> None:
    assert run(tmp_path, *MEMORY, stdin="SELECT 1;").returncode == 2
