"""TensorBoard reads what the master wrote, in the order of steps, whichever master it was."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from sqlflow_elastic.elastic import event_file, summaries
from sqlflow_elastic.elastic.summaries import LOSS, SPEED, WORLD_SIZE, Summaries
from sqlflow_elastic.events import Message, Metrics, Progress, WorldChanged
from tests.elastic.full_disk import files_of_at_most

Scalars = dict[str, list[tuple[int, float]]]


def fail(text: str) -> None:
    raise AssertionError(text)


def scalars(folder: Path) -> Scalars:
    """Steps and values by tag, as TensorFlow's own reader finds them; it checks every checksum."""
    import tensorflow as tf

    found: Scalars = {}
    for path in sorted(folder.iterdir()):
        events = list(tf.compat.v1.train.summary_iterator(str(path)))
        assert events[0].file_version == "brain.Event:2"
        for event in events[1:]:
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def training(step: int, loss: float | None = None, speed: float | None = None) -> Progress:
    return Progress("training", step, 1_000_000, loss=loss, samples_per_second=speed)


def changed(step: int, *members: str) -> WorldChanged:
    return WorldChanged(1, members, members, (), "joined", step, 0.1)


@pytest.fixture
def every_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "_PROGRESS_PART", 0.0)


@pytest.mark.usefixtures("every_progress")
def test_what_a_job_tells_is_what_tensorboard_reads(tmp_path: Path) -> None:
    writer = Summaries(tmp_path / "logs", fail)
    writer.told(changed(-1, "worker-0"), 1.0)  # nobody has a state: no step
    writer.told(changed(0, "worker-0", "worker-1"), 1.0)
    writer.told(Progress("reading", 7, samples_per_second=3.0), 1.0)
    writer.told(training(1, 0.5), 1.0)
    writer.told(training(300, 0.25, 1e6), 2.0)
    writer.told(Message("not a figure"), 2.0)
    writer.told(Metrics("validation", 300, 1, {"auc": 0.75, "größe": 1e300, "loss": math.nan}), 2.0)
    writer.told(changed(2**40, "worker-0"), 3.0)
    writer.close()
    found = scalars(tmp_path / "logs")
    assert math.isnan(found.pop("validation/loss")[0][1])
    assert found == {
        WORLD_SIZE: [(0, 2.0), (2**40, 1.0)],
        LOSS: [(1, 0.5), (300, 0.25)],
        SPEED: [(300, 1e6)],
        "validation/auc": [(300, 0.75)],
        "validation/größe": [(300, math.inf)],
    }


@pytest.mark.usefixtures("every_progress")
def test_losses_at_the_steps_that_were_asked_for_take_the_place_of_those_of_progress(tmp_path: Path) -> None:
    writer = Summaries(tmp_path, fail)
    writer.told(Metrics("train", 10, 1, {"loss": 0.5}), 1.0)
    writer.told(training(13, 0.4, 100.0), 1.0)
    writer.close()
    assert scalars(tmp_path) == {LOSS: [(10, 0.5)], SPEED: [(13, 100.0)]}


def test_progress_is_thinned_out_and_the_last_step_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "_PROGRESS_PART", 1e9)
    writer = Summaries(tmp_path, fail)
    for step in range(1, 100):
        writer.told(training(step, 0.5), 1.0)
    writer.told(Progress("training", 100, 100, loss=0.25), 1.0)
    writer.close()
    assert scalars(tmp_path) == {LOSS: [(1, 0.5), (100, 0.25)]}


@pytest.mark.usefixtures("every_progress")
def test_steps_that_are_done_again_after_a_master_died_are_not_written_again(tmp_path: Path) -> None:
    first = Summaries(tmp_path, fail)
    for step in (100, 200, 300):
        first.told(training(step, 1.0), 1.0)
    first.flush()  # and no close: it was killed
    second = Summaries(tmp_path, fail)
    for step in (150, 250, 300, 350, 320, 400):
        second.told(training(step, 2.0), 2.0)
    second.close()
    first.close()
    assert len(list(tmp_path.iterdir())) == 2
    assert scalars(tmp_path) == {LOSS: [(100, 1.0), (200, 1.0), (300, 1.0), (300, 2.0), (350, 2.0), (400, 2.0)]}


@pytest.mark.parametrize(
    "damage", [b"\xff" * 7, b"\xff" * 64, b"\x0c" + b"\x00" * 30, b"\x20" + b"\x00" * 11 + b"\x80" * 40]
)
def test_a_damaged_file_of_a_master_before_does_no_harm(tmp_path: Path, damage: bytes) -> None:
    first = Summaries(tmp_path, fail)
    first.told(training(100, 1.0), 1.0)
    first.close()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes() + damage)
    second = Summaries(tmp_path, fail)
    second.told(training(99, 2.0), 2.0)
    second.told(training(101, 2.0), 2.0)
    second.close()
    assert event_file.last_step(tmp_path) == 101


def test_a_folder_that_cannot_be_made_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    warnings: list[str] = []
    writer = Summaries(tmp_path / "file" / "logs", warnings.append)
    writer.told(training(1, 1.0), 1.0)
    writer.close()
    writer.close()
    assert len(warnings) == 1


@pytest.mark.parametrize("room", [0, 30, 100])
@pytest.mark.usefixtures("every_progress")
def test_a_full_disk_is_one_warning_and_later_events_are_read(tmp_path: Path, room: int) -> None:
    warnings: list[str] = []
    writer = Summaries(tmp_path, warnings.append)
    with files_of_at_most(room):
        for step in (1, 2, 3):
            writer.told(training(step, 1.0, 7.0), 1.0)
            writer.flush()
    writer.told(training(4, 2.0), 1.0)
    writer.close()
    assert len(warnings) == 1
    assert str(tmp_path) in warnings[0]
    assert scalars(tmp_path)[LOSS][-1] == (4, 2.0)


def test_it_stays_below_its_limit(tmp_path: Path) -> None:
    writer = Summaries(tmp_path, fail, limit=10_000)
    for step in range(2_000):
        writer.told(Metrics("train", step, 1, {"loss": 1.0}), 1.0)
        if step % 50 == 0:
            writer.flush()
    writer.close()
    (file,) = tmp_path.iterdir()
    assert 10_000 < file.stat().st_size < 20_000


def test_a_reader_of_checksums_agrees_with_what_is_known() -> None:
    known: dict[bytes, Any] = {b"": 0x00000000, b"123456789": 0xE3069283, b"\x00" * 32: 0x8A9136AA}
    for data, crc in known.items():
        masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        assert event_file._checksum(data) == masked.to_bytes(4, "little")
