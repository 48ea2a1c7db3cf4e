"""What a master does where many workers can die at once."""

from __future__ import annotations

from sqlflow_elastic.elastic.membership.master import Persist, Send, StartWorker
from sqlflow_elastic.elastic.membership.messages import Prepare
from tests.elastic.membership.job import Job

NAMES = [f"worker-{index}" for index in range(120)]
GATHERED = 0.1


def test_those_who_died_at_once_are_left_out_together_and_replaced_after_the_living_were_told() -> None:
    job = Job(len(NAMES), batch_size=1_000)
    job.world(*NAMES)
    assert job.ends(NAMES[3]) == []
    assert job.ends(NAMES[7]) == []
    commands = job.waits(GATHERED)
    prepared = [c.name for c in commands if isinstance(c, Send) and isinstance(c.message, Prepare)]
    assert prepared == [name for name in NAMES if name not in (NAMES[3], NAMES[7])]
    assert commands[-3:] == [Persist({"names": 122}), StartWorker("worker-120"), StartWorker("worker-121")]
    assert not any(isinstance(command, StartWorker) for command in commands[:-2])
