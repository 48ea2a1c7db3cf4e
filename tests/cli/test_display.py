"""Events as lines on standard error."""

from __future__ import annotations

import pytest

from sqlflow_elastic.cli.display import Display
from sqlflow_elastic.config import Config
from sqlflow_elastic.events import WorldChanged

FIRST = WorldChanged(1, ("worker-0",), ("worker-0",), (), "worker-0 joined", 0, 0.0)
BOTH = WorldChanged(1, ("worker-0", "worker-1"), ("worker-0", "worker-1"), (), "worker-1 joined", 0, 0.0)
KILLED = WorldChanged(5, ("worker-0", "worker-2"), (), ("worker-1",), "worker-1 was ended by SIGKILL", 1812, 0.1312)
LAST = WorldChanged(6, ("worker-2",), (), ("worker-0",), "worker-0 leaves", 2000, 1.0)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (KILLED, "worker-1 was ended by SIGKILL; 2 workers go on at step 1,812 after 0.13 s\n"),
        (LAST, "worker-0 leaves; 1 worker goes on at step 2,000 after 1.00 s\n"),
        (BOTH, "worker-1 joined; 2 workers begin at step 0\n"),
        (FIRST, ""),
    ],
)
def test_a_change_of_the_world_is_one_line(event: WorldChanged, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    Display(Config(), quiet=False).show(event)
    assert capsys.readouterr() == ("", line)


def test_a_quiet_command_tells_none(capsys: pytest.CaptureFixture[str]) -> None:
    Display(Config(), quiet=True).show(KILLED)
    assert capsys.readouterr() == ("", "")
