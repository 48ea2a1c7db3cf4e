"""A job's figures for Prometheus, served by its master over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http.server import ThreadingHTTPServer
from typing import TypeAlias

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sqlflow_elastic.elastic.membership.messages import ServerState
from sqlflow_elastic.events import WorldChanged

#: Values of one metric by its further labels.
_Values: TypeAlias = Iterable[tuple[tuple[str, ...], float | None]]

_REQUEST_SECONDS = 5.0
_POLL_SECONDS = 0.1


class Why(StrEnum):
    """What a world change was for. Prometheus keeps a series for each, so there are few, and no names in them."""

    JOIN = "join"
    LEAVE = "leave"
    REPLACE = "replace"
    #: The same members: a broken connection, or other shares of the batch.
    SAME = "same"


_WHY = {
    (True, False): Why.JOIN,
    (False, True): Why.LEAVE,
    (True, True): Why.REPLACE,
    (False, False): Why.SAME,
}


@dataclass(frozen=True)
class Figures:
    """How a job stands. What is None is not exposed.

    Attributes:
        step: applied to the state of the furthest member.
        samples_per_second: of the whole world.
        loss: mean of the last steps.
        world_size, world_version: of the world that runs; 0 for none.
        workers: how many are in each phase ("pending", "running", "ended").
        world_changes: how many there were.
        paused_seconds: that the survivors of world changes stood still, added up.
        tasks: how many there are, by queue and state ("open", "done").
        servers: of tables, by name: how those are that live.
    """

    step: int | None = None
    samples_per_second: float | None = None
    loss: float | None = None
    world_size: int = 0
    world_version: int = 0
    workers: Mapping[str, int] = field(default_factory=dict)
    world_changes: Mapping[Why, int] = field(default_factory=dict)
    paused_seconds: float = 0.0
    tasks: Mapping[tuple[str, str], int] = field(default_factory=dict)
    servers: Mapping[str, ServerState] = field(default_factory=dict)

    def changed(self, event: WorldChanged) -> Figures:
        """These, after one more world change."""
        why = _WHY[bool(event.joined), bool(event.left)]
        return replace(
            self,
            world_size=len(event.members),
            world_version=event.version,
            world_changes={**self.world_changes, why: self.world_changes.get(why, 0) + 1},
            paused_seconds=self.paused_seconds + event.seconds,
        )


class Exposition:
    """Serves the newest `Figures` of a job under ``/metrics``, on this machine only, from threads of its own.

    Args:
        job, title: labels of every figure.
    """

    def __init__(self, job: str, title: str) -> None:
        self._collector = _Figures({"job": job, "title": title})
        registry = CollectorRegistry()
        registry.register(self._collector)
        self._handler = type("_Handler", (MetricsHandler,), {"registry": registry, "timeout": _REQUEST_SECONDS})
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> str:
        """Begin to serve on a free port. Returns host:port. Raises: OSError: there is none."""
        self._server = _Server(("127.0.0.1", 0), self._handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="exposition", daemon=True
        )
        self._thread.start()
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    @property
    def figures(self) -> Figures:
        """What is served."""
        return self._collector.figures

    def update(self, figures: Figures) -> None:
        """Serve these from now on. Costs nothing, blocks for nothing."""
        self._collector.figures = figures

    def close(self) -> None:
        """Stop serving and free the port; takes a fifth of a second at most. May be called more than once."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None


class _Server(ThreadingHTTPServer):
    # A client that says nothing is not waited for; the handler's timeout ends its thread.
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news."""


class _Figures(Collector):
    """Turns the newest figures into metrics when they are asked for."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.figures = Figures()
        self._labels = labels

    def collect(self) -> Iterator[Metric]:
        figures = self.figures
        yield self._gauge("step", "Steps applied.", _one(figures.step))
        yield self._gauge("samples_per_second", "Training speed of the whole job.", _one(figures.samples_per_second))
        yield self._gauge("loss", "Mean training loss of the last steps.", _one(figures.loss))
        yield self._gauge("world_size", "Members of the world that runs.", _one(figures.world_size))
        yield self._gauge("world_version", "Version of the world that runs.", _one(figures.world_version))
        yield self._gauge("workers", "Worker processes by phase.", _keyed(figures.workers.items()), "phase")
        yield self._counter(
            "world_changes", "World changes by their reason.", _keyed(figures.world_changes.items()), "why"
        )
        yield self._counter("paused_seconds", "Seconds paused for world changes.", _one(figures.paused_seconds))
        yield self._gauge("tasks", "Tasks by queue and state.", figures.tasks.items(), "queue", "state")
        memory = _keyed((name, server.memory) for name, server in figures.servers.items())
        yield self._gauge("server_memory_bytes", "Bytes that a server of tables takes.", memory, "server")
        rows = _keyed((name, server.rows) for name, server in figures.servers.items())
        yield self._gauge("server_rows", "Rows that a server of tables has.", rows, "server")

    def _gauge(self, name: str, text: str, values: _Values, *labels: str) -> Metric:
        return self._filled(GaugeMetricFamily(self._name(name), text, labels=[*self._labels, *labels]), values)

    def _counter(self, name: str, text: str, values: _Values, *labels: str) -> Metric:
        return self._filled(CounterMetricFamily(self._name(name), text, labels=[*self._labels, *labels]), values)

    def _name(self, name: str) -> str:
        return f"sqlflow_elastic_{name}"

    def _filled(self, family: GaugeMetricFamily | CounterMetricFamily, values: _Values) -> Metric:
        for key, value in values:
            if value is not None:
                family.add_metric([*self._labels.values(), *key], value)
        return family


def _one(value: float | None) -> _Values:
    return [((), value)]


def _keyed(values: Iterable[tuple[str, int]]) -> _Values:
    return [((key,), value) for key, value in values]
