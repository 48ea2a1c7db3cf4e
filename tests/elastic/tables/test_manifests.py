"""Manifests say which files are the state after a step, also when servers and those who forget die, or are several."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sqlflow_elastic.elastic.tables.manifests import (
    Manifest,
    complete_steps,
    forget,
    read_manifests,
    segment_path,
    write_manifest,
)

TWO = ("ps-0", "ps-1")


def segment(folder: Path, name: str) -> str:
    path = segment_path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"rows")
    return name


def left(folder: Path) -> set[str]:
    return {path.name for path in (folder / "segments").iterdir()}


def test_a_step_is_complete_when_all_its_servers_have_written(tmp_path: Path) -> None:
    assert complete_steps(tmp_path) == set()
    first, second = Manifest("ps-0", TWO, ("a", "b")), Manifest("ps-1", TWO, ("c",))
    write_manifest(tmp_path, 7, second)
    assert (read_manifests(tmp_path, 7), complete_steps(tmp_path)) == ([], set())
    write_manifest(tmp_path, 7, first)
    assert (read_manifests(tmp_path, 7), complete_steps(tmp_path)) == ([first, second], {7})


def test_servers_of_another_world_that_write_a_step_anew_do_not_make_it_incomplete(tmp_path: Path) -> None:
    alone = Manifest("ps-0", ("ps-0",), ("a",))
    write_manifest(tmp_path, 7, alone)
    both = [Manifest(name, TWO, (f"of {name}",)) for name in TWO]
    write_manifest(tmp_path, 7, both[0])
    assert read_manifests(tmp_path, 7) == [alone]
    write_manifest(tmp_path, 7, both[1])
    assert read_manifests(tmp_path, 7) == both
    # And when the first world writes again, only once it is done.
    three = [Manifest(name, (*TWO, "ps-2"), (f"{name} of three",)) for name in (*TWO, "ps-2")]
    for each in three:
        write_manifest(tmp_path, 7, each)
    again = [Manifest(name, TWO, (f"{name} again",)) for name in TWO]
    write_manifest(tmp_path, 7, again[0])
    assert read_manifests(tmp_path, 7) == three
    write_manifest(tmp_path, 7, again[1])
    assert read_manifests(tmp_path, 7) == again


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"server": "ps-1"'])
def test_a_damaged_manifest_is_none(tmp_path: Path, text: str) -> None:
    write_manifest(tmp_path, 6, Manifest("ps-0", ("ps-0",), ()))
    for name in TWO:
        write_manifest(tmp_path, 7, Manifest(name, TWO, ()))
    (damaged,) = tmp_path.glob("step-*7/ps-1-*")
    damaged.write_text(text)
    assert complete_steps(tmp_path) == {6}


def test_what_is_not_kept_is_removed_with_what_it_alone_needs(tmp_path: Path) -> None:
    names = [segment(tmp_path, f"{step:012d}-ps-0-x.rows") for step in range(6)]
    for step, chain in {0: [0], 1: [0, 1], 2: [0, 1, 2], 3: [3], 4: [3, 4], 5: [3, 4, 5]}.items():
        write_manifest(tmp_path, step, Manifest("ps-0", ("ps-0",), tuple(names[each] for each in chain)))
    aside = [segment(tmp_path, f".{step:012d}-ps-1-x.rows.123") for step in (3, 4, 5)]
    unnamed = [segment(tmp_path, f"{step:012d}-ps-1-x.rows") for step in (3, 4, 5)]
    foreign = segment(tmp_path, "notes.rows")
    forget(tmp_path, {1, 4})
    assert complete_steps(tmp_path) == {1, 4, 5}  # what is later may be under way
    assert left(tmp_path) == {names[0], names[1], *names[3:], *aside[1:], *unnamed[1:], foreign}
    forget(tmp_path, {4})
    forget(tmp_path, {4})
    assert left(tmp_path) == {*names[3:], *aside[1:], *unnamed[1:], foreign}


def test_nothing_to_keep_is_nothing_to_remove(tmp_path: Path) -> None:
    forget(tmp_path, set())
    name = segment(tmp_path, "000000000001-ps-0-x.rows")
    forget(tmp_path, set())
    assert left(tmp_path) == {name}


def test_segments_stay_while_a_manifest_cannot_be_read(tmp_path: Path) -> None:
    name = segment(tmp_path, "000000000001-ps-0-x.rows")
    write_manifest(tmp_path, 5, Manifest("ps-0", ("ps-0",), (name,)))
    (damaged,) = tmp_path.glob("step-*5/*.json")
    text = damaged.read_text()
    damaged.write_text("")
    forget(tmp_path, {5})
    assert left(tmp_path) == {name}
    damaged.write_text(text)
    assert complete_steps(tmp_path) == {5}


def test_two_may_forget_while_servers_write(tmp_path: Path) -> None:
    """Each step needs all segments since the last one that stands alone."""
    done = threading.Event()
    failures: list[BaseException] = []
    last = 0

    def forget_always() -> None:
        try:
            while not done.is_set():
                forget(tmp_path, {last - last % 10, last})
        except BaseException as error:  # noqa: BLE001 - the test fails with it
            failures.append(error)

    threads = [threading.Thread(target=forget_always) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        chain: list[str] = []
        for step in range(150):
            chain = [*([] if step % 20 == 0 else chain), segment(tmp_path, f"{step:012d}-ps-0-x.rows")]
            write_manifest(tmp_path, step, Manifest("ps-0", ("ps-0",), tuple(chain)))
            last = step
            (manifest,) = read_manifests(tmp_path, step)
            assert set(manifest.segments) <= left(tmp_path)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert complete_steps(tmp_path) >= {140, 149}
