"""Simulated servers: what rows they have, where worlds find them, and what is lost when a server dies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sqlflow_elastic.elastic.membership.messages import (
    NO_STATE,
    End,
    FromMaster,
    FromWorker,
    Hello,
    Leaving,
    Progress,
    Release,
    ServerState,
    Standing,
)
from tests.elastic.membership.clockwork import BrokenRuleError
from tests.elastic.membership.simulated_process import SimulatedProcess

if TYPE_CHECKING:
    from tests.elastic.membership.simulation import Simulation


class State(NamedTuple):
    """A replica's, and that of the rows: how many steps are applied, and which world applied each, as one number."""

    step: int = NO_STATE
    history: int = 0

    def after(self, version: int) -> State:
        """With the next step applied."""
        return State(self.step + 1, hash((self.history, self.step, version)))


class SimulatedServer(SimulatedProcess):
    """A server's process. Its rows are a part of the state that all servers of a world have together.

    Attributes:
        among: the servers between which tables are split.
        state: of its rows; None for one that has none.
        before: the same without the last step, which it can take back.
        memory: that it may take, in MiB.
        full: it was ended because it took more.
        leaving: it was asked to end, from outside.
        released: the master needs it no more.
    """

    def __init__(self, simulation: Simulation, name: str, memory: int) -> None:
        super().__init__(simulation, name)
        self.memory = memory
        self.among: tuple[str, ...] = ()
        self.state: State | None = None
        self.before: State | None = None
        self.full = self.leaving = self.released = False

    def runs_out(self) -> None:
        """Of memory."""
        self.full = True
        self.end(-9)

    def applies(self, version: int) -> None:
        """The next step, of a world."""
        if self.state is None:
            raise BrokenRuleError(f"{self.name} has no rows")
        self.before, self.state = self.state, self.state.after(version)

    def _begin(self) -> None:
        """It waits for workers."""

    def _gone(self) -> None:
        if not self.released:
            self._simulation.rows.lost = True

    def _connected(self) -> None:
        if self.stream is not None:
            address = f"{self.name}:1"
            self.stream.say(Hello(self.name, address, Standing.READY, 0, NO_STATE, self.leaving))

    def _disconnected(self) -> None:
        """It goes on."""

    def _terminated(self) -> None:
        if self._later(self._terminated):
            return
        self.leaving = True
        if self.stream is not None:
            self.stream.say(Leaving())

    def _heartbeat(self) -> list[FromWorker]:
        return [Progress(0, NO_STATE), ServerState(1, 1, NO_STATE)]

    def hears(self, message: FromMaster) -> None:
        if self._later(self.hears, message) or self._exiting:
            return
        if isinstance(message, Release | End):
            self.released = isinstance(message, Release)
            self.asked = self._exiting = True
            self._clock.soon(self.end, 0, most=0.3)


class Rows:
    """The tables of a job.

    Attributes:
        servers: by name.
        snapshots: of which states there is one; the initial one needs none.
        lost: whether a server has died since a world last began anew.
    """

    def __init__(self) -> None:
        self.servers: dict[str, SimulatedServer] = {}
        self.snapshots = {State(0)}
        self.lost = False

    def there(self, names: Sequence[str]) -> bool:
        """Whether all of these servers live."""
        return all(self.servers[name].alive for name in names)

    def hang(self, names: Sequence[str]) -> bool:
        """Whether one of them does not answer."""
        return any(self.servers[name].stopped for name in names)

    def stand_at(self, names: tuple[str, ...], state: State) -> None:
        """Bring these servers, which live, to a state: by what they have, else by its snapshot."""
        for server in (self.servers[name] for name in names):
            own = server.among == names and state in (server.state, server.before)
            if not own and state not in self.snapshots:
                raise BrokenRuleError(f"{server.name} of {names} has no rows of {state}, and there is no snapshot")
            server.among, server.state, server.before = names, state, None

    def applied(self, names: Sequence[str], version: int) -> None:
        """Those of these servers that live have applied a step."""
        for server in (self.servers[name] for name in names):
            if server.alive:
                server.applies(version)

    def save(self, names: Sequence[str], state: State) -> bool:
        """Write a snapshot; whether all of them are there and have that state."""
        servers = [self.servers[name] for name in names]
        if not all(server.alive and not server.stopped and server.state == state for server in servers):
            return False
        self.snapshots.add(state)
        return True
