"""Everything that can be killed is, again and again, at random moments; the model does not notice.

Together: at least 100 workers killed, 12 masters, 4 times all of a job's processes at once, and 32 joins.
"""

from __future__ import annotations

import random
import signal
import threading
from enum import Enum
from pathlib import Path

import pytest

from sqlflow_elastic.cluster import LocalCluster, Role, Status
from tests.chaos.trial import Trial

_KILLS, _TERMINATIONS, _MASTERS, _WHOLE, _JOINS = 25, 5, 3, 1, 8
_LONGEST_PAUSE = 0.25
#: So many attacks may fall on a job before it has taken a step: it gives up after six deaths without one.
_MOST_IN_A_ROW = 2


class _Attack(Enum):
    WORKER = "kill a worker"
    LEAVE = "terminate a worker"
    MASTER = "kill the master"
    ALL = "kill all workers and the master"


@pytest.mark.parametrize("seed", range(4))
def test_each_sample_counts_once_in_each_epoch_whoever_dies(cluster: LocalCluster, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    attacks = [_Attack.WORKER] * _KILLS + [_Attack.LEAVE] * _TERMINATIONS
    attacks += [_Attack.MASTER] * _MASTERS + [_Attack.ALL] * _WHOLE
    chance.shuffle(attacks)
    pause, in_a_row = threading.Event(), 0
    with Trial(cluster, tmp_path) as trial:
        for attack in attacks:
            if in_a_row == _MOST_IN_A_ROW or chance.random() < 0.5:
                trial.until_it_gets_on()
                in_a_row = 0
            pause.wait(chance.uniform(0.0, _LONGEST_PAUSE))
            _carry_out(attack, trial, chance)
            in_a_row += 1
        trial.until_it_trains(3)
        while trial.joins < _JOINS:  # how many of the attacks led to one depends on the machine
            _carry_out(_Attack.WORKER, trial, chance)
            trial.until_it_trains(3)
        trial.ends()


def _carry_out(attack: _Attack, trial: Trial, chance: random.Random) -> None:
    while True:
        # A worker that is told to leave may end while we aim at it, and a master by itself.
        trial.until(lambda: bool(trial.processes(Role.WORKER) and trial.processes(Role.MASTER)), "processes run")
        workers, masters = trial.processes(Role.WORKER), trial.processes(Role.MASTER)
        match attack:
            case _ if not workers or not masters:
                continue
            case _Attack.WORKER:
                struck = [(chance.choice(workers), signal.SIGKILL)]
            case _Attack.LEAVE:
                struck = [(chance.choice(workers), signal.SIGTERM)]
            case _Attack.MASTER:
                struck = [(masters[0], signal.SIGKILL)]
            case _Attack.ALL:
                struck = [(one, signal.SIGKILL) for one in _shuffled([*workers, *masters], chance)]
        if all(trial.strike(one, number) for one, number in struck):
            return


def _shuffled(statuses: list[Status], chance: random.Random) -> list[Status]:
    return chance.sample(statuses, len(statuses))
