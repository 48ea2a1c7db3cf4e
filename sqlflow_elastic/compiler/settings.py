"""From ``train.*`` and ``validation.*`` to the arguments of `elastic.TrainSettings` and the class weights."""

from __future__ import annotations

from typing import Any

from sqlflow_elastic.compiler.attributes import Attributes
from sqlflow_elastic.compiler.bind import Rows
from sqlflow_elastic.compiler.program_text import listing
from sqlflow_elastic.models.features import ClassLabel, Label
from sqlflow_elastic.models.zoo.attributes import TRAIN, VALIDATION, Effect

SEED = 0

_DIRECT = {
    "train.max_steps": "max_steps",
    "validation.fraction": "validation_fraction",
    "validation.steps": "validation_steps",
    "train.patience": "patience",
    "train.checkpoint_secs": "checkpoint_secs",
    "train.save_checkpoints_steps": "checkpoint_steps",
    "train.verbose": "verbose",
    "train.wire_dtype": "wire_dtype",
    "train.worker_memory": "worker_memory",
    "train.staleness": "staleness",
}

#: What is asked of servers, which there are none of with every strategy.
_OF_SERVERS = ("train.num_ps", "train.ps_cpu", "train.ps_memory")


def train_settings(attributes: Attributes, rows: Rows) -> dict[str, Any]:
    """The arguments of `elastic.TrainSettings`: those that a person wants to see, and those that were given.

    Raises: CompileError: early stopping without rows to measure, or a strategy that is none.
    """
    values = attributes.values
    if values.get("train.patience") is not None and not _has_validation(attributes):
        message = "train.patience stops when validation gets no better, and there are no validation rows"
        raise attributes.error("train.patience", message, "add validation.fraction = 0.1, or validation.select")
    strategy = _strategy(attributes)
    batch_size = values.get("train.batch_size") or default_batch_size(rows)
    settings = {
        "epochs": values.get("train.epoch") or default_epochs(rows, batch_size),
        "batch_size": batch_size,
        "seed": values.get("train.seed", SEED),
    }
    settings |= {argument: values[name] for name, argument in _DIRECT.items() if name in values}
    if strategy is not None:
        settings["strategy"] = strategy
    if values.get("train.num_ps"):
        settings["servers"] = values["train.num_ps"]
    if values.get("train.log_every_n_iter"):
        settings["log_every_n_steps"] = values["train.log_every_n_iter"]
    return settings


def _strategy(attributes: Attributes) -> str | None:
    """What ``train.strategy``, ``train.sync`` and ``train.num_ps`` say together; None where none of them says it.

    Raises: CompileError: they contradict each other.
    """
    values = attributes.values
    strategy: str | None = values.get("train.strategy")
    together: bool | None = values.get("train.sync")
    if together is False and strategy in ("allreduce", "hybrid"):
        message = f'with train.strategy = "{strategy}" all workers take each step together, and train.sync is False'
        raise attributes.error("train.sync", message, "leave train.sync away")
    if together is False:
        strategy = "ps"
    elif strategy == "ps" and together is True:
        strategy = "hybrid"
    if values.get("train.num_ps") == 0:
        if strategy in ("hybrid", "ps"):
            said = "train.sync" if together is False else "train.strategy"
            message = f"{_said(attributes, said)} has tables on servers, and train.num_ps is 0"
            raise attributes.error("train.num_ps", message, "leave train.num_ps away for as many as the tables need")
        return "allreduce"
    return strategy


def _said(attributes: Attributes, name: str) -> str:
    value = attributes.values[name]
    return f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}"


def default_batch_size(rows: Rows) -> int:
    """A power of two from 4 to 64 that makes at least 16 steps of an epoch: few rows should not mean few steps."""
    if not rows.complete:
        return 64
    sixteenth = int(rows.sample.num_rows) // 16
    return min(64, max(4, 1 << max(0, sixteenth.bit_length() - 1)))


def default_epochs(rows: Rows, batch_size: int) -> int:
    """Enough for about 500 steps, from 10 to 100: few rows need many passes, and many rows few."""
    if not rows.complete:
        return 10
    steps = -(-rows.sample.num_rows // batch_size)
    return int(min(100, max(10, -(-500 // steps))))


def without_effect(attributes: Attributes) -> list[str]:
    """Sentences about the given attributes that change nothing here; they are checked and kept all the same."""
    sentences = []
    for effect, where in ((Effect.CLUSTER, "yet"), (Effect.OTHER_MODELS, "on this model")):
        declared = [attribute.name for attribute in (*TRAIN, *VALIDATION) if attribute.effect is effect]
        given = [name for name in declared if name in attributes.values]
        if given:
            sentences.append(f"without effect {where}: {', '.join(given)}")
    alone = _strategy(attributes) == "ps"
    others = ("train.staleness",) if not alone else ("train.scaling", "train.wire_dtype", "train.log_every_n_iter")
    if of_others := [name for name in others if name in attributes.values]:
        where = "each worker takes steps of its own" if alone else "workers take each step together"
        sentences.append(f"without effect where {where}: {', '.join(of_others)}")
    servers = [name for name in _OF_SERVERS if attributes.values.get(name)]
    if servers and attributes.values.get("train.strategy") == "allreduce":
        sentences.append(f"without effect without servers: {', '.join(servers)}")
    unused = [name for name in ("validation.metrics", "validation.steps") if name in attributes.values]
    if unused and not _has_validation(attributes):
        sentences.append(f"without effect without validation.fraction or validation.select: {', '.join(unused)}")
    return sentences


def _has_validation(attributes: Attributes) -> bool:
    return any(attributes.values.get(name) for name in ("validation.select", "validation.fraction"))


def class_weight(attributes: Attributes, label: Label) -> str | dict[str | int | bool, float] | None:
    """The weights of the classes as `elastic.train` takes them. Raises: CompileError: they do not fit the classes."""
    name = "train.class_weight"
    weights = attributes.values.get(name)
    if weights is None:
        return None
    if not isinstance(label, ClassLabel):
        raise attributes.error(name, f"the label '{label.field}' is a number and has no classes to weigh")
    classes = label.classes or ()
    if isinstance(weights, list):
        if len(weights) != len(classes):
            has = f"the label '{label.field}' has {len(classes)} classes"
            message = f"train.class_weight has {len(weights)} weights, and {has}"
            raise attributes.error(name, message, f"they are {listing(map(str, classes))}")
        return dict(zip(classes, weights, strict=True))
    if isinstance(weights, dict):
        unknown = [value for value in weights if value not in classes]
        if unknown:
            message = f"train.class_weight names {unknown[0]!r}, which is no class of the label '{label.field}'"
            raise attributes.error(name, message, f"the classes are {listing(map(str, classes))}")
        return {value: weights.get(value, 1.0) for value in classes}
    return "balanced"
