"""A worker that moves rows from servers to others does so when no other worker is behind it any more."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sqlflow_elastic.elastic.comm import Endpoint, Place, WorldBroken
from sqlflow_elastic.elastic.comm.alone import Alone
from sqlflow_elastic.elastic.comm.base import BytesLike
from sqlflow_elastic.elastic.folder import JobFolder, write_text
from sqlflow_elastic.elastic.member import Member
from sqlflow_elastic.elastic.membership.messages import Broken, Commit, Prepare, Prepared, Server, Welcome
from sqlflow_elastic.elastic.tables.client import Session, enter
from sqlflow_elastic.models.tables.spec import TableSpec
from tests.elastic.counting import Counting
from tests.elastic.scripted_master import SECONDS, TOKEN, master
from tests.elastic.tables import servers as servers_module
from tests.elastic.tables.servers import Servers, running
from tests.elastic.tables.specs import table
from tests.waiting import wait_until

SPECS = [table()]
IDS = [np.arange(80)]
STEPS = 5


class LosesTheOther(Alone):
    """The ring of two members of which the other one dies before it has the state."""

    def broadcast(self, *arguments: object) -> None:
        """It is under way."""

    def allgather(self, data: BytesLike) -> list[memoryview]:
        raise WorldBroken("the other one is gone", 1)


class WithTables(Counting):
    @property
    def table_specs(self) -> list[TableSpec]:
        return SPECS


def of(servers: Servers, *names: str) -> tuple[Server, ...]:
    return tuple(Server(name, servers[name].address) for name in names)


def entered(servers: Servers, name: str, version: int, step: int) -> Session:
    at = [(name, servers[name].address)]
    return enter(TOKEN.encode(), at, SPECS, Place(version, 0, 1, ""), step, root=True, new=step == 0, seconds=SECONDS)


def rows_after(servers: Servers, steps: int) -> NDArray[np.float64]:
    """The rows that one server has after so many steps, and one more, which it could take back."""
    with entered(servers, "ps-0", 1, 0) as session:
        for step in range(steps + 1):
            session.want(IDS)
            rows = session.rows()
            session.push([np.ones_like(rows[0])], [(0.1, step)])
        session.applied()
    before: NDArray[np.float64] = rows[0]
    return before


def test_rows_of_a_step_before_are_there_if_it_dies_before_the_others_have_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = JobFolder(tmp_path / "job")
    folder.path.mkdir()
    write_text(folder.token, TOKEN)
    monkeypatch.setattr(servers_module, "TOKEN", TOKEN.encode())
    monkeypatch.setattr(Endpoint, "connect", lambda self, place, *_: LosesTheOther(place))
    replica = WithTables(tmp_path, rows=100, batch_size=10, epochs=10)
    replica.step = STEPS
    with running(tmp_path, "ps-0") as servers, master(folder, "worker-0") as present:
        before = rows_after(servers, STEPS - 1)
        servers.start("ps-1")
        member = Member(folder, "worker-0")
        threading.Thread(target=member.train, args=(replica,), daemon=True).start()
        present.hello  # noqa: B018 - waits for it
        present.says(Welcome(0.1), Prepare(2, 0, 2, "", planned=False, servers=of(servers, "ps-0", "ps-1")))
        present.hears(Prepared(2, STEPS))
        present.says(Commit(2, 0, (1,), STEPS, of(servers, "ps-0")))
        wait_until(lambda: any(isinstance(message, Broken) for message in present.heard), SECONDS)
        member.close()
        with entered(servers, "ps-0", 3, STEPS - 1) as session:
            np.testing.assert_array_equal(session.peek(IDS)[0], before)
