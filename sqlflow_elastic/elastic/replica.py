"""What a worker's loop drives: one copy of a training's state, which takes steps together with the other copies.

Readable without TensorFlow. All members of a world hold the same state bit by bit whenever they stand between two
steps. `Trainer` is a `Replica`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sqlflow_elastic.elastic.membership.messages import Needs
from sqlflow_elastic.elastic.tables.access import Tables
from sqlflow_elastic.models.tables.spec import TableSpec


class Seat(Protocol):
    """Where a member is in its world."""

    @property
    def rank(self) -> int:
        """From 0 on; slices of a batch lie in the order of the ranks."""
        ...

    @property
    def size(self) -> int:
        """Members of the world."""
        ...


class Exchange(Protocol):
    """What the members of a world have in common; `comm.Communicator` is one.

    Every member makes the same calls in the same order. Each call blocks until all have made it, and raises
    `comm.WorldBroken` when one of them cannot: at once where it is known, at the communicator's deadline otherwise.
    """

    @property
    def place(self) -> Seat:
        """This member's."""
        ...

    def allreduce(
        self, buffers: Sequence[NDArray[Any]], into: Sequence[NDArray[Any]] | None = None, exact: int = 0
    ) -> None:
        """Sum float32, float64 or int64 vectors over all members; the bits are the same at all of them.

        The sums are left in ``into``, which are vectors like the buffers that share no memory with them, or in the
        buffers themselves. The last ``exact`` elements of the last buffer are not rounded on the way, whatever
        `TrainSettings.wire_dtype` is.
        """
        ...

    def allgather(self, data: bytes | memoryview | NDArray[np.uint8]) -> list[memoryview]:
        """Everybody's bytes, of any number each, in rank order."""
        ...


@dataclass(frozen=True)
class Speeds:
    """How fast training is; see `membership.messages.Progress`.

    Attributes:
        samples_per_second: of the whole world since it runs, without its first steps; 0.0 while unknown.
        sample_seconds: what one sample costs this member, waiting for others left out; 0.0 while unknown.
        measured: seconds that ``samples_per_second`` was measured over.
        settled: whether it will stay as it is: a world of one tries ways to run steps first.
        eta: seconds that remain at this speed; 0.0 while unknown.
    """

    samples_per_second: float = 0.0
    sample_seconds: float = 0.0
    measured: float = 0.0
    settled: bool = False
    eta: float = 0.0


class Replica(Protocol):
    """One member's copy of a training, driven by one thread; properties may be read by any."""

    @property
    def table_specs(self) -> Sequence[TableSpec]:
        """The tables that are on servers; none in most trainings."""
        ...

    @property
    def tables_are_new(self) -> bool:
        """Whether no row of these tables was ever trained; else servers have a snapshot of `step` to begin from."""
        ...

    @property
    def step(self) -> int:
        """Steps applied to the state; `membership.messages.NO_STATE` before `begin` or `take_state`."""
        ...

    @property
    def saved_lately(self) -> bool:
        """Whether a checkpoint of a step since the last `run` began is on disk."""
        ...

    @property
    def finished(self) -> bool:
        """Whether training is at its end, which may be before its last step."""
        ...

    @property
    def speeds(self) -> Speeds:
        """Since the last `run` began. Cheap, and blocks for nothing."""
        ...

    def warm_up(self) -> None:
        """Build and trace all that a world of several needs, so that joining one costs no trace. Changes no state."""
        ...

    def begin(self) -> None:
        """Take the state of the newest checkpoint, or the initial one: nobody has any."""
        ...

    def state(self) -> list[NDArray[np.uint8]]:
        """All of the state as it is between two steps. Valid until the next step; not to be written."""
        ...

    def take_state(self, buffers: list[NDArray[np.uint8]]) -> None:
        """Take on what another member's `state` is, whole or not at all; the buffers may be freed afterwards.

        Raises:
            JobError: it is of another training.
        """
        ...

    def run(
        self,
        world: Exchange | None,
        shares: tuple[float, ...],
        stop: Callable[[], bool],
        tables: Tables | None = None,
    ) -> bool:
        """Take steps, with the other members of a world or alone.

        Args:
            world: None, or of size 1, for a member that trains alone.
            shares: what part of a batch each rank takes; empty: equal parts.
            stop: asked before each step, or every 0.2 s by a member alone; True makes all members return between the
                same two steps.
            tables: the world's servers, which have applied as many steps; None for a training without any.

        Returns:
            True at the end of training; False when members stopped.

        Raises:
            comm.WorldBroken: the state is that between two steps, `step` of them done; nothing of the broken one is in
                it.
            JobError, DataError: training cannot go on, whoever computes it.
        """
        ...

    def checkpoint(self) -> None:
        """Write a checkpoint of the state as it is; returns when it is on disk or given up with a warning.

        Tables on servers are in it as long as the world that was run last has its connections.
        """
        ...

    def close(self) -> None:
        """End what runs aside. Waits for a checkpoint that is being written."""
        ...


class Plans(Protocol):
    """The plans that a training may have in its life: by another one its replica is built otherwise."""

    def differs(self, plan: str) -> bool:
        """Whether the replica is built otherwise by a plan, which is `membership.messages.Prepare`'s."""
        ...

    def take(self, plan: str, *, leads: bool) -> Replica:
        """Build the replica of such a plan; the one before is closed.

        Args:
            plan: see `differs`.
            leads: whether this member does for all what one has to do.
        """
        ...

    def better(self, workers: int, replica: Replica) -> Needs | None:
        """What a plan needs that is better for a world of so many workers, if tables should move. For any thread."""
        ...
