"""What EXPLAIN SELECT … TO TRAIN says: features, network, sizes and strategy, counted without TensorFlow.

Vocabularies and missing values are counted in the sample; where that is not all of the data, figures carry "about".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlflow_elastic.compiler.bind import Rows
from sqlflow_elastic.compiler.layers import Layer, Layers, Sizes
from sqlflow_elastic.compiler.network import Network
from sqlflow_elastic.compiler.plan import Features
from sqlflow_elastic.compiler.strategy import strategy
from sqlflow_elastic.elastic.sizes import bytes_text, count
from sqlflow_elastic.jobs.request import JobRequest
from sqlflow_elastic.models.features import ClassLabel
from sqlflow_elastic.models.zoo.declarations import Family, Model

Explanation = list[tuple[str, str, str]]

_FLOAT = 4


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
    sizes = Sizes(features, rows)
    about = "" if rows.complete else "about "
    answer: Explanation = [("model", model.name, model.help)]
    for name, columns in features.columns.items():
        answer += [(name, repr(column), count(sizes.width(column), "number") + " a row") for column in columns]
    answer.append(("label", repr(features.label), _label_text(features)))
    layers = Layers(features, network, sizes).all()
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
    answer += strategy(request, attributes, settings, dense, slots, tables, number, about)
    answer += [("note", "", note) for note in notes]
    return answer


def _label_text(features: Features) -> str:
    label = features.label
    return f"{len(label.classes or ())} classes" if isinstance(label, ClassLabel) else "a number"


def _size_rows(layers: Sequence[Layer], network: Network, about: str) -> Explanation:
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
