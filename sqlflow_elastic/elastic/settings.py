"""How a model is trained. Readable without TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass

from sqlflow_elastic.elastic.comm.base import WireDtype

STRATEGIES = ("auto", "allreduce", "hybrid", "ps")


@dataclass(frozen=True)
class TrainSettings:
    """How a model is trained.

    Class weights are no setting: they multiply the dataset's weights.

    Attributes:
        epochs: passes over the training rows.
        batch_size: samples of a global step, whatever the number of workers; an epoch's last batch may be shorter.
        seed: fixes the order of samples and which rows are held out.
        max_steps: ends training after this many steps, if that is before the last epoch's end.
        validation_fraction: of the rows, in [0, 1): the job holds them out and gives them to the trainer as its
            validation.
        validation_steps: batches of ``batch_size`` rows that a validation reads; None for all rows.
        patience: epochs without a better validation loss after which training stops and takes back the best weights;
            None to go on to the end.
        checkpoint_secs: seconds between checkpoints; None for none by time.
        checkpoint_steps: steps between checkpoints; None for none by steps.
        log_every_n_steps: emits the mean training loss of every ``n`` steps as `Metrics`; None for epochs only.
        verbose: 0 emits no `Progress`; 1 does.
        way: how steps are run: "auto" for the fastest, or one of "single", "fused-K" and "xla-K" with K the most steps
            a call (see `ways.Way`). All compute the same sums.
        wire_dtype: what dense gradients are rounded to between workers, "bfloat16", "float16" or "float32"; None for
            their own precision.
        strategy: where embedding tables are: "allreduce" with every worker, "hybrid" on servers, as far as they can be
            there; "auto" for what is faster, or has room. "ps": all weights are on servers, and each worker takes steps
            of its own, with batches of its own.
        staleness: with "ps": so many steps a worker may be ahead of the slowest one.
        servers: how many of them; None for as many as the tables need.
        worker_memory: MiB that a worker may take; None for its part of the machine's.
    """

    epochs: int = 1
    batch_size: int = 64
    seed: int = 0
    max_steps: int | None = None
    validation_fraction: float = 0.0
    validation_steps: int | None = None
    patience: int | None = None
    checkpoint_secs: float | None = 60.0
    checkpoint_steps: int | None = None
    log_every_n_steps: int | None = None
    verbose: int = 1
    way: str = "auto"
    wire_dtype: str | None = None
    strategy: str = "auto"
    staleness: int = 16
    servers: int | None = None
    worker_memory: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "max_steps", "validation_steps", "patience", "checkpoint_steps"):
            self._at_least_one(name)
        for name in ("log_every_n_steps", "servers", "worker_memory"):
            self._at_least_one(name)
        if self.staleness < 0:
            raise ValueError(f"staleness must be at least 0, not {self.staleness}")
        if self.strategy not in STRATEGIES:
            raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, not {self.strategy!r}")
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must be in [0, 1), not {self.validation_fraction}")
        if self.checkpoint_secs is not None and self.checkpoint_secs <= 0:
            raise ValueError(f"checkpoint_secs must be above 0, not {self.checkpoint_secs}")
        if self.wire_dtype not in (None, *WireDtype):
            raise ValueError(f"wire_dtype must be one of {', '.join(WireDtype)}, not {self.wire_dtype!r}")

    def _at_least_one(self, name: str) -> None:
        value = getattr(self, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
