"""A disk that takes no more: here a limit on the size of files, which refuses in the same places."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import sqlflow_elastic
from sqlflow_elastic.datasource import Mark
from sqlflow_elastic.errors import StorageError

TRAIN = "SELECT * FROM wide TO TRAIN LinearClassifier WITH train.epoch = 1 LABEL y INTO model"


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """For this process and for those it starts meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("where", ["session", "job"])
def test_it_is_told_in_a_line_and_nothing_is_left(tmp_path: Path, where: str) -> None:
    with sqlflow_elastic.connect("duckdb://", work_dir=tmp_path) as session:
        session.sql("CREATE TABLE wide AS SELECT random() a, random() b, i % 2 y FROM range(1_000_000) t (i)")
        with files_of_at_most(6_000_000):  # which the job's state does not need
            session.warm_up()  # the job gets the limit of the one that starts it
            if where == "session":
                with pytest.raises(StorageError) as caught:
                    session.sql(TRAIN)
        if where == "job":
            with pytest.raises(StorageError) as caught:
                session.sql(TRAIN)
        assert str(caught.value).startswith(f"the job's folder {tmp_path}")
        assert str(caught.value).endswith(" cannot be written: File too large")
        assert takes_little_room(tmp_path)
        assert session.models() == []


def test_an_export_names_the_folder_that_cannot_be_made(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with sqlflow_elastic.connect("duckdb://", work_dir=tmp_path / "jobs") as session:
        session.sql("CREATE TABLE wide AS SELECT random() a, i % 2 y FROM range(100) t (i)")
        session.sql(TRAIN)
        with pytest.raises(StorageError) as caught:
            session.export("model", file / "here")
        assert str(caught.value) == f"{file / 'here'} cannot be written to: Not a directory"


def test_an_export_that_is_not_taken_leaves_what_was_there(tmp_path: Path) -> None:
    earlier = tmp_path / "earlier"
    with sqlflow_elastic.connect("duckdb://", work_dir=tmp_path / "jobs") as session:
        session.sql("CREATE TABLE wide AS SELECT random() a, i % 2 y FROM range(100) t (i)")
        session.sql(TRAIN)
        session.export("model", earlier)
        (earlier / "notes").touch()
        session.export("model", earlier)
        before = contents(earlier)
        with sqlflow_elastic.connect("duckdb://", work_dir=tmp_path / "jobs") as small:
            small.source.write_table(
                ("model",),
                session.sql("FROM model").schema,
                session.sql("FROM model ORDER BY part").to_batches(),
                Mark.MODEL,
            )
            with files_of_at_most(20_000):
                small.warm_up()
            for directory in (earlier, tmp_path / "new" / "folder"):
                with pytest.raises(StorageError) as caught:
                    small.export("model", directory)
                assert str(caught.value) == "the exported model cannot be written: File too large"
    assert contents(earlier) == before
    assert {name.split("/")[0] for name in before} == {"model.json", "model.keras", "notes", "saved_model"}
    assert not (tmp_path / "new").exists()
    assert takes_little_room(tmp_path / "jobs")


def takes_little_room(jobs: Path) -> bool:
    """Whether what stays of jobs takes little room."""
    return sum(path.stat().st_size for path in jobs.glob("**/*") if path.is_file()) < 1_000_000


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
