"""Which workers make the next world, and when: world changes in two phases.

At any time there is at most one attempt: a world that is being made or that runs. Whatever happens to it, the answer is
the next attempt, with a higher version; never a repair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlflow_elastic.elastic.membership.attempt import Attempt
from sqlflow_elastic.elastic.membership.deadlines import Alarm
from sqlflow_elastic.elastic.membership.desk import Desk, Worker
from sqlflow_elastic.elastic.membership.messages import (
    NO_STATE,
    Broken,
    Commit,
    Hello,
    Needs,
    Prepare,
    Release,
    Standing,
)
from sqlflow_elastic.elastic.membership.reasons import Reasons
from sqlflow_elastic.elastic.membership.servers import Servers
from sqlflow_elastic.elastic.membership.shares import Shares
from sqlflow_elastic.elastic.membership.sizing import Sizing
from sqlflow_elastic.events import WorldChanged

#: Attempts in a row that failed between the same members, after which one of them is given up …
_PATIENCE = 2
#: … even if it is the only one with a state.
_LAST_PATIENCE = 6
#: How often shares are looked at, in seconds.
_LOOK_AT_SHARES = 5.0
#: A world of so many members waits so many seconds for more deaths before it changes.
_LARGE, _GATHER_SECONDS = 100, 0.05


class Worlds:
    """The worlds of one job.

    Attributes:
        version: the highest that was ever used.
        attempt: the world that is being made or runs; None where nobody can be in one.
        stored: the members of the last world that was ever told to run, and so could be running.
        finished: workers that have trained to the end. While there is one, worlds stay as they are.
    """

    def __init__(self, desk: Desk, sizing: Sizing, servers: Servers, stored: Mapping[str, Any]) -> None:
        self._desk = desk
        self._sizing = sizing
        self._servers = servers
        self._shares = Shares()
        world = stored.get("world")
        self.version = int(stored.get("version", 0))
        self.stored: frozenset[str] = frozenset(world["members"]) if world else frozenset()
        #: Of that world; None before there was one.
        self._placement: str | None = world["placement"] if world else None
        self.attempt: Attempt | None = None
        if world:
            self.attempt = Attempt.from_json(world)
            if self.attempt.commit is not None:
                self._servers.world_runs(self.attempt.servers, self.attempt.commit)
        self.finished: set[str] = set()
        #: Workers that can join: warm, without a state.
        self._ready: dict[str, None] = {}
        #: Whether the stored world takes steps, so that its members can stop between two of them.
        self._intact = False
        self._told: tuple[str, ...] = self.attempt.members if self.attempt else ()
        self._told_version = self.attempt.version if self.attempt else 0
        self._reasons = Reasons()
        self._failed: tuple[frozenset[str], int] = (frozenset(), 0)
        self._suspicion: Counter[str] = Counter()
        self._reshare = False

    # What workers say.

    def greeted(self, worker: Worker, hello: Hello, now: float) -> None:
        """A worker says where it stands."""
        self.version = max(self.version, hello.version)
        if hello.standing is Standing.FINISHED:
            self.finished.add(worker.name)
        attempt = self.attempt
        member = attempt is not None and worker.name in attempt.ranks
        if hello.standing is Standing.WARMING or worker.name in self.finished:
            return
        if hello.step != NO_STATE and worker.name not in self.stored and not worker.leaving:
            self._desk.give_up(worker, f"{worker.name} comes from a world that is over", now)
        elif attempt is None or not member:
            if hello.step == NO_STATE and not worker.leaving:
                self._ready[worker.name] = None
        elif attempt.commit is None:
            if attempt.lost:
                pass  # the next attempt waits for servers
            elif hello.version != attempt.version:
                self._prepare(attempt, worker)
            elif hello.standing is Standing.PREPARED:
                self.prepared(worker, attempt.version, hello.step, now)
            elif hello.standing is Standing.STOPPED:
                self._breaks(attempt, worker, now)
        elif hello.version == attempt.version and hello.standing is Standing.RUNNING:
            self.running(worker, attempt.version, hello.step, 0.0, now)
        elif hello.version == attempt.version and hello.standing is Standing.PREPARED and self._begins(attempt):
            self._desk.send(worker, attempt.commit)
        else:
            self._breaks(attempt, worker, now)

    def ready(self, worker: Worker) -> None:
        """A worker is warm."""
        if not worker.leaving:
            self._ready[worker.name] = None

    def prepared(self, worker: Worker, version: int, step: int, now: float) -> None:
        """A member is connected."""
        attempt = self.attempt
        if attempt is None or version != attempt.version or attempt.commit is not None:
            return
        if worker.name in attempt.ranks and worker.name not in attempt.broken:
            attempt.prepared[worker.name] = step
            if worker.name in attempt.old:
                self._hurry(attempt, now)

    def running(self, worker: Worker, version: int, step: int, seconds: float, now: float) -> None:
        """A member has the state and takes steps."""
        attempt = self.attempt
        if attempt is None or version != attempt.version or worker.name not in attempt.ranks:
            return
        attempt.running.add(worker.name)
        attempt.pause = max(attempt.pause, seconds)
        if attempt.settled:
            if attempt.commit is not None and attempt.commit.sources:
                attempt.commit = replace(attempt.commit, sources=())
                self._desk.persist({"world": attempt.to_json()})
            self._servers.settled()
            self._settled(attempt, step, now)

    def broken(self, worker: Worker, message: Broken, now: float) -> None:
        """A member cannot go on in a version."""
        attempt = self.attempt
        if attempt is None:
            return
        if message.version == attempt.version and worker.name in attempt.ranks:
            if message.suspect is not None and 0 <= message.suspect < len(attempt.members):
                self._suspect(attempt, attempt.members[message.suspect], now)
            attempt.reason = attempt.reason or f"the ring broke at {worker.name}: {message.reason}"
            self._breaks(attempt, worker, now)
        elif worker.name in self.stored:
            self._intact = False

    def leaving(self, worker: Worker, now: float) -> None:
        """A worker was asked to leave, from outside."""
        self._ready.pop(worker.name, None)
        if self.attempt is not None and worker.name in self.attempt.ranks:
            self.attempt.leaver = True
        elif worker.standing is not Standing.FINISHED:
            self._desk.release(worker, Release("asked to leave"), now)

    def disconnected(self, worker: Worker, now: float) -> None:
        """A stream is lost: at once believed dead if a neighbour thinks so too."""
        if self.attempt is not None and self.attempt.suspects[worker.name]:
            self._desk.take_for_dead(worker, now)

    def lost(self, worker: Worker, why: str) -> None:
        """A worker is out of all worlds for good."""
        self._ready.pop(worker.name, None)
        self.finished.discard(worker.name)
        self._shares.forget(worker.name)
        if worker.name in self.stored:
            self._intact = False
        if self.attempt is not None and worker.name in self.attempt.ranks:
            self.attempt.lost = True
            self._reasons.lost(worker.name, why)
        elif self._reasons.knows(worker.name) and not worker.killed:
            self._reasons.lost(worker.name, why)

    def server_lost(self, name: str, why: str) -> None:
        """A server is gone: no step of a world with it can be done, nor one that begins with its rows."""
        attempt = self.attempt
        if attempt is None:
            return
        rewinds = attempt.rewind and attempt.commit is None
        if (self._servers.rewind and not rewinds) or any(server.name == name for server in attempt.servers):
            attempt.lost = True
            self._intact = False
            self._reasons.lost(name, why)

    def adopted(self, ends: Mapping[str, str]) -> None:
        """All workers of the master before have said where they stand, or are lost.

        Args:
            ends: of workers whose processes have ended, in words.
        """
        attempt = self.attempt
        if attempt is not None:
            gone = [name for name in attempt.members if name not in self._desk.workers]
            for name in gone:
                if not self._reasons.knows(name):
                    self._reasons.lost(name, ends.get(name, f"{name} was lost while there was no master"))
            attempt.lost = attempt.lost or bool(gone or attempt.broken) or self._servers.rewind
            self._intact = not attempt.lost

    def observe(self, worker: Worker, sample_seconds: float, now: float) -> None:
        """What a sample costs a member."""
        self._shares.observe(worker.name, sample_seconds, now)

    # What follows.

    def settle(self, now: float) -> None:
        """Begin the next attempt, or let the present one run, if it is time to."""
        attempt = self.attempt
        if self.finished:
            return
        if attempt is not None and attempt.complete:
            self._run(attempt, now)
        elif not self._servers.enough:
            return  # the next one waits for them
        elif attempt is None:
            if self._ready:
                self._change(now)
        elif attempt.lost:
            self._lose(attempt, now)
        elif attempt.broken and len(attempt.broken) + len(attempt.prepared) == len(attempt.members):
            self._retry(attempt, now)
        elif attempt.settled and self._wanted(attempt):
            self._change(now)

    def gathered(self) -> None:
        """Whoever died together with others is known by now."""
        if self.attempt is not None:
            self.attempt.gathered = True

    def overdue(self, now: float) -> None:
        """Members have had their time: who is silent still is given up."""
        attempt = self.attempt
        if attempt is None or attempt.lost:
            return
        if self.finished:
            self._desk.deadlines.set(Alarm.CHANGE, "", now + self._desk.spec.change)
        elif attempt.commit is None or attempt.broken:
            for name in attempt.members:
                if name not in attempt.prepared and name not in attempt.broken and name in self._desk.workers:
                    self._desk.give_up(self._desk.workers[name], f"{name} did not follow a world change", now)

    def look_at_shares(self, now: float) -> None:
        """Split the batch otherwise if members differ in speed."""
        attempt, batch = self.attempt, self._desk.spec.batch_size
        if attempt is None or batch is None:
            return
        self._desk.deadlines.set(Alarm.SHARES, "", now + _LOOK_AT_SHARES)
        if attempt.settled and len(attempt.members) > 1 and len(attempt.members) <= batch:
            self._reshare = self._shares.due(attempt.members, attempt.shares, batch, now)

    def better(self, worker: Worker, needs: Needs) -> None:
        """A member of the world that runs says that another plan is better for it."""
        attempt = self.attempt
        if attempt is None or not attempt.settled or self.finished:
            return
        if needs.world == attempt.version and worker.name in attempt.ranks:
            self._servers.needs(needs)

    # How it is done.

    @property
    def _moves(self) -> bool:
        """Whether tables are elsewhere in the next world, so that nobody has a state for it."""
        return self._placement not in (None, self._servers.placement)

    def _begins(self, attempt: Attempt) -> bool:
        """Whether a world that was told to run can do so, as far as is known."""
        return not attempt.broken and not attempt.lost and self._servers.whole

    def _suspect(self, attempt: Attempt, name: str, now: float) -> None:
        attempt.suspects[name] += 1
        worker = self._desk.workers.get(name)
        if worker is not None and not worker.connected:
            self._desk.take_for_dead(worker, now)

    def _breaks(self, attempt: Attempt, worker: Worker, now: float) -> None:
        attempt.breaks(worker.name)
        if worker.name in self.stored:
            self._intact = False
        if attempt.commit is not None or worker.name in attempt.old:
            self._hurry(attempt, now)

    def _hurry(self, attempt: Attempt, now: float) -> None:
        """A member stands still: all have to, within the time for a change."""
        if not attempt.hurried:
            attempt.hurried = True
            self._desk.deadlines.set(Alarm.CHANGE, "", now + self._desk.spec.change)

    def _lose(self, attempt: Attempt, now: float) -> None:
        """Go on without the lost. Deaths come in bunches, and each change costs a large world a message per member."""
        if attempt.gathered or len(attempt.members) < _LARGE:
            self._desk.deadlines.clear(Alarm.GATHER)
            self._change(now)
        elif not self._desk.deadlines.has(Alarm.GATHER):
            self._desk.deadlines.set(Alarm.GATHER, "", now + _GATHER_SECONDS)

    def _joiners(self) -> list[Worker]:
        workers = (self._desk.workers[name] for name in self._ready)
        return [worker for worker in workers if worker.connected and worker.usable and not worker.leaving]

    def _wanted(self, attempt: Attempt) -> bool:
        """Whether another world would be better than the one that runs."""
        size, target = len(attempt.members), self._sizing.target
        if self._moves or self._servers.wants_change(attempt.servers):
            return True
        return attempt.leaver or self._reshare or size > target or (size < target and bool(self._joiners()))

    def _next(self) -> list[Worker]:
        """The members of the next world: those who stay, in their order, then those who join."""
        names = self.attempt.members if self.attempt is not None else ()
        present = [worker for name in names if (worker := self._desk.workers.get(name)) and worker.usable]
        target = self._sizing.target
        # Who has a state comes first, and is rank 0, and is no member too many.
        present.sort(key=lambda worker: worker.step == NO_STATE)
        staying = [worker for worker in present if not worker.leaving][:target]
        joining = self._joiners()[: target - len(staying)]
        if (staying or joining) and all(worker.step == NO_STATE for worker in staying):
            # A state that only leavers have is handed over before they go.
            staying = [worker for worker in present if worker.leaving and worker.step != NO_STATE] + staying
        return staying + joining

    def _change(self, now: float) -> None:
        """Begin the next attempt. Without anybody to be in it, there is none."""
        servers, rewind, moves = self._servers.ready, self._servers.rewind, self._moves
        if rewind:
            self._forget_states()
        before, workers = self.attempt, self._next()
        members = tuple(worker.name for worker in workers)
        if before is not None:
            staying = set(members)
            self._let_go([name for name in before.members if name not in staying], moves or not members, now)
        if not members:
            self.attempt = None
            self._desk.deadlines.clear(Alarm.CHANGE)
            return
        if moves:
            self._forget_states()
        self.version += 1
        batch = self._desk.spec.batch_size
        self.attempt = attempt = Attempt(
            self.version,
            members,
            self._shares.of(members, batch, now) if batch is not None else (),
            planned=self._intact,
            old=self.stored.intersection(members),
            leaver=any(worker.leaving for worker in workers),
            servers=servers,
            rewind=rewind or moves,
            placement=self._servers.placement,
            hurried=moves,  # to move takes longer than to connect
        )
        if self._reshare:
            self._reasons.because("members differ in speed")
        self._reshare = False
        if moves:
            self._reasons.because("tables are better elsewhere now")
        elif before is not None and not rewind and servers != before.servers:
            self._reasons.because(f"tables move to {', '.join(server.name for server in servers)}")
        self._desk.persist({"version": self.version})
        for worker in workers:
            self._ready.pop(worker.name, None)
            self._prepare(attempt, worker)
        # Members of the world before may have to finish a step first, however long it takes.
        seconds = self._desk.spec.step if attempt.old or moves else self._desk.spec.change
        self._desk.deadlines.set(Alarm.CHANGE, "", now + seconds)

    def _forget_states(self) -> None:
        """No worker's state counts any more."""
        for worker in self._desk.workers.values():
            worker.step = NO_STATE

    def _let_go(self, names: list[str], state_ends: bool, now: float) -> None:
        """Release members of the attempt before; the furthest one writes a checkpoint if nobody takes on its state."""
        workers = [worker for name in names if (worker := self._desk.workers.get(name)) and worker.usable]
        furthest = max(workers, key=lambda worker: worker.step, default=None)
        for worker in workers:
            reason = "asked to leave" if worker.leaving else self._sizing.reason
            self._reasons.because(f"{worker.name} leaves ({reason})")
            checkpoint = state_ends and worker is furthest and not self._servers.rewind
            self._desk.release(worker, Release(reason, checkpoint), now)

    def _prepare(self, attempt: Attempt, worker: Worker) -> None:
        rank, size = attempt.ranks[worker.name], len(attempt.members)
        successor = self._desk.workers[attempt.members[(rank + 1) % size]]
        spec = self._desk.spec
        # Who joins stands still already, and waits for the others' step boundary.
        waits = (attempt.planned and worker.name not in attempt.old) or self._moves
        prepare = Prepare(
            attempt.version,
            rank,
            size,
            successor.address,
            attempt.planned,
            attempt.shares,
            spec.step if waits else spec.change,
            attempt.servers,
            attempt.rewind,
            self._desk.plan,
        )
        self._desk.send(worker, prepare)

    def _retry(self, attempt: Attempt, now: float) -> None:
        """An attempt failed at members who all live. After the second time, the most suspected one is given up."""
        self._reasons.because(attempt.reason or "the ring broke")
        members = frozenset(attempt.members)
        before, count = self._failed
        if members != before:
            count = 0
            self._suspicion.clear()
        self._failed = members, count + 1
        self._suspicion.update(attempt.suspects)
        if count + 1 < _PATIENCE:
            self._change(now)
            return
        workers = [self._desk.workers[name] for name in attempt.members]
        furthest = max(worker.step for worker in workers)
        only = [worker for worker in workers if worker.step == furthest]
        spared = only[0] if len(only) == 1 and count + 1 < _LAST_PATIENCE else None
        others = [worker for worker in workers if worker is not spared]
        if not others:
            self._change(now)
            return
        victim = max(others, key=lambda worker: (self._suspicion[worker.name], attempt.ranks[worker.name]))
        self._desk.give_up(victim, f"{victim.name} could not be connected", now)

    def _run(self, attempt: Attempt, now: float) -> None:
        """All are prepared: let them run, unless another training could run beside it."""
        step = max(attempt.prepared.values())
        if step == NO_STATE and not self._fenced(attempt):
            return
        root = next(rank for rank, name in enumerate(attempt.members) if attempt.prepared[name] == step)
        behind = (
            rank for rank, name in enumerate(attempt.members) if step == NO_STATE or attempt.prepared[name] < step
        )
        receivers = tuple(rank for rank in behind if rank != root)
        sources = self._servers.sources(attempt.servers, step)
        attempt.commit = Commit(attempt.version, root, receivers, step, sources)
        attempt.prepared.clear()
        attempt.hurried = False
        self._desk.deadlines.clear(Alarm.CHANGE)
        self.stored, self._placement = frozenset(attempt.members), attempt.placement
        self._servers.world_runs(attempt.servers, attempt.commit)
        self._intact = True
        self._desk.persist({"world": attempt.to_json()})
        for name in attempt.members:
            self._desk.send(self._desk.workers[name], attempt.commit)

    def _fenced(self, attempt: Attempt) -> bool:
        """Whether nobody who could still train in the last world lives, but for members of this one.

        Whoever is in no next world has been killed, or leaves and has a deadline for it.
        """
        return not any(name in self._desk.workers for name in self.stored - attempt.ranks.keys())

    def _settled(self, attempt: Attempt, step: int, now: float) -> None:
        """All members run: tell, and forget what led here."""
        if attempt.version == self._told_version:
            return
        members = attempt.members
        joined = tuple(name for name in members if name not in self._told)
        left = tuple(name for name in self._told if name not in members)
        self._desk.tell(
            WorldChanged(attempt.version, members, joined, left, self._reasons.tell(joined), step, attempt.pause)
        )
        self._told, self._told_version = members, attempt.version
        self._failed = frozenset(), 0
        self._shares.changed(now)
        if not self._desk.deadlines.has(Alarm.SHARES):
            self._desk.deadlines.set(Alarm.SHARES, "", now + _LOOK_AT_SHARES)
