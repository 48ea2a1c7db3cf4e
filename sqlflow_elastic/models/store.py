"""The model store: a trained model in the database table that INTO names.

The table has one row of metadata (``part`` 0, JSON in ``metadata``), then the artifact in ``part`` 1, 2, … of at most
`CHUNK_BYTES` in ``chunk``. It is written whole or not at all, and its digest is checked when it is loaded.

This module stands below the data sources, so it says in `Database` what it needs of one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sqlflow_elastic.errors import DataSourceError, ModelStoreError
from sqlflow_elastic.models.large_tables import lend_tables, store_tables
from sqlflow_elastic.models.mark import Mark
from sqlflow_elastic.models.storage import Storage

CHUNK_BYTES = 1 << 20
#: Chunks that are read at a time.
_CHUNKS_READ = 16
SCHEMA = pa.schema([("part", pa.int64()), ("metadata", pa.string()), ("chunk", pa.binary())])


class NoModel(ModelStoreError):  # noqa: N818
    """There is no model of that name, nor any other table."""


class Rows(Protocol):
    """A query's rows."""

    batches: Iterator[pa.RecordBatch]


class Database(Protocol):
    """What the store needs of a data source; see `sqlflow_elastic.datasource.base.DataSource`."""

    def query(self, sql: str, batch_rows: int = ...) -> AbstractContextManager[Rows]:
        """Stream a query's rows."""

    def columns(self, table: tuple[str, ...]) -> pa.Schema | None:
        """A table's columns."""

    def mark(self, table: tuple[str, ...]) -> Mark | None:
        """What this package wrote there."""

    def marked(self, mark: Mark) -> list[tuple[str, ...]]:
        """The tables with a mark."""

    def write_table(
        self, table: tuple[str, ...], schema: pa.Schema, batches: Iterable[pa.RecordBatch], mark: Mark
    ) -> int:
        """Create or replace a table."""

    def drop_table(self, table: tuple[str, ...]) -> None:
        """Drop a marked table."""

    def quote(self, parts: tuple[str, ...]) -> str:
        """A name in SQL."""


