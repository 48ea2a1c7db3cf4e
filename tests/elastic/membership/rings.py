"""Rings of simulated workers: they connect, pass states on, take steps together, and break in the middle of them."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from sqlflow_elastic.elastic.membership.messages import NO_STATE, Commit, Prepare
from sqlflow_elastic.elastic.membership.worker import (
    BoundaryReached,
    Connected,
    ConnectFailed,
    RingBroke,
    StateTaken,
    TrainingDone,
)
from tests.elastic.membership.clockwork import BrokenRuleError, Clockwork
from tests.elastic.membership.simulated_server import Rows, State

if TYPE_CHECKING:
    from tests.elastic.membership.simulated_worker import SimulatedWorker


class Stage(Enum):
    CONNECTING = 1
    STATE = 2
    STEPS = 3
    OVER = 4


class Rings:
    """All rings of a job.

    Attributes:
        rows: the tables, if there are servers.
        checkpoint: the newest one.
        last: the step that ends training.
        pace: what a step takes at most, in seconds.
        kill_at_end: whether the next step to end training kills one of its members.
        apart: pairs of workers that cannot reach one another.
        furthest: the furthest step that anybody ever applied.
        lost_steps: called when training begins before it.
    """

    def __init__(self, clock: Clockwork, rows: Rows, last: int, pace: float) -> None:
        self.clock = clock
        self.rows = rows
        self.last = last
        self.pace = pace
        self.kill_at_end = False
        self.checkpoint = State(0)
        self.apart: set[frozenset[str]] = set()
        self.furthest = 0
        self.lost_steps: Callable[[], None] = lambda: None
        self._rings: dict[int, Ring] = {}

    def save(self, servers: tuple[str, ...], state: State) -> bool:
        """Write a checkpoint, if the servers that have the tables can write theirs."""
        if not self.rows.save(servers, state):
            return False
        self.checkpoint = state
        return True

    def of(self, prepare: Prepare) -> Ring:
        """The ring of a version."""
        servers = tuple(server.name for server in prepare.servers)
        return self._rings.setdefault(prepare.version, Ring(self, prepare.version, prepare.size, servers))

    def only(self, ring: Ring) -> None:
        """No other ring may take steps now."""
        for other in self._rings.values():
            if other is not ring and other.can_step():
                raise BrokenRuleError(f"worlds {other.version} and {ring.version} both train")


class Ring:
    def __init__(self, rings: Rings, version: int, size: int, servers: tuple[str, ...]) -> None:
        self._rings = rings
        self._clock = rings.clock
        self.version = version
        self._size = size
        self._servers = servers
        #: What the servers write a snapshot of, which makes a checkpoint of it.
        self._saving: State | None = None
        self.members: dict[int, SimulatedWorker] = {}
        self._commits: dict[int, Commit] = {}
        self._have_state: set[int] = set()
        self._flag = False
        self.stage = Stage.CONNECTING

    def can_step(self) -> bool:
        return self.stage in (Stage.STATE, Stage.STEPS) and len(self._commits) == self._size

    def join(self, worker: SimulatedWorker, prepare: Prepare) -> None:
        """A worker begins to connect."""
        if prepare.size != self._size or prepare.rank in self.members:
            raise BrokenRuleError(f"two members of world {self.version} have one rank")
        self.members[prepare.rank] = worker
        self._clock.at(self._clock.now + prepare.seconds, self._timeout, prepare.rank)
        for rank in ((prepare.rank + offset) % self._size for offset in (-1, 0, 1)):
            if rank in self.members:
                self._try(rank)

    def _neighbours(self, rank: int) -> list[int]:
        return [(rank + offset) % self._size for offset in (-1, 1)]

    def _try(self, rank: int) -> None:
        worker = self.members[rank]
        for other in self._neighbours(rank):
            if other not in self.members or not self.members[other].alive:
                return
            if frozenset((worker.name, self.members[other].name)) in self._rings.apart:
                self._clock.seen["kept apart"] += 1
                self._clock.soon(self.fail, rank, other, "refused")
                return
        self._clock.soon(self._connected, rank)

    def _connected(self, rank: int) -> None:
        worker = self.members[rank]
        if worker.connecting == self.version:
            worker.connecting = None
            worker.answer(Connected(self.version, worker.state.step))

    def _timeout(self, rank: int) -> None:
        missing = [other for other in self._neighbours(rank) if other not in self.members]
        self.fail(rank, missing[0] if missing else None, "too late")

    def fail(self, rank: int, suspect: int | None, reason: str) -> None:
        worker = self.members[rank]
        if worker.connecting == self.version:
            worker.connecting = None
            self.stage = Stage.OVER
            worker.answer(ConnectFailed(self.version, suspect, reason))

    def cancel(self, worker: SimulatedWorker) -> None:
        for rank, member in self.members.items():
            if member is worker:
                self._clock.soon(self.fail, rank, None, "cancelled")

    def take(self, worker: SimulatedWorker, commit: Commit) -> None:
        """A worker is told to run."""
        rank = next(rank for rank, member in self.members.items() if member is worker)
        self._commits[rank] = commit
        if self.stage is Stage.OVER:
            self._clock.soon(self._tell_broken, rank, None)
        elif len(self._commits) == self._size:
            if len(set(self._commits.values())) != 1:
                raise BrokenRuleError(f"world {self.version} was told to run in two ways")
            self._pass_state(commit)

    def _pass_state(self, commit: Commit) -> None:
        root = self.members[commit.root]
        if not all(member.alive for member in self.members.values()):
            self.breaks(next(member for member in self.members.values() if not member.alive))
            return
        self.stage = Stage.STATE
        self._rings.only(self)
        if commit.step == NO_STATE:
            root.state = self._rings.checkpoint
            if root.state.step < self._rings.furthest:
                self._rings.lost_steps()
            self._clock.seen["from checkpoint" if root.state.step else "from nothing"] += 1
        elif commit.step != root.state.step:
            raise BrokenRuleError(f"world {self.version} begins at {commit.step}, its root is at {root.state.step}")
        self._clock.soon(self._move_rows, root, commit)

    def _move_rows(self, root: SimulatedWorker, commit: Commit) -> None:
        """The root lets those who have the rows write a snapshot, if the servers of this world do not have them."""
        sources = tuple(server.name for server in commit.sources)
        if self._waits_for(sources, root, self._move_rows, root, commit):
            return
        if sources:
            self._clock.seen["rows moved"] += 1
            self._rings.rows.stand_at(sources, root.state)
            self._rings.rows.save(sources, root.state)
        self._clock.soon(self._enter, root)

    def _enter(self, root: SimulatedWorker) -> None:
        """All servers come to the root's state."""
        if self._waits_for(self._servers, root, self._enter, root):
            return
        self._rings.rows.stand_at(self._servers, root.state)
        for rank in range(self._size):
            self._clock.soon(self._take_state, rank, root.state, most=0.2)

    def _waits_for(
        self, servers: tuple[str, ...], root: SimulatedWorker, call: Callable[..., None], *arguments: object
    ) -> bool:
        """Whether the root cannot go on: for a while because a server hangs, or because one is gone."""
        if self.stage is not Stage.STATE:
            return True
        if not self._rings.rows.there(servers):
            self._clock.seen["entered in vain"] += 1
            self.breaks(root)
            return True
        if self._rings.rows.hang(servers) or root.stopped:
            self._clock.soon(call, *arguments, most=1.0)
            return True
        return False

    def _take_state(self, rank: int, state: State) -> None:
        if self.stage is not Stage.STATE:
            return
        worker, commit = self.members[rank], self._commits[rank]
        if worker.stopped:
            self._clock.soon(self._take_state, rank, state, most=1.0)
            return
        if worker.stuck:
            self._clock.at(self._clock.now + 30.0, self.breaks, worker)
            return
        if rank in commit.receivers:
            self._clock.seen["state passed on"] += 1
            worker.state = state
        elif worker.state != state:
            raise BrokenRuleError(f"{worker.name} has another state than the root of world {self.version}")
        worker.servers = self._servers
        worker.answer(StateTaken(self.version, state.step))
        self._have_state.add(rank)
        if len(self._have_state) == self._size:
            self.stage = Stage.STEPS
            if commit.step == NO_STATE and self._rings.rows.there(self._servers):
                self._rings.rows.lost = False
            self._clock.soon(self._step, most=self._rings.pace)

    def flag(self) -> None:
        self._flag = True

    def _step(self) -> None:
        if self.stage is not Stage.STEPS:
            return
        stuck = next((member for member in self.members.values() if member.stuck), None)
        if stuck is not None:
            self._clock.at(self._clock.now + 30.0, self.breaks, stuck)
            return
        rows = self._rings.rows
        if not rows.there(self._servers):
            self._clock.seen["a server was gone"] += 1
            self.breaks(self._clock.random.choice(list(self.members.values())))
            return
        if any(member.stopped for member in self.members.values()) or rows.hang(self._servers):
            self._clock.soon(self._step, most=1.0)
            return
        self._rings.only(self)
        states = {member.state for member in self.members.values()}
        if len(states) != 1:
            raise BrokenRuleError(f"members of world {self.version} have different states: {states}")
        if self._size > 1 and self._rings.kill_at_end and self.members[0].state.step == self._rings.last - 1:
            self._rings.kill_at_end = False
            self._clock.seen["killed in the last step"] += 1
            self._clock.random.choice(list(self.members.values())).end(-9)
            return
        self._clock.seen["steps"] += 1
        if states.pop().step < self._rings.last:
            for rank in range(self._size):
                self._apply(rank)
            rows.applied(self._servers, self.version)
            self._save(self.members[0].state)
        if self.members[0].state.step >= self._rings.last:
            self.stage = Stage.OVER
            for rank in range(self._size):
                self._clock.soon(self.members[rank].answer, TrainingDone(self.members[rank].state.step))
        elif self._flag:
            self.stage = Stage.OVER
            self._clock.seen["stopped together"] += 1
            for rank in range(self._size):
                self._clock.soon(
                    self.members[rank].answer, BoundaryReached(self.version, self.members[rank].state.step)
                )
        else:
            self._clock.soon(self._step, most=self._rings.pace)

    def _apply(self, rank: int) -> None:
        worker = self.members[rank]
        worker.state = worker.state.after(self.version)
        self._rings.furthest = max(self._rings.furthest, worker.state.step)

    def _save(self, state: State) -> None:
        """Now and then a snapshot is begun; a step later it is written, and so is the checkpoint."""
        if self._saving is not None:
            self._rings.rows.snapshots.add(self._saving)
            self._rings.checkpoint, self._saving = self._saving, None
        if state.step % 4 == 0:
            self._saving = state

    def breaks(self, culprit: SimulatedWorker) -> None:
        """A member leaves, dies or breaks off: in a step, some of the others have applied it, and some have not."""
        if self.stage is Stage.OVER or len(self.members) < self._size:
            if self.stage is Stage.CONNECTING:
                self._closes(culprit)
            return
        began, stepping = self._commits, self.stage is Stage.STEPS
        at_work = stepping and self._clock.random.random() < 0.7
        self.stage = Stage.OVER
        blamed = next(rank for rank, member in self.members.items() if member is culprit)
        going = [rank for rank, member in self.members.items() if member.alive and rank in began]
        unfinished = at_work and any(self.members[rank].state.step < self._rings.last for rank in going)
        appliers = {rank for rank in going if unfinished and self._clock.random.random() < 0.5}
        # A member has applied a step when all servers have; a server does not wait for that.
        for name in self._servers if unfinished else ():
            if appliers or self._clock.random.random() < 0.3:
                self._rings.rows.applied([name], self.version)
        for rank in going:
            member = self.members[rank]
            if rank in appliers:
                self._clock.seen["applied by some"] += 1
                self._apply(rank)
                if member.state.step >= self._rings.last:
                    self._clock.seen["finished alone"] += 1
                    self._clock.soon(member.answer, TrainingDone(member.state.step))
                    continue
                if self._flag:
                    self._clock.soon(member.answer, BoundaryReached(self.version, member.state.step))
                    continue
            self._clock.soon(self._tell_broken, rank, self._suspect(rank, blamed))

    def _closes(self, culprit: SimulatedWorker) -> None:
        rank = next(rank for rank, member in self.members.items() if member is culprit)
        self.stage = Stage.OVER
        for other in self._neighbours(rank):
            if other in self.members and other != rank:
                self._clock.soon(self.fail, other, rank, "closed")
        for other in self._commits:
            self._clock.soon(self._tell_broken, other, rank)

    def _suspect(self, rank: int, blamed: int) -> int | None:
        if blamed == rank:
            return None
        return self._clock.random.choice((blamed, blamed, blamed, (rank + 1) % self._size, None))

    def _tell_broken(self, rank: int, suspect: int | None) -> None:
        worker = self.members[rank]
        worker.answer(RingBroke(self.version, worker.state.step, suspect, "broken"))
