"""Settings: from configuration files, the environment and what the caller says; the later in this list win.

    1. the defaults below
    2. ~/.config/sqlflow-elastic/config.toml   ($XDG_CONFIG_HOME in place of ~/.config)
    3. sqlflow-elastic.toml in the current folder
    4. the environment variable SQLFLOW_ELASTIC_DATASOURCE
    5. arguments: `sqlflow_elastic.connect(url, …)`, the options of the command

A file holds the settings by name, and nothing else:

    datasource = "mysql://me@db.example.com/shop"
    max_rows = 40
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlflow_elastic.errors import SQLFlowError, why

DATASOURCE_VARIABLE = "SQLFLOW_ELASTIC_DATASOURCE"
LOCAL_FILE = "sqlflow-elastic.toml"
FORMATS = ("table", "json", "csv")

_LEAST = {"max_rows": 0, "slots": 1}
_STATE_STORE = re.compile(r"etcds?://[^/?#]+/[^/?#][^?#]*(\?[^#]*)?")


class ConfigError(SQLFlowError):
    """A configuration file cannot be read or says something unknown."""


@dataclass(frozen=True)
class Config:
    """The settings.

    Attributes:
        datasource: URL of the data source; None: a DuckDB file of the user's own, see `default_datasource`.
        work_dir: folder of the jobs' folders; None: ``~/.local/state/sqlflow-elastic/jobs`` ($XDG_STATE_HOME in place
            of ``~/.local/state``).
        format: how the command prints rows: table, json or csv.
        max_rows: how many rows of a result a table shows; 0: all.
        slots: how many processes of jobs run at once on this machine; None: one for each core.
        state_store: ``etcd://[user:password@]host:port/prefix``, where the states of jobs are kept; None: in their
            folders.
        storage: folder of what is too large for a database: tables of trained models; a path, or a URL such as
            ``s3://bucket/folder``; None: ``~/.local/share/sqlflow-elastic/models`` ($XDG_DATA_HOME in place of
            ``~/.local/share``).
    """

    datasource: str | None = field(default=None, repr=False)
    work_dir: str | None = None
    format: str = "table"
    max_rows: int = 100
    slots: int | None = None
    state_store: str | None = field(default=None, repr=False)
    storage: str | None = field(default=None, repr=False)

    @property
    def jobs_folder(self) -> Path:
        """`work_dir` or its default."""
        if self.work_dir is not None:
            return Path(self.work_dir).expanduser().absolute()
        return _home("XDG_STATE_HOME", ".local/state") / "jobs"

    @property
    def history_file(self) -> Path:
        """What was typed at the prompt: ``~/.local/state/sqlflow-elastic/history``."""
        return _home("XDG_STATE_HOME", ".local/state") / "history"

    def storage_or_default(self) -> str:
        """`storage` or its default."""
        return self.storage or str(_home("XDG_DATA_HOME", ".local/share") / "models")

    def datasource_or_default(self) -> str:
        """`datasource` or the user's own DuckDB file, whose folder exists then."""
        return self.datasource or default_datasource()


def default_datasource() -> str:
    """``~/.local/share/sqlflow-elastic/sqlflow.duckdb`` ($XDG_DATA_HOME in place of ``~/.local/share``) as a URL.

    A file, so that models outlive the session; the user's, not the folder's, so that it is the same from everywhere.

    Raises: ConfigError: its folder cannot be made.
    """
    folder = _home("XDG_DATA_HOME", ".local/share")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"no data source is named, and the folder {folder} of the default one cannot be made: {why(error)}"
        raise ConfigError(message) from error
    return f"duckdb:///{folder / 'sqlflow.duckdb'}"


def load_config() -> Config:
    """The settings of files and environment. Raises: ConfigError."""
    config = Config()
    for path in (_home("XDG_CONFIG_HOME", ".config") / "config.toml", Path(LOCAL_FILE)):
        config = _with_file(config, path)
    if url := os.environ.get(DATASOURCE_VARIABLE):
        config = dataclasses.replace(config, datasource=url)
    return config


def _home(variable: str, default: str) -> Path:
    """This package's folder in one of the XDG base directories, https://specifications.freedesktop.org/basedir-spec."""
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / default) / "sqlflow-elastic"


def _with_file(config: Config, path: Path) -> Config:
    try:
        with path.open("rb") as file:
            settings = tomllib.load(file)
    except FileNotFoundError:
        return config
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    for name, value in settings.items():
        _check(path, name, value)
    return dataclasses.replace(config, **settings)


def _check(path: Path, name: str, value: Any) -> None:
    known = [field.name for field in dataclasses.fields(Config)]
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
        raise ConfigError(f"{path}: unknown setting {name!r}; {hint}")
    if name in _LEAST:
        if type(value) is not int or value < _LEAST[name]:
            raise ConfigError(f"{path}: {name} must be an integer of at least {_LEAST[name]}")
    elif not isinstance(value, str):
        raise ConfigError(f"{path}: {name} must be a text")
    elif name == "format" and value not in FORMATS:
        raise ConfigError(f"{path}: format {value!r} is none of {', '.join(FORMATS)}")
    elif name == "state_store" and not _STATE_STORE.fullmatch(value):
        raise ConfigError(f"{path}: state_store must be a URL such as etcd://host:2379/jobs")  # without its password
