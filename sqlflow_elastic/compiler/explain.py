"""What EXPLAIN SELECT … TO TRAIN says: features, network, sizes and strategy, counted without TensorFlow.

Vocabularies and missing values are counted in the sample; where that is not all of the data, figures carry "about".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlflow_elastic.compiler.bind import Rows
from sqlflow_elastic.compiler.network import Network
from sqlflow_elastic.compiler.plan import Features
from sqlflow_elastic.compiler.strategy import Table, strategy
from sqlflow_elastic.elastic.sizes import bytes_text, count
from sqlflow_elastic.jobs.request import JobRequest
from sqlflow_elastic.models.features import (
    Bucket,
    CategoryHash,
    CategoryId,
    ClassLabel,
    Column,
    Cross,
    Dense,
    Embedding,
    Indicator,
    Sparse,
    TimeParts,
    Vocabulary,
    WeightedCategory,
)
from sqlflow_elastic.models.features.resolve import resolve
from sqlflow_elastic.models.zoo.declarations import Family, Model

Explanation = list[tuple[str, str, str]]

#: Numbers that a `TimeParts` becomes: the year, and month, day, weekday and hour as sine and cosine.
TIME_PARTS = 9
_FLOAT = 4
#: Optimizers with a rule for single rows, so that tables can be on servers.
_BY_ROWS = ("SGD", "Adagrad", "Adam", "RMSprop", "Ftrl")


@dataclass(frozen=True)
class _Layer:
    """A layer with weights, its optimizer's group, and the embedding table that it is, if it is one."""

    name: str
    shape: str
    weights: int
    optimizer: str
    trained: bool = True
    table: Table | None = None


def explain(
    model: Model,
    features: Features,
    network: Network,
    rows: Rows,
    settings: Mapping[str, Any],
    attributes: Mapping[str, Any],
    request: JobRequest,
    notes: Sequence[str],
) -> Explanation:
    """The rows of the explanation: part, item, detail."""
    sizes = _Sizes(features, rows)
    about = "" if rows.complete else "about "
    answer: Explanation = [("model", model.name, model.help)]
    for name, columns in features.columns.items():
        answer += [(name, repr(column), count(sizes.width(column), "number") + " a row") for column in columns]
    answer.append(("label", repr(features.label), _label_text(features)))
    layers = _layers(features, network, sizes)
    answer += [("layer", layer.name, f"{layer.shape}: {about}{count(layer.weights, 'weight')}") for layer in layers]
    if network.family is Family.CUSTOM:
        answer.append(("layer", model.name, "a user's model: its weights are known when it is built"))
    answer += _size_rows(layers, network, about)
    for group, chosen in network.optimizers.items():
        arguments = ", ".join(f"{name}={value!r}" for name, value in chosen.arguments.items())
        answer.append(("optimizer", group, f"{chosen.name}({arguments})"))
    answer.append(("loss", network.loss, f"over {network.output.value}"))
    answer += _data_rows(rows, settings)
    custom = network.family is Family.CUSTOM
    dense = None if custom else sum(layer.weights for layer in layers if layer.table is None)
    tables = [layer.table for layer in layers if layer.table is not None]
    slots = sum(chosen.slots for chosen in network.optimizers.values()) / len(network.optimizers)
    number = rows.sample.num_rows if rows.complete else None
    answer += strategy(request, attributes, dense, slots, tables, number, about)
    answer += [("note", "", note) for note in notes]
    return answer


def _label_text(features: Features) -> str:
    label = features.label
    return f"{len(label.classes or ())} classes" if isinstance(label, ClassLabel) else "a number"


class _Sizes:
    """Widths of columns, and ids of categories."""

    def __init__(self, features: Features, rows: Rows) -> None:
        self.kinds = {field.name: field.kind for field in features.fields}
        self.rows = rows

    def width(self, column: Column) -> int:
        """Numbers a row."""
        plain = resolve(column, self.kinds)
        match plain:
            case Dense():
                return plain.shape + self._missing(plain.field)
            case TimeParts():
                return TIME_PARTS + self._missing(plain.field)
            case Embedding():
                return plain.size
            case Indicator():
                return self.ids(plain.category)
        raise TypeError(f"{column!r} has no width")

    def ids(self, category: Column | str) -> int:
        """How many different ids there are, with those for NULL and for values that training never saw.

        As `Preprocessing` numbers them.
        """
        match category:
            case Vocabulary():
                values = len(self.rows.sample[category.field].drop_null().unique())
                return 2 + max(1, min(values, category.max_values))
            case Sparse():
                return category.shape
            case Bucket(source=Dense() as number):
                return len(category.boundaries) + 1 + self._missing(number.field)
            case CategoryId(source=str() as field) | CategoryHash(source=str() as field):
                return category.n + self._missing(field)
            case CategoryId(source=Bucket() as bucket):
                return self.ids(bucket)
            case CategoryId() | CategoryHash() | Cross():
                return category.n
            case WeightedCategory():
                return self.ids(category.category)
        raise TypeError(f"{category!r} has no ids")

    def _missing(self, field: str) -> int:
        return int(self.rows.sample[field].null_count > 0)


