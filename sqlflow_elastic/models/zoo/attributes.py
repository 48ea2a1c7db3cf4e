"""Attributes of WITH that do not depend on the model: ``train.*``, ``validation.*``, ``predict.*``, ``summary.*``."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from sqlflow_elastic.models.zoo.kinds import Boolean, Choice, ClassWeights, Integer, Kind, MetricNames, Number, Text


class Effect(enum.Enum):
    """When an attribute does something."""

    NOW = "now"
    #: With what is not there yet (parameter servers, evaluators, other machines): checked and kept in the plan.
    CLUSTER = "cluster"
    #: Only for models that are not available yet.
    OTHER_MODELS = "other models"


@dataclass(frozen=True)
class Attribute:
    """One attribute.

    Attributes:
        name: as written in WITH, dotted.
        kind: the values it takes.
        default: its value when it is not given; None where there is none, or where the data decides.
        help: one line for people.
        required: the statement is wrong without it.
        effect: when it does something.
        same_as: the attribute that this is another name of.
    """

    name: str
    kind: Kind
    default: Any
    help: str
    required: bool = False
    effect: Effect = Effect.NOW
    same_as: str | None = None


def _cluster(name: str, kind: Kind, help: str) -> Attribute:
    return Attribute(name, kind, None, help, effect=Effect.CLUSTER)


TRAIN: tuple[Attribute, ...] = (
    Attribute(
        "train.epoch", Integer(1), None, "How often each row is seen; by default enough for 1000 steps, from 10 to 100."
    ),
    Attribute("train.batch_size", Integer(1), None, "Rows of one step; by default from 4 to 64, more for more rows."),
    Attribute("train.seed", Integer(0, 2**63 - 1), 0, "Fixes the order of rows and the starting weights."),
    Attribute("train.max_steps", Integer(1), None, "Stop after so many steps, whatever the epoch."),
    Attribute("train.patience", Integer(1), None, "Stop when the validation loss has not improved for so many epochs."),
    Attribute("train.class_weight", ClassWeights(), None, "Weights of the classes in the loss."),
    Attribute("train.checkpoint_secs", Number(0, edges="()"), None, "Seconds between two checkpoints."),
    Attribute("train.save_checkpoints_steps", Integer(1), None, "Steps between two checkpoints."),
    Attribute("train.verbose", Integer(0, 3), 1, "0 for no progress, more for progress."),
    Attribute("train.log_every_n_iter", Integer(0), 0, "Report the loss every so many steps."),
    Attribute("train.num_workers", Integer(1), 1, "Workers at most; each needs one row of a batch."),
    Attribute(
        "train.scaling",
        Choice(("fastest", "all")),
        "fastest",
        "Keep as many workers as make training fastest, or all that there is room for.",
    ),
    Attribute("train.priority", Integer(0), 0, "Which job gets room first; higher is more urgent."),
    Attribute(
        "train.worker_cpu",
        Number(0, edges="()"),
        1,
        "Cores of a worker: so many of the machine's slots, rounded up.",
    ),
    Attribute(
        "train.wire_dtype",
        Choice(("float32", "bfloat16", "float16")),
        None,
        "How gradients travel between workers; by default as they are.",
    ),
    Attribute(
        "train.strategy",
        Choice(("auto", "allreduce", "hybrid", "ps")),
        "auto",
        "Where embedding tables are: with every worker, or on servers; ps: all weights are on servers, and each worker "
        "takes steps of its own.",
    ),
    Attribute(
        "train.sync", Boolean(), None, "Whether all workers take each step together; by default as the strategy says."
    ),
    Attribute(
        "train.staleness",
        Integer(0),
        16,
        "How many steps a worker may be ahead of the slowest one, where each takes its own.",
    ),
    Attribute(
        "train.num_ps", Integer(0), None, "Servers of tables, 0 for none; by default as many as the tables need."
    ),
    Attribute("train.ps_cpu", Number(0), 0, "Cores of a server: so many of the machine's slots, rounded up."),
    Attribute("train.ps_memory", Integer(1), None, "Memory of a server in MiB; by default what its tables need."),
    Attribute(
        "train.worker_memory", Integer(1), None, "Memory of a worker in MiB; by default its part of the machine's."
    ),
    _cluster("train.worker_gpu", Integer(0), "GPUs of a worker process."),
    _cluster("train.ps_gpu", Integer(0), "GPUs of a ps process."),
    _cluster("train.num_evaluator", Integer(0), "Evaluator processes to ask for."),
    _cluster("train.evaluator_cpu", Number(0, edges="()"), "CPU cores of an evaluator process."),
    _cluster("train.evaluator_gpu", Integer(0), "GPUs of an evaluator process."),
    _cluster("train.evaluator_memory", Integer(1), "Memory of an evaluator process in megabytes."),
    Attribute("train.num_boost_round", Integer(1), 10, "Trees to build.", effect=Effect.OTHER_MODELS),
    Attribute(
        "train.disk_cache", Boolean(), False, "Keep the rows on disk while training trees.", effect=Effect.OTHER_MODELS
    ),
    Attribute("train.trials", Integer(1), None, "Trainings of a search over attributes.", effect=Effect.OTHER_MODELS),
)

VALIDATION: tuple[Attribute, ...] = (
    Attribute("validation.select", Text("a SELECT statement in quotes"), None, "The rows to validate on."),
    Attribute(
        "validation.fraction",
        Number(0, 1, "()"),
        None,
        "The part of the rows that is kept for validation, not trained on.",
    ),
    Attribute("validation.metrics", MetricNames(), None, "What to measure; by default what fits the label."),
    Attribute("validation.steps", Integer(1), None, "Validate on so many batches at most."),
    _cluster("validation.start_delay_secs", Number(0), "Seconds before the first validation of an evaluator process."),
    _cluster("validation.throttle_secs", Number(0), "Seconds between two validations of an evaluator process."),
)

PREDICT: tuple[Attribute, ...] = (
    Attribute("predict.batch_size", Integer(1), 1024, "Rows that go through the network at once."),
    Attribute("predict.num_workers", Integer(1), 1, "Workers at most."),
)

EVALUATE: tuple[Attribute, ...] = (
    next(attribute for attribute in VALIDATION if attribute.name == "validation.metrics"),
    next(attribute for attribute in PREDICT if attribute.name == "predict.num_workers"),
)

SUMMARY: tuple[Attribute, ...] = (
    Attribute(
        "summary.plot_type",
        Choice(("bar", "dot", "violin", "layered_violin", "decision")),
        "dot",
        "The plot of TO EXPLAIN.",
    ),
    Attribute("summary.sort", Boolean(), True, "Whether features stand in the order of their weight."),
    Attribute("summary.alpha", Number(0, 1), 1, "Opacity of the plot's points."),
)
