"""Settings from files and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlflow_elastic.config import Config, ConfigError, load_config


@pytest.fixture
def user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SQLFLOW_ELASTIC_DATASOURCE", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    path = tmp_path / "config" / "sqlflow-elastic" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_defaults(user_file: Path) -> None:
    assert load_config() == Config()


def test_the_nearer_wins(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_file.write_text('datasource = "duckdb:///user.db"\nformat = "csv"\nmax_rows = 5')
    assert load_config() == Config(datasource="duckdb:///user.db", format="csv", max_rows=5)
    Path("sqlflow-elastic.toml").write_text('datasource = "duckdb:///here.db"\nwork_dir = "jobs"')
    assert load_config() == Config("duckdb:///here.db", "jobs", "csv", 5)
    monkeypatch.setenv("SQLFLOW_ELASTIC_DATASOURCE", "duckdb://")
    assert load_config().datasource == "duckdb://"
    assert load_config().jobs_folder == Path.cwd() / "jobs"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("datasourse = 'x'", "unknown setting 'datasourse'; did you mean 'datasource'?"),
        (
            "zzz = 1",
            "unknown setting 'zzz'; known are datasource, work_dir, format, max_rows, slots, state_store, storage",
        ),
        ("datasource = 1", "datasource must be a text"),
        ("max_rows = -1", "max_rows must be an integer of at least 0"),
        ("max_rows = true", "max_rows must be an integer of at least 0"),
        ("slots = 0", "slots must be an integer of at least 1"),
        ("slots = 1.5", "slots must be an integer of at least 1"),
        ("state_store = 1", "state_store must be a text"),
        ("state_store = 'file:///x'", "state_store must be a URL such as etcd://host:2379/jobs"),
        ("state_store = 'etcd://me:secret@host:2379/'", "state_store must be a URL such as etcd://host:2379/jobs"),
        ("format = 'xml'", "format 'xml' is none of table, json, csv"),
    ],
)
def test_mistakes_name_the_file(user_file: Path, text: str, message: str) -> None:
    user_file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_config()
    assert str(raised.value) == f"{user_file}: {message}"


@pytest.mark.parametrize("url", ["etcd://h:1,h:2/jobs", "etcds://me:secret@h/a/b?ca=ca.pem"])
def test_jobs_may_share_slots_and_a_store(user_file: Path, url: str) -> None:
    user_file.write_text(f'slots = 3\nstate_store = "{url}"')
    assert load_config() == Config(slots=3, state_store=url)
    assert "secret" not in repr(load_config())


def test_a_file_that_is_no_toml(user_file: Path) -> None:
    user_file.write_text("datasource =")
    with pytest.raises(ConfigError, match=r"config.toml cannot be read: "):
        load_config()
