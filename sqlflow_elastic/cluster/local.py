"""A cluster in the small: processes on this machine, forked from one idle process that has TensorFlow imported.

    this process                                          fork server (`forkserver`)
      LocalCluster ── Client ──socket──► Keeper ──socket──►  imports, forks ──► children: masters, workers, programs
                                           ▲
      a master     ── Client ──socket──────┘

The holder's own calls take the same way as a master's (`client`). The keeper is a thread (`keeper`); what runs when is
decided without it (`scheduler`).
"""

from __future__ import annotations

import os

from sqlflow_elastic.cluster.client import Client
from sqlflow_elastic.cluster.keeper import Keeper

#: What a job's program needs and what is slow to import.
PRELOAD = (
    "tensorflow",
    "keras",
    *(f"sqlflow_elastic.elastic.{part}" for part in ("training", "evaluating", "predicting")),
    "sqlflow_elastic.datasource",
    "sqlflow_elastic.jobs.master.process",
)

#: What a preempted process has between SIGTERM and SIGKILL.
PREEMPTION_GRACE_SECONDS = 30.0


class LocalCluster(Client):
    """See `Cluster` for the guarantees.

    Args:
        preload: modules imported before the first process is forked.
        slots: how many there are; None: one for each processor core that may be used.
        grace: seconds that a preempted process has between SIGTERM and SIGKILL.
    """

    def __init__(
        self,
        preload: tuple[str, ...] = PRELOAD,
        slots: int | None = None,
        grace: float = PREEMPTION_GRACE_SECONDS,
    ) -> None:
        self._keeper = Keeper(preload, len(os.sched_getaffinity(0)) if slots is None else slots, grace)
        super().__init__(self._keeper.address)

    def close(self) -> None:
        """End all processes and the fork server. Blocks for 20 seconds at most, for a moment as a rule."""
        self._keeper.close()