def _layers(features: Features, network: Network, sizes: _Sizes) -> list[_Layer]:
    """The layers with weights, from the inputs on."""
    if network.family in (Family.DEEPFM, Family.DCN):
        return _crossed_layers(features, network, sizes)
    layers = []
    widths = {}
    for name, columns in features.columns.items():
        optimizer = _optimizer_of(name, network)
        widths[name] = sum(map(sizes.width, columns))
        for column in columns:
            plain = resolve(column, sizes.kinds)
            if isinstance(plain, Embedding):
                ids = sizes.ids(plain.category)
                table = _table(repr(column), ids, plain.size, network, optimizer)
                shape = f"{ids:,} ids x {plain.size}"
                layers.append(_Layer(table.name, shape, ids * plain.size, optimizer, table=table))
    if network.family in (Family.LINEAR, Family.WIDE_DEEP):
        layers.append(_dense("outputs", widths[network.inputs[0]], network.outputs, next(iter(network.optimizers))))
    if network.family in (Family.DNN, Family.WIDE_DEEP):
        optimizer = list(network.optimizers)[-1]
        hidden, width = _hidden_layers(network, widths[network.inputs[-1]], optimizer)
        layers += [*hidden, _dense("outputs", width, network.outputs, optimizer)]
    return layers


def _table(name: str, ids: int, size: int, network: Network, group: str) -> Table:
    optimizer = network.optimizers[group]
    return Table(name, ids, size, optimizer.slots, optimizer.name in _BY_ROWS)


def _hidden_layers(network: Network, width: int, optimizer: str) -> tuple[list[_Layer], int]:
    """The hidden layers over so many numbers, and how many come out of them."""
    layers = []
    for units in network.hidden_units:
        layers.append(_dense(f"{network.activation} layer", width, units, optimizer))
        if network.batch_norm:
            layers.append(_Layer("batch normalisation", f"{units} scales and shifts", 2 * units, optimizer))
            layers.append(_Layer("batch statistics", f"{units} means and variances", 2 * units, optimizer, False))
        width = units
    return layers, width


def _crossed_layers(features: Features, network: Network, sizes: _Sizes) -> list[_Layer]:
    """The layers of a network in which each category has a vector."""
    (optimizer,) = network.optimizers
    layers: list[_Layer] = []
    numbers = vectors = 0
    deepfm = network.family is Family.DEEPFM
    for column in features.columns[network.inputs[0]]:
        plain = resolve(column, sizes.kinds)
        if not isinstance(plain, Embedding | Indicator):
            numbers += sizes.width(column)
            continue
        category = plain.category
        size = plain.size if isinstance(plain, Embedding) else network.embedding_size
        ids = sizes.ids(category)
        vectors += size
        table = _table(repr(column), ids, size, network, optimizer)
        layers.append(_Layer(table.name, f"{ids:,} ids x {size}", ids * size, optimizer, table=table))
        if deepfm:
            first = _table(f"weights of {table.name}", ids, network.outputs, network, optimizer)
            shape = f"{ids:,} ids x {first.size}"
            layers.append(_Layer(first.name, shape, ids * first.size, optimizer, table=first))
    if deepfm:
        if numbers:
            shape = f"{numbers:,} x {network.embedding_size}"
            layers.append(_Layer("vectors of numbers", shape, numbers * network.embedding_size, optimizer))
            layers.append(_Layer("weights of numbers", f"{numbers:,}", numbers * network.outputs, optimizer))
        layers.append(_Layer("bias", f"{network.outputs}", network.outputs, optimizer))
        if network.outputs > 1:
            weights = network.embedding_size * network.outputs
            layers.append(_Layer("pairs", f"{network.embedding_size:,} x {network.outputs:,}", weights, optimizer))
        hidden, width = _hidden_layers(network, vectors + numbers * network.embedding_size, optimizer)
        return [*layers, *hidden, _dense("outputs", width, network.outputs, optimizer)]
    width = numbers + vectors
    rank = network.projection
    for _ in range(network.cross_layers):
        if rank is not None:
            layers.append(_Layer("projection", f"{width:,} x {rank:,}", width * rank, optimizer))
        layers.append(_dense("crossing layer", rank or width, width, optimizer))
    hidden, last = _hidden_layers(network, width, optimizer)
    outputs = _dense("outputs", last if network.stacked else width + last, network.outputs, optimizer)
    return [*layers, *hidden, outputs]


def _optimizer_of(name: str, network: Network) -> str:
    return list(network.optimizers)[min(network.inputs.index(name), len(network.optimizers) - 1)]


def _dense(name: str, width: int, units: int, optimizer: str) -> _Layer:
    return _Layer(name, f"{width:,} x {units:,} + {units:,}", width * units + units, optimizer)


def _size_rows(layers: Sequence[_Layer], network: Network, about: str) -> Explanation:
    if network.family is Family.CUSTOM:
        return []
    weights = sum(layer.weights for layer in layers)
    slots = sum(layer.weights * network.optimizers[layer.optimizer].slots for layer in layers if layer.trained)
    return [
        ("size", "weights", f"{about}{count(weights, 'weight')}, {bytes_text(_FLOAT * weights)}"),
        ("size", "with optimizer", f"{about}{bytes_text(_FLOAT * (weights + slots))}"),
    ]


def _data_rows(rows: Rows, settings: Mapping[str, Any]) -> Explanation:
    batch_size = settings["batch_size"]
    if not rows.complete:
        return [
            ("data", "rows", f"at least {rows.sample.num_rows:,}"),
            ("data", "epochs", f"{settings['epochs']}, in batches of {batch_size}"),
        ]
    number = rows.sample.num_rows
    held_out = round(number * settings.get("validation_fraction", 0.0))
    steps = -(-(number - held_out) // batch_size)
    epochs = f"{settings['epochs']}, each of {count(steps, 'step')} in batches of {batch_size}"
    most = settings.get("max_steps")
    return [
        ("data", "rows", f"{number:,}" + (f", {held_out:,} of them for validation" if held_out else "")),
        ("data", "epochs", epochs + (f"; at most {count(most, 'step')} in all" if most else "")),
    ]
