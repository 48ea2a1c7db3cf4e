"""Several members of one training in this process, to be put into worlds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from sqlflow_elastic.elastic.comm import WorldBroken
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.optimizers import Optimizers
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.trainer import Trainer
from sqlflow_elastic.events import Event
from tests.elastic import models
from tests.elastic.worlds import Break, World

#: Members wait for each other inside TensorFlow. As processes each has threads of its own; here they share them.
tf.config.threading.set_inter_op_parallelism_threads(8)


class Crew:
    """Members of one training.

    Attributes:
        models, trainers, events: each member's.
        traces: how often a gradient function was traced, by all of them.
    """

    def __init__(
        self,
        size: int,
        build: Callable[[], tuple[Any, Optimizers]],
        dataset: ArrayDataset,
        settings: TrainSettings,
        *,
        gradients: Callable[..., Any] = models.class_gradients,
        checkpoints: Path | None = None,
        **options: Any,
    ) -> None:
        self.traces = 0
        self.models: list[Any] = []
        self.trainers: list[Trainer] = []
        self.events: list[list[Event]] = []

        def counted(model: Any, batch: Any) -> Any:
            self.traces += 1
            return gradients(model, batch)

        for _ in range(size):
            model, optimizers = build()
            events: list[Event] = []
            self.events.append(events)
            self.models.append(model)
            self.trainers.append(
                Trainer(
                    model,
                    counted,
                    optimizers,
                    dataset,
                    settings,
                    emit=events.append,
                    checkpoints=checkpoints,
                    **options,
                )
            )
        self.trainers[0].begin()
        self._initial = [buffer.copy() for buffer in self.trainers[0].state()]
        self.rewind()

    def rewind(self) -> None:
        """All members are at the beginning again."""
        for trainer, events in zip(self.trainers, self.events, strict=True):
            trainer.take_state(self._initial)
            events.clear()

    def alone(self, member: int = 0) -> list[Any]:
        """Train to the end by one member, from the beginning. Returns the weights."""
        self.rewind()
        assert self.trainers[member].run(None, (), lambda: False)
        return models.weights(self.models[member])

    def run(
        self,
        members: Sequence[int],
        shares: tuple[float, ...] = (),
        stops: Callable[[int], Callable[[], bool]] = lambda member: lambda: False,
        broken: Break | None = None,
    ) -> list[bool | WorldBroken]:
        """Run these members as a world, from where they are."""
        self.world = World(len(members), broken)

        def work(member: int) -> Callable[[Any], bool]:
            return lambda world: self.trainers[member].run(world, shares, stops(member))

        return self.world.run(*(work(member) for member in members))

    def align(self, members: Sequence[int]) -> None:
        """The furthest member's state goes to those behind it."""
        root = max(members, key=lambda member: self.trainers[member].step)
        state = self.trainers[root].state()
        for member in members:
            if self.trainers[member].step < self.trainers[root].step:
                self.trainers[member].take_state(state)

    def state(self, member: int) -> list[Any]:
        """A copy of all of a member's state, as bytes."""
        return [buffer.copy() for buffer in self.trainers[member].state()]

    def weights(self, member: int) -> list[Any]:
        return models.weights(self.models[member])
