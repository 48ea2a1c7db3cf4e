"""Events as lines between a job's process and its session."""

from __future__ import annotations

import pytest

from sqlflow_elastic.events import Event, Message, WorldChanged, from_json, to_json


@pytest.mark.parametrize(
    "event",
    [
        Message("a job's message", "warning"),
        WorldChanged(3, ("worker-0", "worker-2"), ("worker-2",), ("worker-1",), "worker-1 was killed", 17, 0.25),
    ],
)
def test_an_event_is_the_same_on_the_other_side(event: Event) -> None:
    assert from_json(to_json(event)) == event


def test_a_line_that_is_no_event_is_refused() -> None:
    with pytest.raises(ValueError, match="not an event"):
        from_json('{"event": "Rows"}')
