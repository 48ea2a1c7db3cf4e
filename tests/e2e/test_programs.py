"""What becomes of a statement's program: taken away and run alone, killed and gone on, gone on from a trained model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import sqlflow_elastic
from sqlflow_elastic.events import Message, Progress, Result
from sqlflow_elastic.models.store import load_model
from sqlflow_elastic.session import Session

ROWS = 2_000


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"duckdb:///{tmp_path_factory.mktemp('programs')}/programs.duckdb"


@pytest.fixture(scope="module")
def session(url: str) -> Iterator[Session]:
    with sqlflow_elastic.connect(url) as session:
        session.sql(
            f"CREATE TABLE t AS SELECT sin(i) AS a, cos(i * 7) AS b, CASE WHEN i % 3 = 0 THEN 'x' ELSE 'y' END AS c, "
            f"CAST(sin(i) + cos(i * 7) > 0 AS INTEGER) AS y FROM range({ROWS}) AS r(i)"
        )
        yield session


def run_alone(program: Path, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, program.name, *arguments],
        cwd=program.parent,
        env={**os.environ, "SQLFLOW_ELASTIC_DATASOURCE": url, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def compile_program(url: str, statement: str, into: Path) -> Path:
    command = Path(sys.executable).with_name("sqlflow-elastic")
    subprocess.run([command, "--datasource", url, "compile", "--output", into, "-e", statement], check=True, timeout=60)
    return into


def weights(session: Session, model: str, folder: Path) -> list[Any]:
    from sqlflow_elastic.models.artifact import load_artifact

    path = folder / f"{model}.artifact"
    load_model(session.source, (model,), path)
    return list(load_artifact(path).model.get_weights())


def test_a_program_trains_predicts_and_evaluates_by_itself(tmp_path: Path) -> None:
    database = tmp_path / "alone.sqlite"
    url = f"sqlite:///{database}"
    with sqlflow_elastic.connect(url) as session:
        session.sql("CREATE TABLE t (a REAL, y INTEGER)")
        session.sql("INSERT INTO t VALUES (1, 0), (2, 0), (3, 1), (4, 1), (5, 1), (0, 0)")
        session.sql("SELECT * FROM t TO TRAIN LinearClassifier LABEL y INTO m")
        for kind, statement in {
            "train": "SELECT * FROM t TO TRAIN LinearClassifier WITH train.epoch = 3, train.batch_size = 8 "
            "LABEL y INTO m",
            "predict": "SELECT a FROM t TO PREDICT p.y USING m",
            "evaluate": "SELECT * FROM t TO EVALUATE m LABEL y INTO e",
        }.items():
            compile_program(url, statement, tmp_path / f"{kind}.py")

    trained = run_alone(tmp_path / "train.py", url, "--folder", "job")
    assert trained.returncode == 0, trained.stderr
    assert "training: 3 of 3 steps, epoch 3 of 3" in trained.stderr
    model = "job/output/model.artifact"
    predicted = run_alone(tmp_path / "predict.py", url, "--model", model, "--folder", "predicted")
    assert predicted.returncode == 0, predicted.stderr
    assert json.loads((tmp_path / "predicted/output/predictions/manifest.json").read_text())["rows"] == 6
    evaluated = run_alone(tmp_path / "evaluate.py", url, "--model", model, "--folder", "evaluated")
    assert evaluated.returncode == 0, evaluated.stderr
    assert 0 <= json.loads((tmp_path / "evaluated/output/summary.json").read_text())["metrics"]["accuracy"] <= 1


def test_a_program_that_lacks_its_model_says_how_to_give_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lacking.sqlite"
    with sqlflow_elastic.connect(url) as session:
        session.sql("CREATE TABLE t (a REAL, y INTEGER)")
        session.sql("INSERT INTO t VALUES (1, 0), (2, 1)")
        session.sql("SELECT * FROM t TO TRAIN LinearClassifier LABEL y INTO m")
        program = compile_program(url, "SELECT a FROM t TO PREDICT p.y USING m", tmp_path / "predict.py")
    ended = run_alone(program, url)
    assert ended.returncode == 1
    assert "error: this program starts from a trained model: give its file with --model\n" in ended.stderr


def test_a_program_that_runs_again_reads_the_rows_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/again.sqlite"
    with sqlflow_elastic.connect(url) as session:
        session.sql("CREATE TABLE t (a REAL, y INTEGER)")
        session.sql("INSERT INTO t VALUES (1, 0), (2, 1)")
        statement = "SELECT * FROM t TO TRAIN LinearClassifier LABEL y INTO m"
        program = compile_program(url, statement, tmp_path / "program.py")
        for rows in (2, 3):
            assert run_alone(program, url, "--folder", "job").returncode == 0
            assert json.loads((tmp_path / "job/output/summary.json").read_text())["rows"] == rows
            session.sql("INSERT INTO t VALUES (3, 1)")


def test_a_killed_job_goes_on_to_the_same_weights(session: Session, tmp_path: Path) -> None:
    statement = (
        "SELECT * FROM t TO TRAIN DNNClassifier WITH model.hidden_units = [16], train.epoch = 40, "
        "train.batch_size = 8, train.save_checkpoints_steps = 500 LABEL y INTO "
    )
    session.sql(statement + "undisturbed")
    rounds = 0
    said = []
    for event in session.execute(statement + "disturbed"):
        if isinstance(event, Progress) and event.phase == "training" and event.done > 1000 * (rounds + 1) < 3000:
            rounds += 1
            for process in psutil.Process().children(recursive=True):  # the master and its worker
                if process.status() != psutil.STATUS_ZOMBIE and not process.children():
                    process.kill()
        if isinstance(event, Message):
            said.append(event.text)
    assert rounds == 2
    assert sum("the job's master was ended by SIGKILL" in text for text in said) == 2, said
    assert sum("goes on after step" in text for text in said) == 2, said
    import numpy as np

    for left, right in zip(
        weights(session, "undisturbed", tmp_path), weights(session, "disturbed", tmp_path), strict=True
    ):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-6)


def test_training_goes_on_from_a_trained_model(session: Session) -> None:
    clauses = "TO TRAIN DNNClassifier WITH model.hidden_units = [16], train.epoch = 5 LABEL y"
    losses = []
    for program in (f"SELECT * FROM t {clauses} INTO first", f"SELECT * FROM t {clauses} USING first INTO second"):
        *_, last = session.execute(program)
        assert isinstance(last, Result), last
        losses.append(last.values["loss"])
    assert losses[1] < losses[0]
    assert session.sql("SELECT a, b, c FROM t LIMIT 5 TO PREDICT p.y USING second; SELECT * FROM p").num_rows == 5
