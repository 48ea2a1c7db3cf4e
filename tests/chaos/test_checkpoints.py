"""Checkpoints that cannot be written or read cost steps that are done again, never the job."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlflow_elastic.cluster import LocalCluster, Role
from sqlflow_elastic.elastic.folder import JobFolder
from tests.chaos.trial import Trial


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    if os.geteuid():
        pytest.skip("only root mounts file systems")
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def checkpoints(folder: JobFolder) -> list[Path]:
    """Newest first."""
    return sorted(folder.checkpoints.glob("step-*.npz"), reverse=True)


def kill_all_workers(trial: Trial) -> None:
    workers = trial.processes(Role.WORKER)
    for worker in workers:
        trial.strike(worker, signal.SIGSTOP)
    for worker in workers:
        trial.strike(worker)


def test_training_goes_on_when_checkpoints_cannot_be_written(cluster: LocalCluster, tmp_path: Path) -> None:
    with Trial(cluster, tmp_path) as trial:
        trial.until_it_trains(3)
        put_away(trial.folder)
        trial.folder.checkpoints.write_text("no folder")
        trial.until(lambda: any("no checkpoint could be written" in text for text in trial.warnings), "a warning")
        trial.strike_worker(trial.members[0])
        trial.until_it_trains(3)
        worlds = len(trial.worlds)
        kill_all_workers(trial)
        trial.until_it_trains(3)
        assert 0 in [world.step for world in trial.worlds[worlds:]], "without a checkpoint it begins anew"
        trial.ends()


def put_away(folder: JobFolder) -> None:
    """Rename the checkpoints' folder, in which a worker may just be writing."""
    folder.checkpoints.rename(folder.path / "put-away")


def test_training_goes_on_when_the_disk_of_the_checkpoints_is_full(
    cluster: LocalCluster, tmp_path: Path, small_disk: Path
) -> None:
    with Trial(cluster, tmp_path) as trial:
        trial.until(lambda: trial.folder.path.exists(), "there is a folder")
        try:
            trial.folder.checkpoints.symlink_to(small_disk)
        except FileExistsError:
            pytest.fail("a checkpoint was written before the job had a worker")
        trial.until_it_trains(3)
        (small_disk / "ballast").write_bytes(b"")
        with (small_disk / "ballast").open("ab", buffering=0) as ballast, pytest.raises(OSError, match="No space"):
            while True:
                ballast.write(bytes(1024))
        trial.until(lambda: any("no checkpoint could be written" in text for text in trial.warnings), "a warning")
        before = checkpoints(trial.folder)
        assert before
        kill_all_workers(trial)
        trial.until_it_trains(3)
        trial.ends()
        trial_worlds = [world.step for world in trial.worlds]
    assert any(step >= int(before[0].stem[5:]) for step in trial_worlds[3:])


def test_a_damaged_checkpoint_is_passed_over(cluster: LocalCluster, tmp_path: Path) -> None:
    with Trial(cluster, tmp_path) as trial:
        trial.until_it_trains(3)
        trial.until(lambda: len(checkpoints(trial.folder)) > 1, "there are two checkpoints")
        workers = trial.processes(Role.WORKER)
        for worker in workers:
            trial.strike(worker, signal.SIGSTOP)
        newest, before = checkpoints(trial.folder)[:2]
        newest.write_bytes(newest.read_bytes()[:-200])
        for worker in workers:
            trial.strike(worker)
        trial.until_it_trains(3)
        assert any(f"checkpoint {newest.name} is damaged" in text for text in trial.warnings)
        assert [world.step for world in trial.worlds if world.step >= int(before.stem[5:])]
        trial.ends()