@dataclass(frozen=True)
class ModelMetadata:
    """What is known of a trained model.

    Attributes:
        name: of its table; it may have been renamed since INTO named it.
        statement: the SQL text that trained it.
        estimator: the model's name in the zoo, or a user's ``module.function``.
        features: the derived features, JSON-like.
        label: the label's field; None for models without one.
        fields: Arrow type by name, of the SELECT's columns, in their order.
        metrics: the last measured values by name.
        program: the generated program's text.
        versions: by package name: sqlflow-elastic, tensorflow, keras, python.
        created: ISO 8601, UTC.
        rows: number of rows trained on.
        seconds: wall time of the training.
        digest: SHA-256 of the artifact, hexadecimal; set by `save_model`.
        size: bytes of the artifact; set by `save_model`.
        tables, tables_size: where in the storage tables are that are too large for the artifact, without credentials,
            and their bytes; "" and 0 without any; set by `save_model`.
        strategy: where tables were in the training, and why; None for what a program did alone.
    """

    name: str
    statement: str
    estimator: str
    features: Any
    label: str | None
    fields: Mapping[str, str]
    metrics: Mapping[str, float]
    program: str
    versions: Mapping[str, str]
    created: str
    rows: int
    seconds: float
    digest: str = ""
    size: int = field(default=0)
    tables: str = ""
    tables_size: int = 0
    strategy: Mapping[str, Any] | None = None

    def to_json(self) -> str:
        """All of it as one JSON text."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> ModelMetadata:
        """The inverse of `to_json`; what a newer version added is left out."""
        data = json.loads(text)
        known = {one.name for one in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})


def _no_warning(text: str) -> None:
    pass


def save_model(
    source: Database,
    table: tuple[str, ...],
    metadata: ModelMetadata,
    artifact: Path,
    storage: Storage | None = None,
    warn: Callable[[str], None] = _no_warning,
) -> ModelMetadata:
    """Write a model, replacing an earlier one of that name; returns the metadata with what is set here.

    Args:
        source, table: where.
        metadata: what is known of it.
        artifact: its file; tables that are beside it go into it if they are small.
        storage: takes large tables; None for models without any.
        warn: told if tables of the earlier model cannot be removed.

    Raises:
        DataSourceError: the table cannot be written, or is there and is not ours.
        ModelStoreError: tables cannot be written to the storage.
    """
    replaced = _tables(source, table)
    tables, tables_size = ("", 0) if storage is None else store_tables(artifact, storage)
    digest = hashlib.sha256()
    size = 0
    with artifact.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    metadata = dataclasses.replace(
        metadata, digest=digest.hexdigest(), size=size, tables=tables, tables_size=tables_size
    )
    try:
        source.write_table(table, SCHEMA, _table_rows(metadata, artifact), Mark.MODEL)
    except BaseException:
        # Where the database cannot say that it has not taken the model after all, tables stay.
        with contextlib.suppress(DataSourceError):
            if tables and _tables(source, table) != tables:
                _remove(storage, tables, warn)
        raise
    _remove(storage, replaced, warn)
    return metadata


def _tables(source: Database, table: tuple[str, ...]) -> str:
    """Where the large tables of a model are that may be there."""
    try:
        return load_metadata(source, table).tables
    except ModelStoreError:
        return ""


def _remove(storage: Storage | None, tables: str, warn: Callable[[str], None]) -> None:
    """Remove tables that no model names any more."""
    if not tables or storage is None:
        return
    try:
        storage.remove(tables)
    except ModelStoreError as error:
        warn(str(error))


def _table_rows(metadata: ModelMetadata, artifact: Path) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([[0], [metadata.to_json()], pa.array([None], pa.binary())], schema=SCHEMA)
    with artifact.open("rb") as file:
        part = 0
        while chunk := file.read(CHUNK_BYTES):
            part += 1
            yield pa.record_batch([[part], pa.array([None], pa.string()), [chunk]], schema=SCHEMA)


def load_metadata(source: Database, table: tuple[str, ...]) -> ModelMetadata:
    """A model's metadata, without its artifact.

    Raises: ModelStoreError: there is no such model, or it cannot be read.
    """
    name = ".".join(table)
    if source.mark(table) is not Mark.MODEL:
        if source.columns(table) is not None:
            raise ModelStoreError(f"the table {name} is not a model")
        raise NoModel(f"there is no model {name}{_suggestion(source, name)}")
    text = _value(source, table, "metadata", 0)
    try:
        return dataclasses.replace(ModelMetadata.from_json(text), name=name)
    except (TypeError, ValueError) as error:
        raise ModelStoreError(f"the model {name} is damaged: its metadata cannot be read") from error


def load_model(source: Database, table: tuple[str, ...], into: Path, storage: Storage | None = None) -> ModelMetadata:
    """Write a model's artifact to a file, which appears only when it is whole and right.

    Args:
        source, table: where it is.
        into: the file.
        storage: where large tables are; None for a model without any.

    Raises: ModelStoreError: there is no such model, it is damaged, or its tables are missing.
    """
    metadata = load_metadata(source, table)
    aside = into.with_name(f"{into.name}.part")
    digest = hashlib.sha256()
    try:
        with aside.open("wb") as file:
            for chunk in _chunks(source, table, -(-metadata.size // CHUNK_BYTES)):
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != metadata.digest:
            raise ModelStoreError(f"the model {'.'.join(table)} is damaged: its content does not match its digest")
        if metadata.tables:
            if storage is None:
                raise ModelStoreError(f"the tables of the model {'.'.join(table)} are in {metadata.tables}")
            lend_tables(metadata.tables, aside, into, storage)
        aside.rename(into)
    finally:
        aside.unlink(missing_ok=True)
    return metadata


def list_models(source: Database) -> list[tuple[str, ModelMetadata | None]]:
    """Name and metadata of all the models of a data source, by name; without those dropped meanwhile.

    The metadata of a damaged model is None.
    """
    models: list[tuple[str, ModelMetadata | None]] = []
    for table in source.marked(Mark.MODEL):
        name = ".".join(table)
        try:
            models.append((name, load_metadata(source, table)))
        except NoModel:
            continue
        except ModelStoreError:
            models.append((name, None))
    return models


def drop_model(
    source: Database,
    table: tuple[str, ...],
    if_exists: bool = False,
    storage: Storage | None = None,
    warn: Callable[[str], None] = _no_warning,
) -> bool:
    """Drop a model; whether there was one.

    Args:
        source, table: where it is.
        if_exists: whether it may be missing.
        storage: where large tables are; None for a model without any.
        warn: told if tables cannot be removed.

    Raises: ModelStoreError: there is none (unless ``if_exists``), or the table is no model.
    """
    if source.mark(table) is Mark.MODEL:
        tables = _tables(source, table)
        source.drop_table(table)
        _remove(storage, tables, warn)
        return True
    if if_exists and source.columns(table) is None:
        return False
    load_metadata(source, table)  # raises what is wrong
    return False


def _chunks(source: Database, table: tuple[str, ...], count: int) -> Iterator[bytes]:
    """The chunks of an artifact that has so many, in order, but for those that are missing.

    Some at a time: all at once would be held, and for each by itself some engines read all of them.
    """
    for first in range(1, count + 1, _CHUNKS_READ):
        last = min(first + _CHUNKS_READ - 1, count)
        sql = f"SELECT part, chunk FROM {source.quote(table)} WHERE part BETWEEN {first:d} AND {last:d}"  # noqa: S608
        found: dict[int, bytes] = {}
        with source.query(sql) as rows:
            for batch in rows.batches:
                found.update(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
        yield from (found[part] for part in sorted(found))


def _value(source: Database, table: tuple[str, ...], column: str, part: int) -> Any:
    """One column of one row; None if there is no such row."""
    sql = f"SELECT {column} FROM {source.quote(table)} WHERE part = {part:d}"  # noqa: S608
    with source.query(sql) as rows:
        for batch in rows.batches:
            if batch.num_rows:
                return batch.column(0)[0].as_py()
    return None


def _suggestion(source: Database, name: str) -> str:
    models = [".".join(table) for table in source.marked(Mark.MODEL)]
    close = difflib.get_close_matches(name, models, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(models)}" if 0 < len(models) <= 5 else ""
