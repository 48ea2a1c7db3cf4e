"""The servers of a worker that takes steps alone: which ones, as the master says, and a session with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from sqlflow_elastic.elastic.comm import WorldBroken
from sqlflow_elastic.elastic.membership.messages import Servers
from sqlflow_elastic.elastic.tables.link import Link
from sqlflow_elastic.elastic.tables.lone_client import LoneSession, join
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.models.tables.spec import TableSpec

#: How long servers may take to read their rows.
_READY_SECONDS = 1800.0
#: How long to try to reach servers that the master counts on, and the pause between.
_REACH_SECONDS, _AGAIN_SECONDS = 120.0, 0.2


class LoneServers:
    """See the module's page.

    Args:
        token: the job's.
        worker: this one's name.
    """

    def __init__(self, token: bytes, worker: str) -> None:
        self._token = token
        self._worker = worker
        self._changed = threading.Condition()
        self._listed = Servers(0, ())
        self._links: list[Link] = []

    def take(self, servers: Servers) -> None:
        """The master has said which ones to use. A session with others breaks. For any thread."""
        with self._changed:
            if servers.version > self._listed.version:
                self._listed = servers
                for link in self._links:
                    link.abort("the servers change")
                self._changed.notify_all()

    def join(self, specs: Sequence[TableSpec], staleness: int) -> LoneSession:
        """A session with the servers; waits until there are some, and for successors of those that are gone.

        Args:
            specs: of all tables.
            staleness: see `tables.lone_client.join`.

        Raises:
            JobError: servers that the master counts on cannot be reached, or cannot read their rows.
        """
        tried, end = 0, 0.0
        while True:
            with self._changed:
                # No deadline: a worker without a master that finds servers is ended by its machine.
                self._changed.wait_for(lambda: self._listed.version > 0)
                listed, self._links = self._listed, []
            if listed.version > tried:
                tried, end = listed.version, time.monotonic() + _REACH_SECONDS
            try:
                return self._joined(listed, specs, staleness)
            except WorldBroken as broken:
                if time.monotonic() > end:
                    raise JobError(f"servers cannot be reached: {broken.reason}") from None
            with self._changed:
                self._changed.wait_for(lambda: self._listed is not listed, _AGAIN_SECONDS)  # noqa: B023 - at once

    def _joined(self, listed: Servers, specs: Sequence[TableSpec], staleness: int) -> LoneSession:
        def opened(link: Link) -> None:
            with self._changed:
                self._links.append(link)
                if self._listed is not listed:
                    link.abort("the servers change")

        servers = [(server.name, server.address) for server in listed.servers]
        return join(
            self._token,
            servers,
            specs,
            listed.version,
            self._worker,
            staleness,
            seconds=_READY_SECONDS,
            opened=opened,
        )
