"""A job's timeline can be opened at any time, by the rules of the Trace Event Format, whoever wrote it and died."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from sqlflow_elastic.elastic.membership.messages import Broken, Hello, Prepare, Prepared, Progress, Running, Standing
from sqlflow_elastic.elastic.timeline import Spans, Timeline
from sqlflow_elastic.elastic.trace_file import TraceFile
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.events import Failed, Message, WorldChanged
from tests.elastic.full_disk import files_of_at_most
from tests.waiting import wait_until


def events_of(path: Path) -> list[dict[str, Any]]:
    """As a viewer reads it: a comma at the end and a missing bracket are allowed. Checks the format's rules."""
    text = path.read_text(encoding="utf-8").rstrip()
    assert text.startswith("[")
    events: list[dict[str, Any]] = json.loads(text.removesuffix(",") + "]")
    open_spans: dict[int, list[int]] = defaultdict(list)
    named = set()
    for event in events:
        assert isinstance(event["pid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            named.add(event["tid"] if event["name"] == "thread_name" else event["pid"])
            continue
        assert event["pid"] in named
        assert isinstance(event["ts"], int)
        match event["ph"]:
            case "X":
                assert event["dur"] >= 0
            case "B":
                open_spans[event["tid"]].append(event["ts"])
            case "E":
                assert event["ts"] >= open_spans[event["tid"]].pop()
            case "C":
                assert all(isinstance(value, int | float) for value in event["args"].values())
                continue
            case "i":
                assert event["s"] == "p"
        assert event["tid"] in named
    return events


def named(events: list[dict[str, Any]]) -> dict[int, str]:
    return {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}


def spans_of(events: list[dict[str, Any]]) -> list[tuple[str, str, str, float, float | None]]:
    """Process, track, name, begin and end in seconds; None: not ended."""
    names = named(events)
    spans: list[tuple[str, str, str, float, float | None]] = []
    for event in events:
        if event["ph"] in "XB":
            end = (event["ts"] + event["dur"]) / 1e6 if event["ph"] == "X" else None
            spans.append((names[event["pid"]], names[event["tid"]], event["name"], event["ts"] / 1e6, end))
        elif event["ph"] == "E":
            place = (names[event["pid"]], names[event["tid"]])
            (index,) = (i for i, span in enumerate(spans) if span[:2] == place and span[4] is None)
            spans[index] = (*spans[index][:4], event["ts"] / 1e6)
    return spans


def fail(text: str) -> None:
    raise AssertionError(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "timeline.json"


def test_spans_instants_and_counters_stand_where_they_were_put(path: Path) -> None:
    trace = TraceFile(path, fail)
    trace.span("worker-0", "main", "warm-up", 1_700_000_000.25, 1.5, layers=3, speed=float("nan"))
    trace.instant("worker-0", "ended", 1_700_000_002.0)
    trace.level("slots", 1_700_000_003.0, 4)
    trace.close()
    events = events_of(path)
    assert spans_of(events) == [("worker-0", "main", "warm-up", 1_700_000_000.25, 1_700_000_001.75)]
    span, instant, level = (event for event in events if event["ph"] != "M")
    assert span["args"] == {"layers": 3, "speed": "nan"}
    assert (instant["name"], instant["ts"]) == ("ended", 1_700_000_002_000_000)
    assert (level["name"], level["args"]) == ("slots", {"value": 4})


def test_no_two_processes_or_tracks_have_one_number(path: Path) -> None:
    trace = TraceFile(path, fail)
    for worker in range(20):
        for track in range(3):
            trace.span(f"worker-{worker}", f"track-{track}", "a", 1.0, 1.0)
    trace.close()
    names = [event["tid"] for event in events_of(path) if event["ph"] == "M"]
    assert len(names) == len(set(names)) == 20 * 4


def test_threads_write_one_file(path: Path) -> None:
    trace = TraceFile(path, fail)
    start = threading.Barrier(4)

    def write(thread: int) -> None:
        start.wait(10)
        for number in range(500):
            trace.span(f"worker-{number % 100}", f"thread-{thread}", "a", float(number), 0.5)
            trace.enter("master", f"thread-{thread}", f"{number % 2}", float(number))
            trace.flush()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    trace.close()
    events = events_of(path)
    numbers = [event["tid"] for event in events if event["ph"] == "M"]
    assert len(numbers) == len(set(numbers)) == 100 * 5 + 5
    assert len(spans_of(events)) == 4 * (500 + 500)


def test_a_level_is_written_when_it_changes(path: Path) -> None:
    trace = TraceFile(path, fail)
    for value in (1, 1, 2, 2, 1):
        trace.level("slots", 1.0, value)
    trace.close()
    assert [event["args"]["value"] for event in events_of(path) if event["ph"] == "C"] == [1, 2, 1]


def test_what_goes_on_is_visible_before_it_ends(path: Path) -> None:
    trace = TraceFile(path, fail)
    trace.enter("worker-0", "world", "world 1", 10.0)
    trace.flush()
    assert spans_of(events_of(path)) == [("worker-0", "world", "world 1", 10.0, None)]
    trace.enter("worker-0", "world", "world 2", 12.0)
    trace.leave("worker-0", "world", 11.0)  # the clock was set back
    trace.close()
    assert [span[2:] for span in spans_of(events_of(path))] == [("world 1", 10.0, 12.0), ("world 2", 12.0, 12.0)]


def test_the_next_master_goes_on_where_the_one_before_stopped(path: Path) -> None:
    first = TraceFile(path, fail)
    first.enter("worker-0", "world", "world 1", 10.0)
    first.span("worker-0", "main", "warm-up", 8.0, 1.0)
    first.close()
    second = TraceFile(path, fail)
    second.enter("worker-0", "world", "world 1", 13.0)
    second.span("worker-0", "main", "saving", 14.0, 1.0)
    second.leave("worker-0", "world", 15.0)
    second.close()
    events = events_of(path)
    assert sorted(named(events).values()) == ["main", "worker-0", "world"]
    assert spans_of(events) == [
        ("worker-0", "world", "world 1", 10.0, 15.0),
        ("worker-0", "main", "warm-up", 8.0, 9.0),
        ("worker-0", "main", "saving", 14.0, 15.0),
    ]


@pytest.mark.parametrize("damage", [b'{"ph":"X","na', b"\x00" * 100, b'{"ph":"M"},\n{"ph":"B","tid":"?"},\n[1'])
def test_a_torn_end_is_cut_off_by_the_next_master(path: Path, damage: bytes) -> None:
    first = TraceFile(path, fail)
    first.span("worker-0", "main", "one", 1.0, 1.0)
    first.close()
    if damage.startswith(b'{"ph":"M"'):
        path.write_bytes(b"[\n" + damage)
    else:
        path.write_bytes(path.read_bytes() + damage)
    second = TraceFile(path, fail)
    second.span("worker-0", "main", "two", 3.0, 1.0)
    second.close()
    lines = path.read_bytes().splitlines()
    assert lines[0] == b"["
    assert all(json.loads(line.removesuffix(b",")) for line in lines[1:])
    assert b'"two"' in lines[-1]


def test_a_killed_master_leaves_a_file_that_can_be_read(path: Path) -> None:
    program = """
import sys, time
from pathlib import Path
from sqlflow_elastic.elastic.trace_file import TraceFile
trace = TraceFile(Path(sys.argv[1]), print)
while True:
    trace.span("worker-0", "main", "work" * 20, time.time(), 0.0)
"""
    process = subprocess.Popen([sys.executable, "-c", program, str(path)])
    try:
        wait_until(lambda: path.exists() and path.stat().st_size > 3_000_000, 30)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert len(spans_of(events_of(path))) > 10_000
    TraceFile(path, fail).close()
    events_of(path)


def test_it_stays_below_its_limit_and_keeps_world_changes_longest(path: Path) -> None:
    timeline = Timeline(path, fail)
    timeline.trace.close()
    timeline.trace = TraceFile(path, fail, limit=100_000)
    for number in range(2_000):
        timeline.trace.span("worker-0", "main", "detail", float(number), 0.5)
    timeline.flush()
    assert 70_000 < path.stat().st_size <= 75_000
    timeline.told(WorldChanged(7, ("worker-0",), (), ("worker-1",), "worker-1 was killed", 12, 0.2), 5_000.0)
    timeline.close()
    assert spans_of(events_of(path))[-1][1:3] == ("world changes", "world 7: worker-1 was killed")
    again = TraceFile(path, fail, limit=100_000)
    for number in range(5_000):
        again.level("slots", float(number), number)
    again.close()
    assert 90_000 < path.stat().st_size <= 100_000


def test_a_full_disk_is_one_warning_and_later_events_are_written_under_their_names(path: Path) -> None:
    warnings: list[str] = []
    trace = TraceFile(path, warnings.append)
    with files_of_at_most(path.stat().st_size + 50):
        for _ in range(2):
            trace.span("worker-0", "main", "lost", 1.0, 1.0)
            trace.flush()
    trace.span("worker-0", "main", "kept", 3.0, 1.0)
    trace.close()
    assert len(warnings) == 1
    assert str(path) in warnings[0]
    assert [span[:3] for span in spans_of(events_of(path))] == [("worker-0", "main", "kept")]


def test_a_place_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    timeline = Timeline(tmp_path / "nowhere" / "timeline.json", warnings.append)
    timeline.slots(1, 1.0)
    timeline.flush()
    timeline.close()
    timeline.close()
    assert len(warnings) == 1


def test_the_master_writes_what_it_hears_and_tells(path: Path) -> None:
    timeline = Timeline(path, fail)
    timeline.sent("worker-1", Prepare(3, rank=1, size=2, next="here", planned=True), 10.0)
    timeline.received("worker-1", Prepared(3, 100), 10.1)
    timeline.received("worker-1", Running(3, 100, 0.1), 10.25)
    timeline.told(WorldChanged(3, ("worker-0", "worker-1"), ("worker-1",), (), "worker-1 joined", 100, 0.25), 10.25)
    timeline.received("worker-1", Progress(3, 150, samples_per_second=1000.0), 11.0)
    timeline.received("worker-1", Progress(3, 150, samples_per_second=1000.0), 11.0)  # too close to be seen
    timeline.received("worker-1", Broken(3, 180, 0, "worker-0 is gone"), 12.0)
    timeline.received("worker-0", Hello("worker-0", "here", Standing.RUNNING, 3, 180), 12.5)
    timeline.told(Message("only for people"), 13.0)
    timeline.told(Message("look", "warning"), 13.0)
    timeline.told(Failed(JobError("no")), 14.0)
    timeline.ended("worker-0", 15.0, -9)
    timeline.slots(2, 15.0)
    timeline.close()
    events = events_of(path)
    assert spans_of(events) == [
        ("worker-1", "world", "world 3", 10.25, 12.0),
        ("master", "world changes", "world 3: worker-1 joined", 10.0, 10.25),
        ("worker-0", "world", "world 3", 12.5, 15.0),
    ]
    begun = next(event for event in events if event["ph"] == "B")
    assert begun["args"] == {"step": 100, "rank": 1, "size": 2}
    counters = [(event["name"], event["args"]["value"]) for event in events if event["ph"] == "C"]
    assert counters == [("world size", 2), ("samples/s", 1000.0), ("slots", 2)]
    instants = [(event["name"], event["args"]) for event in events if event["ph"] == "i"]
    assert instants == [("warning", {"text": "look"}), ("failed", {"error": "no"}), ("ended", {"exit_code": -9})]


def test_what_a_worker_collects_comes_into_the_file(path: Path) -> None:
    spans = Spans()
    before = time.time()
    with pytest.raises(ValueError, match="stop"), spans.span("main", "warm-up", size=2):
        raise ValueError("stop")
    spans.progress(10)
    spans.pause(30, 1234.56)
    spans.pause(30)
    timeline = Timeline(path, fail)
    timeline.spans("worker-0", json.dumps(spans.drain()))
    timeline.close()
    warm_up, steps = spans_of(events_of(path))
    assert warm_up[:3] == ("worker-0", "main", "warm-up")
    assert before - 1 <= warm_up[3] <= time.time() + 1
    assert steps[:3] == ("worker-0", "steps", "20 steps")
    assert {"last": 30, "samples_per_second": 1234.6} in [event.get("args") for event in events_of(path)]
    assert spans.drain() == []


def test_steps_are_gathered_to_few_spans_that_do_not_overlap() -> None:
    spans = Spans()
    drained: list[Any] = []
    steps = itertools.count()

    def three_are_there() -> bool:
        spans.progress(next(steps))
        drained.extend(spans.drain())
        return len(drained) == 3

    wait_until(three_are_there, 20)
    for _, _, begin, seconds, args in drained:
        assert seconds >= 0.25
        assert args["last"] > 1
        assert all(other[2] == begin or not begin <= other[2] < begin + seconds - 1e-6 for other in drained)


def test_a_collector_that_nobody_drains_keeps_the_newest() -> None:
    spans = Spans()
    for number in range(5_000):
        spans.add("main", f"{number}", 0.0, 0.0)
    drained = spans.drain()
    assert [drained[0][1], drained[-1][1], len(drained)] == ["4000", "4999", 1000]


def test_threads_record_and_drain_at_once() -> None:
    spans = Spans()
    drained: list[Any] = []

    def record() -> None:
        for _ in range(400):
            spans.add("main", "a", 0.0, 0.0)

    recorders = [threading.Thread(target=record) for _ in range(2)]
    for thread in recorders:
        thread.start()
    while any(thread.is_alive() for thread in recorders):
        drained += spans.drain()
    drained += spans.drain()
    assert len(drained) == 800


@pytest.mark.parametrize(
    "text", ["", "{", "7", "null", "[1]", '[["a"]]', '[["a", "b", "c", 1, {}]]', '[["a", "b", 1, 1, 7]]', "[" * 10**5]
)
def test_spans_of_another_form_are_left_out(path: Path, text: str) -> None:
    timeline = Timeline(path, fail)
    timeline.spans("worker-0", text)
    timeline.spans("worker-0", '[["main", "good", 1.0, 2.0, {"process": 1, "self": "x", "at": [1], "far": NaN}]]')
    timeline.close()
    assert [span[2] for span in spans_of(events_of(path))] == ["good"]
