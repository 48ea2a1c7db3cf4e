"""Sessions with statements that run jobs, on irises in DuckDB."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sklearn.datasets import load_iris

import sqlflow_elastic
from sqlflow_elastic import Session
from sqlflow_elastic.errors import CompileError, DataError, JobCancelled
from sqlflow_elastic.events import Event, Failed, Progress, Result, WorldChanged
from sqlflow_elastic.jobs.records import list_jobs
from tests.waiting import wait_until

SECONDS = 60.0
TRAIN = """SELECT * EXCLUDE (part) FROM iris WHERE part <> 0
TO TRAIN DNNClassifier WITH model.hidden_units = [16, 8], train.epoch = {epochs}, train.seed = 1
LABEL species INTO {name}"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with sqlflow_elastic.connect("duckdb://", work_dir=tmp_path_factory.mktemp("jobs")) as session:
        irises = load_iris()
        session.sql(
            "CREATE TABLE iris (sepal_length DOUBLE, sepal_width DOUBLE, petal_length DOUBLE, petal_width DOUBLE, "
            "species TEXT, part INT)"
        )
        rows = [
            f"({', '.join(map(str, numbers))}, '{irises.target_names[kind]}', {index % 5})"
            for index, (numbers, kind) in enumerate(zip(irises.data, irises.target, strict=True))
        ]
        session.sql(f"INSERT INTO iris VALUES {', '.join(rows)}")
        yield session


@pytest.fixture(scope="module")
def model(session: Session) -> str:
    session.sql(TRAIN.format(epochs=60, name="kept"))
    return "kept"


def left_behind(session: Session) -> set[str]:
    """What is in the folders of jobs besides what stays for people to read."""
    kept = {"events.jsonl", "lock", "logs", "program.py", "tensorboard", "timeline.json"}
    names = {path.name for path in session._context.jobs_folder.glob("j-*/*")} - kept
    return {name for name in names if not name.startswith("state.db")}


def job_processes() -> list[psutil.Process]:
    """The children of our fork servers."""
    return [process for server in psutil.Process().children() for process in server.children()]


def worker(session: Session) -> int:
    """The process of the only worker that runs for the newest job."""
    _, record = list_jobs(session._context.jobs_folder, None)[0]
    assert record is not None
    (process,) = (process for process in record.processes if process.phase == "running")
    assert process.pid is not None
    return process.pid


def steps_of_the_newest(session: Session) -> int:
    """How many steps the newest job has taken, as other sessions see it."""
    _, record = list_jobs(session._context.jobs_folder, None)[0]
    assert record is not None
    return record.progress.step or 0


def last_of(session: Session, program: str) -> Event:
    *_, last = session.execute(program)
    return last


def test_training_tells_its_way_and_stores_a_model(session: Session) -> None:
    events = list(session.execute(TRAIN.format(epochs=5, name="trained")))
    phases = [event.phase for event in events if isinstance(event, Progress)]
    assert [phase for i, phase in enumerate(phases) if phase not in phases[:i]] == [
        "reading",
        "preparing",
        "training",
        "saving",
    ]
    result = events[-1]
    assert isinstance(result, Result)
    assert result.text.startswith("Trained DNNClassifier on 120 rows; saved as trained")
    assert result.values["rows"] == 120
    assert "trained" in session.models()
    assert left_behind(session) == set()


def test_evaluation_and_prediction(session: Session, model: str) -> None:
    rest = "SELECT * EXCLUDE (part) FROM iris WHERE part = 0"
    metrics = session.sql(f"{rest} TO EVALUATE {model} WITH validation.metrics = 'Accuracy' LABEL species")
    assert metrics.column_names == ["accuracy"]
    assert metrics["accuracy"][0].as_py() >= 0.9
    session.sql(f"{rest} TO EVALUATE {model} WITH validation.metrics = 'Accuracy' LABEL species INTO scores")
    assert session.sql("SELECT * FROM scores").equals(metrics)
    result = last_of(session, f"{rest} TO PREDICT predicted.kind USING {model}")
    assert isinstance(result, Result)
    assert result.values == {"rows": 30}
    right = session.sql("SELECT count(*) AS n FROM predicted WHERE kind = species")["n"][0].as_py()
    assert right == round(metrics["accuracy"][0].as_py() * 30)


def test_a_model_can_be_asked_about_and_dropped(session: Session, model: str) -> None:
    shown = session.sql(f"SHOW TRAIN {model}").to_pydict()
    assert shown == {"Model": [model], "Train Statement": [TRAIN.format(epochs=60, name="kept")]}
    models = {row["Model"]: row for row in session.sql("SHOW MODELS").to_pylist()}
    assert models[model]["Estimator"] == "DNNClassifier"
    assert models[model]["Label"] == "species"
    assert models[model]["Rows"] == 120
    described = dict(zip(*session.sql(f"DESCRIBE MODEL {model}").to_pydict().values(), strict=True))
    assert described["fields"].startswith("sepal_length double, ")
    assert described["features"].splitlines()[0] == 'Dense("sepal_length")'
    assert described["attributes"] == "model.hidden_units = [16, 8]"
    session.sql(TRAIN.format(epochs=1, name="dropped"))
    assert last_of(session, "DROP MODEL dropped") != last_of(session, "DROP MODEL IF EXISTS dropped")
    assert "dropped" not in session.models()


