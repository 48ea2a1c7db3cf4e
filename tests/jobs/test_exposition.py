"""A job's figures are served as Prometheus reads them, by a server that leaves nothing behind."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from sqlflow_elastic.elastic.membership.messages import ServerState
from sqlflow_elastic.events import WorldChanged
from sqlflow_elastic.jobs.exposition import Exposition, Figures
from tests.waiting import wait_until

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def exposition() -> Iterator[Exposition]:
    exposition = Exposition("job-1", 'my "model"\n')
    yield exposition
    exposition.close()


def scrape(address: str) -> Samples:
    """Values by name and labels, without those that all have."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in ("gauge", "counter")
        for sample in family.samples:
            assert sample.name.startswith("sqlflow_elastic_")
            assert sample.name.endswith("_total") == (family.type == "counter")
            labels = dict(sample.labels)
            assert (labels.pop("job"), labels.pop("title")) == ("job-1", 'my "model"\n')
            samples[sample.name, frozenset(labels.items())] = sample.value
    return samples


def labels(**values: str) -> frozenset[tuple[str, str]]:
    return frozenset(values.items())


def test_all_figures_are_served_under_their_names(exposition: Exposition) -> None:
    address = exposition.start()
    figures = Figures(
        step=812,
        samples_per_second=1_000.5,
        loss=0.25,
        workers={"running": 2, "pending": 1},
        tasks={("prepare", "done"): 1, ("save", "open"): 1},
        servers={"ps-0": ServerState(1 << 30, 2_000, 812), "ps-2": ServerState(0, 0, -1)},
    )
    for change in (
        WorldChanged(5, ("a", "b"), ("b",), (), "b joined", 700, 0.25),
        WorldChanged(6, ("a",), (), ("b",), "b was killed", 750, 0.5),
        WorldChanged(7, ("a", "c"), ("c",), (), "c joined", 800, 0.25),
    ):
        figures = figures.changed(change)
    exposition.update(figures)
    assert scrape(address) == {
        ("sqlflow_elastic_step", labels()): 812,
        ("sqlflow_elastic_samples_per_second", labels()): 1_000.5,
        ("sqlflow_elastic_loss", labels()): 0.25,
        ("sqlflow_elastic_world_size", labels()): 2,
        ("sqlflow_elastic_world_version", labels()): 7,
        ("sqlflow_elastic_workers", labels(phase="running")): 2,
        ("sqlflow_elastic_workers", labels(phase="pending")): 1,
        ("sqlflow_elastic_world_changes_total", labels(why="join")): 2,
        ("sqlflow_elastic_world_changes_total", labels(why="leave")): 1,
        ("sqlflow_elastic_paused_seconds_total", labels()): 1.0,
        ("sqlflow_elastic_tasks", labels(queue="prepare", state="done")): 1,
        ("sqlflow_elastic_tasks", labels(queue="save", state="open")): 1,
        ("sqlflow_elastic_server_memory_bytes", labels(server="ps-0")): 1 << 30,
        ("sqlflow_elastic_server_memory_bytes", labels(server="ps-2")): 0,
        ("sqlflow_elastic_server_rows", labels(server="ps-0")): 2_000,
        ("sqlflow_elastic_server_rows", labels(server="ps-2")): 0,
    }


def test_what_is_not_known_yet_is_not_served(exposition: Exposition) -> None:
    address = exposition.start()
    assert {name for name, _ in scrape(address)} == {
        "sqlflow_elastic_world_size",
        "sqlflow_elastic_world_version",
        "sqlflow_elastic_paused_seconds_total",
    }


def test_a_job_is_heard_on_this_machine_only_and_apart_from_others(exposition: Exposition) -> None:
    address = exposition.start()
    other = Exposition("job-2", "another")
    assert other.start() != address
    other.close()
    assert address.startswith("127.0.0.1:")
    assert not [family for family in REGISTRY.collect() if family.name.startswith("sqlflow_elastic")]
    assert scrape(address)


def test_silent_and_rude_clients_hold_nothing_up(exposition: Exposition) -> None:
    host, port = exposition.start().split(":")
    clients = [socket.create_connection((host, int(port)), timeout=10) for _ in range(20)]
    clients[0].sendall(b"\x00" * 1_000 + b"\n\n")
    clients[1].sendall(b"GET /metrics HTTP/1.1\r\n")
    assert scrape(f"{host}:{port}")
    begun = time.monotonic()
    exposition.close()
    assert time.monotonic() - begun < 3
    for client in clients:
        client.close()


def test_closing_frees_the_port_and_ends_the_threads(exposition: Exposition) -> None:
    before = set(threading.enumerate())
    host, port = exposition.start().split(":")
    scrape(f"{host}:{port}")
    exposition.close()
    exposition.close()
    wait_until(lambda: before.issuperset(threading.enumerate()), 10)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), timeout=10)


def test_one_that_was_never_started_closes(exposition: Exposition) -> None:
    exposition.update(Figures(step=1))
    assert exposition.figures.step == 1
