"""Where large files of models are: whole or not at all, and nothing else is ever removed."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.models.storage import Storage

SECRET = "s3://KEY:pass%2Fword@bucket/a/b?region=eu-west-1"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "0.table", tmp_path / "1.table"]
    for path in paths:
        path.write_text(path.name)
    return paths


@pytest.fixture(params=["{}/s", "file://{}/s"], ids=["path", "URL"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return Storage(str(request.param).format(tmp_path))


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_files_are_put_aside_each_time(storage: Storage, files: list[Path], tmp_path: Path) -> None:
    first, second = storage.put(files), storage.put(files[:1])
    assert first != second
    assert contents(tmp_path / "s" / Path(first).name) == {"0.table": "0.table", "1.table": "1.table"}
    assert len(list((tmp_path / "s").iterdir())) == 2
    storage.remove(first)
    assert [path.name for path in (tmp_path / "s").iterdir()] == [Path(second).name]
    assert [path.read_text() for path in files] == ["0.table", "1.table"]


def test_nothing_is_left_of_what_cannot_be_put(storage: Storage, files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ModelStoreError, match=rf"cannot be written to {storage.shown}: .*[Nn]o such file"):
        storage.put([*files, tmp_path / "missing.table"])
    assert list((tmp_path / "s").iterdir()) == []


def test_a_storage_that_cannot_be_written_is_told(tmp_path: Path, files: list[Path]) -> None:
    (tmp_path / "file").write_text("")
    for where in (str(tmp_path / "file" / "s"), f"file://{tmp_path}/file/s"):
        with pytest.raises(ModelStoreError, match="cannot be written to"):
            Storage(where).put(files)


def test_files_are_copied_where_they_cannot_be_linked(
    tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    storage = Storage(tmp_path / "s")
    location = storage.put(files)
    assert storage.lend(location, ["0.table"], tmp_path / "job") is None
    assert (tmp_path / "job" / "0.table").read_text() == "0.table"
    assert (tmp_path / "job" / "0.table").is_symlink()


def test_only_what_was_put_is_removed(tmp_path: Path, files: list[Path]) -> None:
    storage = Storage(tmp_path)
    kept = tmp_path / "precious"
    kept.mkdir()
    (kept / "file").write_text("")
    for location in (str(kept), str(tmp_path), "/", ""):
        with pytest.raises(ModelStoreError, match="is not removed"):
            storage.remove(location)
    location = storage.put(files)
    (Path(location) / "another file").write_text("")
    with pytest.raises(ModelStoreError, match="are left"):
        storage.remove(location)
    assert [path.name for path in Path(location).iterdir()] == ["another file"]
    assert (kept / "file").exists()
    with pytest.raises(ModelStoreError, match="are left: No such file"):
        storage.remove(f"{tmp_path}/0123456789abcdef")
    with pytest.raises(ModelStoreError, match="not in the setting storage"):
        storage.remove("s3://bucket/0123456789abcdef")


def test_credentials_are_never_shown(files: list[Path]) -> None:
    storage = Storage(SECRET)
    assert storage.shown == "s3://bucket/a/b"
    assert "KEY" not in repr(storage)
    with pytest.raises(ModelStoreError) as told:
        storage.lend("s3://other/0123456789abcdef", ["0.table"], files[0].parent)
    assert str(told.value) == (
        "the model's tables are in s3://other/0123456789abcdef, which is not in the setting storage (s3://bucket/a/b)"
    )
    for url in ("s4://KEY:pass%2Fword@bucket/a?region=x", "s3://KEY:pass%2Fword@bucket/a?colour=x"):
        with pytest.raises(ModelStoreError, match="cannot be written") as told:
            Storage(url).put(files)
        assert not any(secret in str(told.value) for secret in ("KEY", "pass", "word@", "colour=x", "region"))