def test_training_goes_on_from_a_model(session: Session, model: str) -> None:
    statement = TRAIN.format(epochs=1, name="going_on").replace("INTO", f"USING {model} INTO")
    result = last_of(session, statement)
    assert isinstance(result, Result), result
    rest = "SELECT * EXCLUDE (part) FROM iris WHERE part = 0"
    metrics = session.sql(f"{rest} TO EVALUATE going_on WITH validation.metrics = 'Accuracy' LABEL species")
    assert metrics["accuracy"][0].as_py() >= 0.9


def test_the_plan_is_explained_without_a_job(session: Session) -> None:
    plan = session.sql(f"EXPLAIN {TRAIN.format(epochs=1, name='never')}")
    assert plan.column_names == ["part", "item", "detail"]
    assert "never" not in session.models()


def test_a_mistake_is_found_before_anything_runs(session: Session) -> None:
    before = session.jobs()
    failed = last_of(session, TRAIN.format(epochs=1, name="never").replace("species", "spezies"))
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, CompileError)
    assert session.jobs() == before


def test_wrong_data_names_the_statement_and_leaves_nothing(session: Session) -> None:
    session.sql(
        "CREATE TABLE holed AS SELECT * REPLACE (CASE WHEN rowid = 149 THEN NULL ELSE species END AS species) FROM iris"
    )
    failed = last_of(
        session, TRAIN.format(epochs=1, name="never").replace("iris", "holed").replace("part <> 0", "true")
    )
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, DataError)
    assert "species" in str(failed.error)
    assert "in: SELECT * EXCLUDE (part) FROM holed WHERE true" in str(failed.error)
    assert "never" not in session.models()
    assert left_behind(session) == set()


def test_closing_ends_the_job(session: Session) -> None:
    events = session.execute(TRAIN.format(epochs=100_000, name="never"))
    for event in events:
        if isinstance(event, Progress) and event.phase == "training":
            break
    assert len(job_processes()) == 2  # master and worker
    events.close()
    assert job_processes() == []
    assert left_behind(session) == set()
    assert "never" not in session.models()


def test_cancel_ends_the_job(session: Session) -> None:
    last: Event | None = None
    for event in session.execute(TRAIN.format(epochs=100_000, name="never")):
        if isinstance(event, Progress) and event.phase == "training" and last is not None:
            threading.Thread(target=session.cancel).start()
        last = event
    assert isinstance(last, Failed)
    assert isinstance(last.error, JobCancelled)
    assert job_processes() == []
    assert "never" not in session.models()


def test_kill_job_of_another_session_ends_master_and_workers(session: Session) -> None:
    statement = TRAIN.format(epochs=100_000, name="never").replace("WITH", "WITH train.num_workers = 2,")
    result = last = None
    with sqlflow_elastic.connect("sqlite://", work_dir=session._context.jobs_folder) as other:
        for event in session.execute(statement):
            if isinstance(event, Progress) and event.phase == "training" and result is None:
                # The session does not read meanwhile, and much is told.
                wait_until(lambda: steps_of_the_newest(session) >= 40_000, SECONDS)
                result = last_of(other, f"KILL JOB {other.jobs()[0]}")
            last = event
        assert other.sql("SHOW JOBS")["state"][0].as_py() == "cancelled"
    assert isinstance(result, Result)
    assert result.values["state"] == "cancelled"
    assert isinstance(last, Failed)
    assert isinstance(last.error, JobCancelled)
    assert str(last.error).endswith("was ended by KILL JOB")
    assert job_processes() == []
    assert left_behind(session) == set()


def test_a_job_whose_worker_is_killed_ends_as_if_undisturbed(session: Session) -> None:
    statement = (
        "SELECT * EXCLUDE (part) FROM iris TO TRAIN DNNClassifier WITH model.hidden_units = [16], train.epoch = 1000, "
    )
    statement += "train.save_checkpoints_steps = 100 LABEL species INTO {name}"
    session.sql(statement.format(name="undisturbed"))
    killed, worlds = False, []
    for event in session.execute(statement.format(name="disturbed")):
        if isinstance(event, Progress) and event.phase == "training" and not killed:
            killed = True
            os.kill(worker(session), signal.SIGKILL)
        if isinstance(event, WorldChanged):
            worlds.append(event.members)
    assert len(worlds) == 2
    assert worlds[0] != worlds[1]
    for name in ("undisturbed", "disturbed"):
        session.sql(f"SELECT * EXCLUDE (part) FROM iris TO EVALUATE {name} LABEL species INTO {name}_scores")
    first, second = (session.sql(f"SELECT * FROM {name}_scores").to_pydict() for name in ("undisturbed", "disturbed"))
    assert first == second


