"""A trained model in one file: the features and what they learned, the label, the network, and what else belongs to it.

The file is a zip of ``features.json``, ``extra.json`` and ``network.keras``; of a model whose tables are not in its
network (see `large_tables`) also of ``tables.json``, and of the tables unless they are elsewhere. Reading it runs no
code from it: JSON, and Keras's format in safe mode. A network that Keras cannot build again from its file (a class of
the user's that is not registered) still has its weights there: the program builds it, `Artifact.load_weights_into`
fills it.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlflow_elastic.errors import ModelStoreError
from sqlflow_elastic.models.features.columns import Column, Field, Label
from sqlflow_elastic.models.features.nodes import Node
from sqlflow_elastic.models.features.resolve import Inputs
from sqlflow_elastic.models.features.statistics import Statistics
from sqlflow_elastic.models.large_tables import MANIFEST, manifest_of, open_tables, read_manifest
from sqlflow_elastic.models.tables.table_file import TableFiles

if TYPE_CHECKING:
    import keras

    from sqlflow_elastic.models.features.encoder import Encoder
    from sqlflow_elastic.models.features.inputs import FeatureInputs

FORMAT = 1
NETWORK_FILES = ("network.keras", "network.weights.h5")
"""The second is what a network gets that Keras cannot describe: its weights only."""


@dataclass(frozen=True)
class Features:
    """What a model reads and says: its columns by input, raw fields, label, and what was learned from the data."""

    columns: dict[str, tuple[Column, ...]]
    fields: tuple[Field, ...]
    label: Label | None
    statistics: Statistics

    def to_json(self) -> dict[str, Any]:
        """A dictionary of JSON values, from which `from_json` makes equal features."""
        return {
            "format": FORMAT,
            "columns": {name: [column.to_json() for column in group] for name, group in self.columns.items()},
            "fields": [field.to_json() for field in self.fields],
            "label": self.label and self.label.to_json(),
            "statistics": self.statistics.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Features:
        """The features that `to_json` described."""
        return cls(
            columns={name: tuple(map(Node.from_json, group)) for name, group in data["columns"].items()},
            fields=tuple(map(Node.from_json, data["fields"])),
            label=data["label"] and Node.from_json(data["label"]),
            statistics=Statistics.from_json(data["statistics"]),
        )


@dataclass(frozen=True)
class Artifact:
    """A trained model's file, opened; encoder and network are made when first asked for."""

    path: Path
    features: Features
    extra: dict[str, Any]
    build_model: Callable[[FeatureInputs], keras.Model] | None = None

    @property
    def columns(self) -> dict[str, tuple[Column, ...]]:
        """The columns of each of the network's inputs."""
        return self.features.columns

    @property
    def fields(self) -> tuple[Field, ...]:
        """The raw fields, the label's among them."""
        return self.features.fields

    @property
    def label(self) -> Label | None:
        """What the model says; None if it has no label."""
        return self.features.label

    @property
    def statistics(self) -> Statistics:
        """What was learned from the training data."""
        return self.features.statistics

    @cached_property
    def encoder(self) -> Encoder:
        """Encodes rows as for training."""
        from sqlflow_elastic.models.features.encoder import Encoder

        return Encoder(self.columns, self.fields, self.statistics, self.label)

    @cached_property
    def tables(self) -> TableFiles | None:
        """The tables that are not in the network; None without any.

        Raises: ModelStoreError: one is missing or damaged.
        """
        return open_tables(self.path)

    @cached_property
    def model(self) -> keras.Model:
        """The network, from encoded arrays to outputs.

        Raises: ModelStoreError: Keras cannot build it again, and there is no ``build_model`` that does.
        """
        try:
            return self._stored_model()
        except ModelStoreError:
            if self.build_model is None:
                raise
        from sqlflow_elastic.models.features.inputs import FeatureInputs

        with zipfile.ZipFile(self.path) as archive:
            layers, _ = read_manifest(archive)
        model = self.build_model(FeatureInputs(self.encoder, served=lambda name, rows, size: name in layers))
        self.load_weights_into(model)
        return model

    def _stored_model(self) -> keras.Model:
        import keras

        import sqlflow_elastic.models.features.embedding  # noqa: F401 - registers the layers

        with self._network() as path:
            try:
                return keras.saving.load_model(path, compile=False, safe_mode=True)
            except (TypeError, ValueError, ImportError, AttributeError, KeyError) as error:
                raise ModelStoreError(
                    "the network cannot be built from the stored model alone, as it has a class that Keras does not "
                    "know; register it with keras.saving.register_keras_serializable and import its module, or build "
                    f"the network and load the weights into it ({_first_line(error)})"
                ) from error

    def load_weights_into(self, model: keras.Model) -> None:
        """Give a network built by the same program the stored weights.

        Raises: ModelStoreError: it is another network.
        """
        with self._network() as path:
            try:
                model.load_weights(path)
            except (TypeError, ValueError, KeyError) as error:
                raise ModelStoreError(f"the stored weights do not fit this network ({_first_line(error)})") from error

    @contextmanager
    def _network(self) -> Iterator[Path]:
        """The network's file by itself, for as long as it is needed."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                with zipfile.ZipFile(self.path) as archive:
                    name = next(name for name in NETWORK_FILES if name in archive.namelist())
                    network = Path(archive.extract(name, folder))
            except (OSError, zipfile.BadZipFile, StopIteration) as error:
                raise _damaged(error) from error
            yield network


def save_artifact(
    path: Path,
    *,
    columns: Inputs,
    fields: Sequence[Field],
    label: Label | None,
    statistics: Statistics,
    model: keras.Model,
    extra: Mapping[str, Any],
    served: Sequence[str] = (),
) -> None:
    """Write a trained model to one file, which appears whole or not at all.

    Args:
        path: the file; one that is there is replaced.
        columns, fields, label, statistics: the features, as `Encoder` takes them.
        model: the network, from encoded arrays to outputs.
        extra: anything of JSON values that belongs to it.
        served: names of the layers whose tables are not in the network, but beside the file, as `write_tables` of
            `large_tables` left them.

    Raises: ModelStoreError: tables are not beside the file.
    """
    features = Features({name: tuple(group) for name, group in columns.items()}, tuple(fields), label, statistics)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        network = _save_network(model, Path(folder))
        whole = Path(folder) / "artifact"
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("features.json", json.dumps(features.to_json(), ensure_ascii=False))
            archive.writestr("extra.json", json.dumps(dict(extra), ensure_ascii=False))
            if served:
                archive.writestr(MANIFEST, json.dumps(manifest_of(path, served)))
            archive.write(network, network.name)
        with whole.open("rb+") as file:
            os.fsync(file.fileno())
        whole.replace(path)


def _save_network(model: keras.Model, folder: Path) -> Path:
    network = folder / NETWORK_FILES[0]
    try:
        model.save(network)
    except (NotImplementedError, TypeError, ValueError):  # a class of the user's without a get_config that works
        network = folder / NETWORK_FILES[1]
        model.save_weights(network)
    return network


def load_artifact(path: Path, build_model: Callable[[FeatureInputs], keras.Model] | None = None) -> Artifact:
    """Open a trained model's file.

    Args:
        path: the file.
        build_model: makes the network as the program that trained it did, for what Keras cannot build from the file.

    Raises: ModelStoreError: it is missing or damaged, or written by a newer version.
    """
    features, extra = _read(path)
    return Artifact(path, features, extra, build_model)


def read_features(path: Path) -> Features:
    """The features of a trained model, without TensorFlow. Raises: ModelStoreError: as `load_artifact`."""
    return _read(path)[0]


def _read(path: Path) -> tuple[Features, dict[str, Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            data = json.loads(archive.read("features.json"))
            extra = json.loads(archive.read("extra.json"))
        if data["format"] > FORMAT:
            raise ModelStoreError(
                f"the model was written by a newer version (format {data['format']}, known is {FORMAT})"
            )
        return Features.from_json(data), extra
    except (OSError, zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise _damaged(error) from error


def _damaged(error: Exception) -> ModelStoreError:
    return ModelStoreError(f"the model's file is missing or damaged ({_first_line(error)})")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
