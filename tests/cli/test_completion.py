"""What completion offers, by what stands before the cursor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

import sqlflow_elastic
from sqlflow_elastic.cli.completion import ProgramCompleter
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.session.job import statement_job


@pytest.fixture
def completer(tmp_path: Path) -> Iterator[ProgramCompleter]:
    with sqlflow_elastic.connect("duckdb://", work_dir=tmp_path) as session:
        session.sql("CREATE TABLE irises (petal_length DOUBLE, petal_width DOUBLE, label TEXT)")
        yield ProgramCompleter(session)


def offered(completer: ProgramCompleter, text: str) -> list[str]:
    return [completion.text for completion in completer.get_completions(Document(text), CompleteEvent())]


TRAIN = "SELECT * FROM irises TO TRAIN DNNClassifier "


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("sel", {"SELECT"}),
        ("SELECT * FROM ", {"irises"}),
        ("SELECT 1; SELECT * FROM iri", {"irises"}),
        ("SELECT * FROM irises WHERE petal_", {"petal_length", "petal_width"}),
        ("SELECT * FROM irises TO ", {"TRAIN", "PREDICT", "EVALUATE"}),
        ("SELECT * FROM irises TO TRAIN dnn", {"DNNClassifier", "DNNRegressor"}),
        (TRAIN + "WITH ", {"model.", "train.", "validation.", "optimizer."}),
        (TRAIN + "WITH model.", {"model.hidden_units", "model.dropout", "model.n_classes"}),
        (TRAIN + "WITH train.epoch = 3, optimizer.", {"optimizer.learning_rate"}),
        (TRAIN + "WITH model.optimizer = ", {"Adam", "SGD"}),
        (TRAIN + "WITH train.epoch = 1 LABEL ", {"label"}),
        (TRAIN + "COLUMN ", {"petal_length", "EMBEDDING", "BUCKET"}),
    ],
)
def test_offers(completer: ProgramCompleter, text: str, among: set[str]) -> None:
    assert among <= set(offered(completer, text))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (TRAIN + "WITH model.", "model.linear_optimizer"),
        ("SELECT * FROM irises TO TRAIN LinearClassifier WITH model.", "model.hidden_units"),
        ("SELECT * FROM ", "SELECT"),
    ],
)
def test_does_not_offer_what_would_be_wrong(completer: ProgramCompleter, text: str, word: str) -> None:
    assert word not in offered(completer, text)


@pytest.mark.parametrize("text", ["SHOW JOB ", "kill job j-", "SELECT 1; SHOW JOB {whole}"])
def test_offers_the_jobs_there_are(completer: ProgramCompleter, text: str) -> None:
    with statement_job(completer._session._context, JobRequest(JobKind.EVALUATE, "model", "")) as folder:
        id = folder.path.name
        assert id in offered(completer, text.format(whole=id[:-1]))


def test_what_changed_is_seen_after_forget(completer: ProgramCompleter) -> None:
    assert offered(completer, "SELECT * FROM new") == []
    completer._session.sql("CREATE TABLE new_table (a INT)")
    assert offered(completer, "SELECT * FROM new") == []
    completer.forget()
    assert offered(completer, "SELECT * FROM new") == ["new_table"]