def test_compile_gives_programs_and_runs_nothing(session: Session) -> None:
    program, other = session.compile(
        f"SELECT 1; {TRAIN.format(epochs=1, name='never')}; {TRAIN.format(epochs=2, name='never')}"
    )
    assert "epochs=1" in program
    assert "epochs=2" in other
    assert "never" not in session.models()


def test_a_model_is_exported(session: Session, model: str, tmp_path: Path) -> None:
    session.export(model, tmp_path / "exported")
    assert any((tmp_path / "exported").iterdir())


def test_predictions_replace_a_column_of_their_name_whatever_its_case(session: Session, model: str) -> None:
    session.sql(f"SELECT * FROM iris WHERE part = 0 TO PREDICT cased.SPECIES USING {model}")
    assert session.sql("SELECT * FROM cased LIMIT 1").column_names[-2:] == ["part", "SPECIES"]
    for select, target, message in (
        ("SELECT *", "Sepal_Width", "'Sepal_Width' is a feature of the model 'kept'"),
        ("SELECT *, 1 AS a, 2 AS A", "species", "the SELECT gives 'a', 'A', which a table cannot have side by side"),
    ):
        failed = last_of(session, f"{select} FROM iris TO PREDICT cased2.{target} USING {model}")
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, CompileError)
        assert failed.error.message.startswith(message)


def test_a_metric_that_rows_do_not_define_is_null(session: Session) -> None:
    two = "SELECT * EXCLUDE (part) FROM iris WHERE species <> 'virginica'"
    session.sql(f"{two} TO TRAIN LinearClassifier WITH train.max_steps = 1 LABEL species INTO of_two")
    session.sql(
        f"{two} AND species = 'setosa' TO EVALUATE of_two WITH validation.metrics = 'AUC' LABEL species INTO undefined"
    )
    assert session.sql("SELECT * FROM undefined").to_pylist() == [{"auc": None}]


def test_a_wrong_value_is_told_with_the_select_it_comes_from(session: Session) -> None:
    select = "SELECT * REPLACE ('rose' AS species) FROM iris"
    train = TRAIN.format(epochs=1, name="n").replace("WITH ", f'WITH validation.select = "{select}", ')
    failed = last_of(session, train)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, DataError)
    assert str(failed.error) == (
        "row 1: field 'species' is 'rose', expected a class out of 'setosa', 'versicolor', 'virginica'\n  in: " + select
    )


def test_a_place_that_cannot_be_written_is_told_before_anything_is_read(session: Session, model: str) -> None:
    tables = session.tables()
    for text in (
        TRAIN.format(epochs=1, name="nowhere.m"),
        f"SELECT * FROM iris TO PREDICT nowhere.p.species USING {model}",
        f"SELECT * FROM iris TO EVALUATE {model} LABEL species INTO nowhere.e",
    ):
        events = list(session.execute(text))
        assert not [event for event in events if isinstance(event, Progress)]
        failed = events[-1]
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, CompileError)
        assert failed.error.message.startswith("the table 'nowhere.")
        assert failed.error.message.endswith(
            "cannot be written: Catalog Error: Schema with name nowhere does not exist!"
        )
        assert text[failed.error.span.start :].startswith("nowhere.")
    assert session.tables() == tables


def test_a_name_of_too_many_parts_is_told_at_its_place(session: Session, model: str) -> None:
    for text in (
        TRAIN.format(epochs=1, name="a.b.c.d"),
        f"SELECT * FROM iris TO PREDICT a.b.c.d.species USING {model}",
        f"SELECT * FROM iris TO EVALUATE {model} LABEL species INTO a.b.c.d",
    ):
        failed = last_of(session, text)
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, CompileError)
        assert failed.error.message == (
            "the table 'a.b.c.d' cannot be written: a table's name has at most 3 parts here, catalog.schema.table"
        )
        assert text[failed.error.span.start :].startswith("a.b.c.d")


def test_a_damaged_model_is_listed_as_one(session: Session, model: str) -> None:
    session.sql(f"{TRAIN.format(epochs=1, name='hurt')}; UPDATE hurt SET metadata = '' WHERE part = 0")
    rows = session.sql("SHOW MODELS").to_pylist()
    assert [row["Metrics"] for row in rows if row["Model"] == "hurt"] == ["damaged"]
    assert [row["Estimator"] for row in rows if row["Model"] == model] == ["DNNClassifier"]
    session.sql("DROP MODEL hurt")


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_number_to_learn_that_is_none_is_told(session: Session, value: str) -> None:
    select = f"SELECT sepal_width, CASE WHEN part = 1 THEN '{value}'::DOUBLE ELSE part END AS y FROM iris"
    failed = last_of(session, f"{select} TO TRAIN LinearRegressor LABEL y INTO n")
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, DataError)
    assert str(failed.error).startswith("row 2: field 'y' is ")
