"""How long training is, and how far it has come."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sqlflow_elastic.elastic.settings import TrainSettings


@dataclass(frozen=True)
class Extent:
    """How long training is.

    Attributes:
        rows: samples of an epoch.
        batch_size: samples of a step; an epoch's last one may have fewer.
        epochs: at most.
        steps: in all.
    """

    rows: int
    batch_size: int
    epochs: int
    steps: int

    @classmethod
    def of(cls, settings: TrainSettings, rows: int) -> Extent:
        """The extent of training on ``rows`` rows."""
        steps = settings.epochs * -(-rows // settings.batch_size)
        return cls(rows, settings.batch_size, settings.epochs, min(steps, settings.max_steps or steps))

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch, the short last one included."""
        return -(-self.rows // self.batch_size)

    def batches(self, start: int, most: int) -> tuple[int, int]:
        """The next batches of one size in an epoch: how many there are, at most, and how many samples each has.

        Args:
            start: samples of the epoch before them, of whole batches; fewer than all.
            most: at least 1.
        """
        left = self.rows - start
        return (1, left) if left < self.batch_size else (min(left // self.batch_size, most), self.batch_size)

    def samples(self, step: int) -> int:
        """Samples of the first ``step`` steps of training."""
        epochs, steps = divmod(step, self.steps_per_epoch)
        return epochs * self.rows + min(steps * self.batch_size, self.rows)


@dataclass
class Position:
    """How far training is: all of its state but the variables.

    Attributes:
        step: steps done.
        epoch: epochs done, their validation included.
        loss_sum: of this epoch's samples so far.
        loss: mean per sample of the last epoch done.
        metrics: the last validation's values.
        best_loss, best_metrics, best_step: of the best validation; the step is None before it.
        waited: validations since the best one.
    """

    step: int = 0
    epoch: int = 0
    loss_sum: float = 0.0
    loss: float = math.nan
    metrics: dict[str, float] = field(default_factory=dict)
    best_loss: float = math.inf
    best_metrics: dict[str, float] = field(default_factory=dict)
    best_step: int | None = None
    waited: int = 0
