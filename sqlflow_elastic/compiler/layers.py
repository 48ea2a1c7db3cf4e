"""The layers with weights of a plan's network, counted without TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass

from sqlflow_elastic.compiler.bind import Rows
from sqlflow_elastic.compiler.network import Network
from sqlflow_elastic.compiler.plan import Features
from sqlflow_elastic.compiler.strategy import Table
from sqlflow_elastic.models.features import (
    Bucket,
    CategoryHash,
    CategoryId,
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
from sqlflow_elastic.models.zoo.declarations import Family

#: Numbers that a `TimeParts` becomes: the year, and month, day, weekday and hour as sine and cosine.
TIME_PARTS = 9
#: Optimizers with a rule for single rows, so that tables can be on servers.
_BY_ROWS = ("SGD", "Adagrad", "Adam", "RMSprop", "Ftrl")


@dataclass(frozen=True)
class Layer:
    """A layer with weights.

    Attributes:
        name, shape: for people.
        weights: how many.
        optimizer: the group of the one that updates them.
        trained: whether it does; statistics of batches are no weights that are trained.
        table: the table that it is, if it is one.
    """

    name: str
    shape: str
    weights: int
    optimizer: str
    trained: bool = True
    table: Table | None = None


class Sizes:
    """Widths of columns, and ids of categories."""

    def __init__(self, features: Features, rows: Rows) -> None:
        self.kinds = {field.name: field.kind for field in features.fields}
        self.rows = rows

    def plain(self, column: Column) -> Column:
        """See `resolve`."""
        return resolve(column, self.kinds)

    def width(self, column: Column) -> int:
        """Numbers a row."""
        plain = self.plain(column)
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


class Layers:
    """The layers of a network.

    Args:
        features: of the plan.
        network: of the plan; a user's own has no layers here, since nothing is known of them.
        sizes: of the columns.
    """

    def __init__(self, features: Features, network: Network, sizes: Sizes) -> None:
        self._columns = features.columns
        self._network = network
        self._sizes = sizes

    def all(self) -> list[Layer]:
        """From the inputs on."""
        network = self._network
        optimizers = list(network.optimizers)
        first, last = network.inputs[0], network.inputs[-1]
        linear, deep = optimizers[0], optimizers[-1]
        match network.family:
            case Family.LINEAR:
                return [*self._tables(first, linear), *self._linear(first, linear)]
            case Family.DNN:
                return [*self._tables(last, deep), *self._hidden(self._width(last), deep)]
            case Family.WIDE_DEEP:
                return [
                    *self._tables(first, deep),
                    *self._linear(first, linear),
                    *self._tables(last, deep),
                    *self._hidden(self._width(last), deep),
                ]
            case Family.DEEPFM:
                return self._deepfm(first, deep)
            case Family.DCN:
                return self._dcn(first, deep)
        return []

    def _width(self, name: str) -> int:
        return sum(map(self._sizes.width, self._columns[name]))

    def _tables(self, name: str, optimizer: str, size: int | None = None) -> list[Layer]:
        """The vectors of categories: of an `Embedding`'s, and with a ``size`` of an `Indicator`'s too."""
        layers = []
        for column in self._columns[name]:
            plain = self._sizes.plain(column)
            if isinstance(plain, Embedding):
                layers.append(self._table(repr(column), plain.category, plain.size, optimizer))
            elif isinstance(plain, Indicator) and size is not None:
                layers.append(self._table(repr(column), plain.category, size, optimizer))
        return layers

    def _linear(self, name: str, optimizer: str, by_id: bool = False) -> list[Layer]:
        """As `FeatureInputs.linear` makes them: weights of ids are tables, whose gradients are rows."""
        layers = []
        width = 0
        for column in self._columns[name]:
            plain = self._sizes.plain(column)
            if isinstance(plain, Indicator) or (by_id and isinstance(plain, Embedding)):
                what = f"weights of {column!r}"
                layers.append(self._table(what, plain.category, self._network.outputs, optimizer))
            else:
                width += self._sizes.width(column)
        return [*layers, _dense("weighted sum", width, self._network.outputs, optimizer)]

    def _hidden(self, width: int, optimizer: str, beside: int = 0) -> list[Layer]:
        """Hidden layers over so many numbers, and the outputs over the last one's and so many others beside them."""
        network = self._network
        layers = []
        for units in network.hidden_units:
            layers.append(_dense(f"{network.activation} layer", width, units, optimizer))
            if network.batch_norm:
                layers.append(Layer("batch normalisation", f"{units} scales and shifts", 2 * units, optimizer))
                layers.append(Layer("batch statistics", f"{units} means and variances", 2 * units, optimizer, False))
            width = units
        return [*layers, _dense("outputs", width + beside, network.outputs, optimizer)]

    def _deepfm(self, name: str, optimizer: str) -> list[Layer]:
        outputs, size = self._network.outputs, self._network.embedding_size
        tables = self._tables(name, optimizer, size)
        layers = [*self._linear(name, optimizer, by_id=True), *tables]
        numbers = self._numbers(name)
        if numbers:
            layers.append(_matrix("vectors of numbers", numbers, size, optimizer))
        if outputs > 1:
            layers.append(_matrix("pairs", size, outputs, optimizer))
        return [*layers, *self._hidden((len(tables) + numbers) * size, optimizer)]

    def _dcn(self, name: str, optimizer: str) -> list[Layer]:
        network = self._network
        layers = self._tables(name, optimizer, network.embedding_size)
        width = self._numbers(name) + sum(layer.table.size for layer in layers if layer.table is not None)
        for _ in range(network.cross_layers):
            if network.projection is not None:
                layers.append(_matrix("projection", width, network.projection, optimizer))
            layers.append(_dense("crossing layer", network.projection or width, width, optimizer))
        return [*layers, *self._hidden(width, optimizer, beside=0 if network.stacked else width)]

    def _numbers(self, name: str) -> int:
        """Numbers a row of the columns that are no categories."""
        plain = [self._sizes.plain(column) for column in self._columns[name]]
        return sum(self._sizes.width(column) for column in plain if not isinstance(column, Embedding | Indicator))

    def _table(self, name: str, category: Column | str, size: int, group: str) -> Layer:
        ids = self._sizes.ids(category)
        optimizer = self._network.optimizers[group]
        table = Table(name, ids, size, optimizer.slots, optimizer.name in _BY_ROWS)
        return Layer(name, f"{ids:,} ids x {size}", ids * size, group, table=table)


def _dense(name: str, width: int, units: int, optimizer: str) -> Layer:
    return Layer(name, f"{width:,} x {units:,} + {units:,}", width * units + units, optimizer)


def _matrix(name: str, width: int, units: int, optimizer: str) -> Layer:
    return Layer(name, f"{width:,} x {units:,}", width * units, optimizer)
