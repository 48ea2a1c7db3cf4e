"""A training that is killed ends with the weights of an undisturbed one."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from sqlflow_elastic.events import Message, Metrics, from_json
from tests.elastic.resumable import train

DEADLINE_SECONDS = 120
ROOT = Path(__file__).parents[2]


def kill_after(way: str, folder: Path, steps: int) -> int:
    """Start the training, kill -9 it once it tells that it did so many steps more. Returns where it went on from."""
    command = [sys.executable, "-m", "tests.elastic.resumable", way, str(folder), str(folder / "never.npz")]
    begun = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        watchdog = threading.Timer(DEADLINE_SECONDS, process.kill)
        watchdog.start()
        assert process.stdout is not None
        for line in process.stdout:
            event = from_json(line)
            if isinstance(event, Message) and event.text.startswith("training goes on after step"):
                begun = int(event.text.split()[5])
            if isinstance(event, Metrics) and event.step >= begun + steps:
                break
        else:
            pytest.fail("the training ended before it could be killed")
        process.kill()
        watchdog.cancel()
    return begun


@pytest.mark.parametrize(("way", "kills"), [("single", 2), ("fused-4", 1), ("xla-4", 1)])
def test_a_training_killed_at_random_moments_ends_with_the_same_bits(
    tmp_path: Path, way: str, kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    moments = random.Random(way)
    undisturbed = train(way, tmp_path / "undisturbed", tmp_path / "expected.npz")
    folder = tmp_path / "killed"
    begun = [kill_after(way, folder, moments.randint(20, 150)) for _ in range(kills)]
    assert begun == sorted(set(begun))
    resumed = train(way, folder, tmp_path / "found.npz")
    assert "training goes on after step" in capsys.readouterr().out
    expected, found = np.load(tmp_path / "expected.npz"), np.load(tmp_path / "found.npz")
    assert expected.files == found.files
    for name in expected.files:
        np.testing.assert_array_equal(expected[name], found[name])
    assert (resumed.steps, resumed.metrics, resumed.loss) == (undisturbed.steps, undisturbed.metrics, undisturbed.loss)
