"""A worker's machine is cut off from the others: all that is sent to it and by it is lost, and nobody is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sqlflow_elastic.cluster import LocalCluster, Phase
from sqlflow_elastic.elastic.member import HOST_VARIABLE
from tests.chaos import program
from tests.chaos.network import Network, NoNetwork, network
from tests.chaos.trial import Trial

APART = "worker-1"


@pytest.fixture
def cable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """A network on which masters and workers of this machine can be reached from the other one."""
    try:
        with network() as made:
            monkeypatch.setenv(HOST_VARIABLE, made.host)
            yield made
    except NoNetwork as reason:
        pytest.skip(str(reason))


def test_the_others_go_on_and_the_one_cut_off_does_no_harm(
    cable: Network, clusters: Callable[[int], LocalCluster], tmp_path: Path
) -> None:
    with Trial(clusters(4), tmp_path, program.program(namespace=cable.namespace, special=APART)) as trial:
        trial.until(lambda: trial.world_of(3)() and APART in trial.members, "all of them train")
        trial.until_it_gets_on()
        cable.cut()
        trial.until(lambda: trial.worker(APART).phase is Phase.ENDED, "the one cut off is given up")
        trial.until_it_trains(3)
        cable.mend()
        trial.until_it_gets_on()
        assert APART not in trial.members
        trial.ends()


def test_a_short_cut_is_bridged(cable: Network, clusters: Callable[[int], LocalCluster], tmp_path: Path) -> None:
    with Trial(clusters(4), tmp_path, program.program(namespace=cable.namespace, special=APART)) as trial:
        trial.until(lambda: trial.world_of(3)() and APART in trial.members, "all of them train")
        trial.until_it_gets_on()
        worlds = len(trial.worlds)
        cable.cut()
        cable.mend()
        for _ in range(3):
            trial.until_it_gets_on()
        assert len(trial.worlds) == worlds
        trial.ends()
