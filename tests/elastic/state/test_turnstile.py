from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from sqlflow_elastic.elastic.state.turnstile import Turnstile


def test_one_at_a_time_goes_through(tmp_path: Path) -> None:
    first, second = Turnstile(tmp_path / "lock"), Turnstile(tmp_path / "lock")
    with first.passed(0):
        begin = time.monotonic()
        with pytest.raises(TimeoutError), second.passed(0.1):
            pass
        assert time.monotonic() - begin >= 0.1
    with second.passed(0):
        pass
    first.close()
    second.close()


def test_who_waits_comes_before_who_was_there_again(tmp_path: Path) -> None:
    """A busy one, which takes the lock again as soon as it has given it back, keeps nobody out."""
    enough = threading.Event()
    passed = 0

    def be_busy() -> None:
        busy = Turnstile(tmp_path / "lock")
        while not enough.is_set():
            with busy.passed(30):
                time.sleep(0.005)
        busy.close()

    threads = [threading.Thread(target=be_busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    waiting = Turnstile(tmp_path / "lock")
    for _ in range(20):
        with waiting.passed(10):
            passed += 1
    enough.set()
    for thread in threads:
        thread.join(10)
    waiting.close()
    assert passed == 20
