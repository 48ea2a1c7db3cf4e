"""A checkpoint is whole or passed over, and never in training's way."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from sqlflow_elastic.elastic.checkpoints import Checkpoint, CheckpointFolder
from sqlflow_elastic.events import Event, Message


def checkpoint(step: int, fingerprint: str = "a") -> Checkpoint:
    return Checkpoint(step, {"x/0": np.full(1000, step, np.float32)}, {"fingerprint": fingerprint, "step": step})


def written(path: Path, *steps: int) -> tuple[CheckpointFolder, list[Event]]:
    events: list[Event] = []
    folder = CheckpointFolder(path, events.append)
    for step in steps:
        folder.save(checkpoint(step))
    folder.flush()
    return folder, events


def latest_step(folder: CheckpointFolder) -> int:
    found = folder.latest("a")
    assert found is not None
    assert (found.arrays["x/0"] == found.step).all()
    assert found.description["step"] == found.step
    return found.step


def test_the_newest_comes_back_and_the_last_two_are_kept(tmp_path: Path) -> None:
    folder, events = written(tmp_path, 1, 2, 10)
    assert latest_step(folder) == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000000002.npz", "step-000000000010.npz"]
    assert not events
    folder.close()


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_of_a_damaged_newest_one_the_one_before_is_used_with_a_warning(tmp_path: Path, damage: str) -> None:
    folder, events = written(tmp_path, 1, 2)
    newest = tmp_path / "step-000000000002.npz"
    content = newest.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    newest.write_bytes({"truncated": content[:middle], "flipped": flipped, "empty": b""}[damage])
    assert latest_step(folder) == 1
    (event,) = events
    assert isinstance(event, Message)
    assert event.level == "warning"
    assert "step-000000000002.npz is damaged" in event.text
    folder.close()


def test_what_a_killed_writer_left_is_no_checkpoint_and_is_cleared(tmp_path: Path) -> None:
    (tmp_path / ".step-abc").write_bytes(b"half")
    folder, _ = written(tmp_path, 3)
    assert latest_step(folder) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000003.npz"]
    folder.close()


def test_one_of_another_training_is_not_used(tmp_path: Path) -> None:
    folder, events = written(tmp_path, 1)
    assert folder.latest("b") is None
    assert "of another training" in str(events)
    folder.close()


def test_where_no_file_can_be_made_training_goes_on_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder, events = written(tmp_path / "file" / "checkpoints", 1)
    assert "no checkpoint could be written" in str(events)
    folder.close()


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The system refuses to write beyond that, as it does when a disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_that_fails_half_way_leaves_the_one_before_and_a_warning(tmp_path: Path) -> None:
    folder, events = written(tmp_path, 1)
    with files_of_at_most(2_000):
        folder.save(checkpoint(2))
        folder.flush()
    assert "no checkpoint could be written" in str(events)
    assert latest_step(folder) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000001.npz"]
    folder.close()
