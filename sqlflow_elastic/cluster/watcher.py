"""Somebody who watches a cluster, as the cluster sees him."""

from __future__ import annotations

import json
from collections.abc import Iterable

from sqlflow_elastic.cluster.base import Status
from sqlflow_elastic.cluster.channel import MESSAGE_BYTES
from sqlflow_elastic.cluster.messages import encode, from_status
from sqlflow_elastic.cluster.scheduler import MAX_PROCESSES, Key

_FULL_BYTES = MESSAGE_BYTES // 2


class Watcher:
    """Collects what he has to be told: of each process the newest status, so that one who sleeps costs no more.

    Args:
        job: whose processes he wants to know of; None: all.
        now: their statuses.
    """

    def __init__(self, job: str | None, now: Iterable[Status]) -> None:
        self._job = job
        self._news: dict[Key, Status] = {(status.job, status.name): status for status in now}
        self.has_news = True

    @property
    def is_lost(self) -> bool:
        """Whether more is to be told than there can be processes: he has not listened for whole jobs."""
        return len(self._news) > 2 * MAX_PROCESSES

    def tell(self, status: Status) -> None:
        """A process has changed."""
        if self._job is None or self._job == status.job:
            self._news[status.job, status.name] = status
            self.has_news = True

    def packet(self) -> bytes:
        """The next message to him."""
        statuses = []
        size = 0
        while self._news and size < _FULL_BYTES:
            statuses.append(from_status(self._news.pop(next(iter(self._news)))))
            size += len(json.dumps(statuses[-1]))
        self.has_news = bool(self._news)
        return encode({"statuses": statuses, "more": self.has_news})
