"""The model store, over all four engines."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sqlflow_elastic.datasource import DataSource, Mark
from sqlflow_elastic.errors import DataSourceError, ModelStoreError
from sqlflow_elastic.models import store
from sqlflow_elastic.models.store import (
    CHUNK_BYTES,
    ModelMetadata,
    drop_model,
    list_models,
    load_metadata,
    load_model,
    save_model,
)
from tests.datasource.conftest import kind, source, url

__all__ = ["kind", "source", "url"]


def metadata(name: str = "m") -> ModelMetadata:
    return ModelMetadata(
        name=name,
        statement="SELECT * FROM 花 TO TRAIN DNNClassifier WITH x = 'it''s 100%' LABEL y INTO m;",
        estimator="DNNClassifier",
        features=[{"field": "a", "kind": "numeric", "mean": 0.1}],
        label="y",
        fields={"a": "double", "y": "string"},
        metrics={"accuracy": 0.97},
        program="print('\\n')\n",
        versions={"python": "3.11"},
        created="2026-01-02T03:04:05+00:00",
        rows=150,
        seconds=1.5,
    )


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """Two and a half chunks of every byte there is."""
    path = tmp_path / "artifact"
    path.write_bytes(bytes(range(256)) * (CHUNK_BYTES * 5 // 2 // 256) + b"end")
    return path


def test_a_model_comes_back_as_it_was(source: DataSource, artifact: Path, tmp_path: Path) -> None:
    saved = save_model(source, ("m",), metadata(), artifact)
    assert (saved.size, len(saved.digest)) == (artifact.stat().st_size, 64)
    assert load_metadata(source, ("m",)) == saved
    assert load_model(source, ("m",), tmp_path / "loaded") == saved
    assert (tmp_path / "loaded").read_bytes() == artifact.read_bytes()
    assert source.mark(("m",)) is Mark.MODEL


def test_many_chunks_come_in_few_queries(
    source: DataSource, artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "CHUNK_BYTES", artifact.stat().st_size // 99)
    save_model(source, ("m",), metadata(), artifact)
    asked: list[str] = []
    query = source.query

    def counted(sql: str, *more: Any) -> Any:
        asked.append(sql)
        return query(sql, *more)

    monkeypatch.setattr(source, "query", counted)
    load_model(source, ("m",), tmp_path / "loaded")
    assert (tmp_path / "loaded").read_bytes() == artifact.read_bytes()
    assert 3 < len(asked) < 10


def test_saving_again_replaces(source: DataSource, artifact: Path, tmp_path: Path) -> None:
    save_model(source, ("m",), metadata(), artifact)
    artifact.write_bytes(b"")
    save_model(source, ("m",), dataclasses.replace(metadata(), rows=7), artifact)
    assert load_model(source, ("m",), tmp_path / "loaded").rows == 7
    assert (tmp_path / "loaded").read_bytes() == b""


def test_listing_and_dropping(source: DataSource, artifact: Path) -> None:
    def names() -> list[str]:
        """Of this test: a MySQL server's other databases may hold models of others."""
        return [name for name, model in list_models(source) if model is not None and name.startswith("listed_")]

    assert names() == []
    for name in ("listed_b", "listed_a"):
        save_model(source, (name,), metadata(name), artifact)
    assert names() == ["listed_a", "listed_b"]
    assert drop_model(source, ("listed_a",))
    assert names() == ["listed_b"]
    assert not drop_model(source, ("listed_a",), if_exists=True)
    with pytest.raises(ModelStoreError, match="there is no model listed_a; did you mean 'listed_b'"):
        drop_model(source, ("listed_a",))


def test_a_missing_model_names_the_nearest(source: DataSource, artifact: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelStoreError, match="there is no model zebra_model"):
        load_metadata(source, ("zebra_model",))
    save_model(source, ("zebra_modal",), metadata(), artifact)
    with pytest.raises(ModelStoreError, match=r"there is no model zebra_model; did you mean 'zebra_modal'\?"):
        load_model(source, ("zebra_model",), tmp_path / "x")


def test_a_table_that_is_no_model(source: DataSource, artifact: Path) -> None:
    source.execute("CREATE TABLE birds (n INTEGER)")
    for call in (load_metadata, drop_model):
        with pytest.raises(ModelStoreError, match="the table birds is not a model"):
            call(source, ("birds",))
    with pytest.raises(ModelStoreError, match="the table birds is not a model"):
        drop_model(source, ("birds",), if_exists=True)
    with pytest.raises(DataSourceError, match="not written by"):
        save_model(source, ("birds",), metadata(), artifact)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM m WHERE part = 2",
        "DELETE FROM m WHERE part = 3",
        "UPDATE m SET chunk = (SELECT c FROM (SELECT chunk AS c FROM m WHERE part = 3) AS x) WHERE part = 2",
    ],
)
def test_damage_is_found_and_no_file_is_left(source: DataSource, artifact: Path, tmp_path: Path, damage: str) -> None:
    save_model(source, ("m",), metadata(), artifact)
    source.execute(damage)
    with pytest.raises(ModelStoreError, match="the model m is damaged"):
        load_model(source, ("m",), tmp_path / "loaded")
    assert [path.name for path in tmp_path.iterdir() if "loaded" in path.name] == []


def test_damaged_metadata(source: DataSource, artifact: Path) -> None:
    save_model(source, ("m",), metadata(), artifact)
    for broken in ("UPDATE m SET metadata = '{' WHERE part = 0", "DELETE FROM m WHERE part = 0"):
        source.execute(broken)
        with pytest.raises(ModelStoreError, match="the model m is damaged: its metadata cannot be read"):
            load_metadata(source, ("m",))


def test_what_a_newer_version_added_is_left_out() -> None:
    text = metadata().to_json().replace('"name": "m"', '"name": "m", "colour": "blue"')
    assert ModelMetadata.from_json(text) == metadata()


def test_fifty_megabytes_in_bounded_memory(url: str, tmp_path: Path) -> None:
    (tmp_path / "artifact").write_bytes(os.urandom(50 << 20))
    program = f"""
import resource
from pathlib import Path
from sqlflow_elastic.datasource import open_source
from sqlflow_elastic.models.store import load_model, save_model
from tests.models.test_store import metadata
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
with open_source({url!r}) as source:
    small, big = Path({str(tmp_path / "small")!r}), Path({str(tmp_path / "artifact")!r})
    small.write_bytes(b"x" * (5 << 20))
    peaks = []
    for artifact in (small, big):
        save_model(source, ("m",), metadata(), artifact)
        load_model(source, ("m",), Path(f"{{artifact}}.loaded"))
        peaks.append(peak())
print(peaks[1] - peaks[0])
"""
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120)
    # DuckDB keeps what was written in its own buffers, as far as its memory_limit goes.
    assert float(output.stdout) < (250 if url.startswith("duckdb") else 90), "MB"
    assert (tmp_path / "artifact.loaded").read_bytes() == (tmp_path / "artifact").read_bytes()


def test_a_renamed_model_has_its_new_name(source: DataSource, artifact: Path) -> None:
    save_model(source, ("before",), metadata("before"), artifact)
    source.execute(f"ALTER TABLE {source.quote(('before',))} RENAME TO {source.quote(('after',))}")
    assert load_metadata(source, ("after",)).name == "after"
    names = [name for name, _ in list_models(source)]
    assert "after" in names
    assert "before" not in names


def test_a_damaged_model_hides_no_other_and_can_be_dropped(source: DataSource, artifact: Path) -> None:
    for name in ("sound", "unsound"):
        save_model(source, (name,), metadata(name), artifact)
    source.execute("UPDATE unsound SET metadata = '{' WHERE part = 0")
    listed = dict(list_models(source))
    assert listed["unsound"] is None
    assert listed["sound"] is not None
    assert drop_model(source, ("unsound",))
