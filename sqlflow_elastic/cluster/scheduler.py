"""Which process runs when: the deciding part of the local cluster, without clock, socket, process or thread.

An event is a method call; it returns the commands that follow from it, to be carried out in their order. `now` is the
time of the event in Unix seconds; it only goes into `Status.since`.

    submit ──► waiting ──Launch──► launched ──► running ──► ended      the same in `Status`: PENDING until it runs
                  └──────────── terminate, kill, fail ────────▲

A launched process holds its slots until `ended`. Nothing is launched while there is no fork server: between `ready` and
`unready` there is one.
"""

from __future__ import annotations

import signal
from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sqlflow_elastic.cluster.base import AlreadyStarted, Phase, Role, Status
from sqlflow_elastic.errors import JobError

#: A process's job and name; unique for ever.
Key = tuple[str, str]

#: So many processes may be known at once, ended ones too: what bounds every table of the cluster.
MAX_PROCESSES = 10_000

KILLED = -signal.SIGKILL


@dataclass(frozen=True)
class Launch:
    """Have the process started. `launched`, `failed` or `ended` follows."""

    key: Key


@dataclass(frozen=True)
class Terminate:
    """Send the process SIGTERM, and SIGKILL after so many seconds. Sent already: the earlier end of grace counts."""

    key: Key
    grace: float


@dataclass(frozen=True)
class Kill:
    """Send the process SIGKILL."""

    key: Key


@dataclass(frozen=True)
class Changed:
    """Tell those who watch. The last one of a process has the phase ENDED."""

    status: Status


@dataclass(frozen=True)
class Forgotten:
    """Nothing is left of the job."""

    job: str


Command = Launch | Terminate | Kill | Changed | Forgotten


@dataclass(eq=False)
class _Entry:
    """A process: its status, and what decides about it. ``turn`` counts submissions, later launches."""

    status: Status
    priority: int
    slots: int
    turn: int
    holds: bool = False
    ending: bool = False
    killed: bool = False

    @property
    def key(self) -> Key:
        return self.status.job, self.status.name

    def __lt__(self, other: _Entry) -> bool:
        """Whether it comes before the other one in the queue."""
        return (-self.priority, self.turn) < (-other.priority, other.turn)


class Scheduler:
    """The processes of a cluster, and who of them has slots.

    Args:
        slots: how many there are.
        grace: seconds that a preempted process has between SIGTERM and SIGKILL.
    """

    def __init__(self, slots: int, grace: float) -> None:
        self.slots = slots
        self._grace = grace
        self._ready = False
        self._turns = 0
        self._entries: dict[Key, _Entry] = {}
        self._jobs: dict[str, dict[Key, None]] = {}  # the inner one an ordered set
        self._forgotten: set[str] = set()
        self._uncounted: list[_Entry] = []  # waiting only for the fork server
        self._queue: list[_Entry] = []  # waiting for slots, the most urgent first
        self._holding: dict[Key, _Entry] = {}
        self._taken = 0

    @property
    def free(self) -> int:
        """How many slots nobody holds."""
        return self.slots - self._taken

    @property
    def waits(self) -> bool:
        """Whether some process is not launched yet."""
        return bool(self._queue or self._uncounted)

    def statuses(self, job: str | None = None) -> list[Status]:
        """The known processes of a job, of all jobs for None, in the order of their submission."""
        keys: Iterable[Key] = self._entries if job is None else self._jobs.get(job, ())
        return [self._entries[key].status for key in keys]

    def submit(self, key: Key, role: Role, priority: int, slots: int, now: float) -> list[Command]:
        """A new process. Raises: AlreadyStarted, JobError; nothing has changed then."""
        job, name = key
        process = f"process {name} of job {job}" if job else "the process"
        if key in self._entries:
            raise AlreadyStarted(f"{process} was started before")
        if job in self._forgotten:
            raise JobError(f"{process} is not started: the job is over")
        if slots > self.slots:
            raise JobError(f"{process} needs {slots} slots; there are {self.slots} in all")
        if len(self._entries) >= MAX_PROCESSES:
            raise JobError(f"the cluster has {MAX_PROCESSES} processes already; forget the jobs that have ended")
        status = Status(job, name, role, Phase.PENDING, None, None, False, now, None)
        entry = _Entry(status, priority, slots, self._turn())
        self._entries[key] = entry
        self._jobs.setdefault(job, {})[key] = None
        if slots:
            insort(self._queue, entry)
        else:
            self._uncounted.append(entry)
        return [Changed(status), *self._fill(now)]

    def ready(self, now: float) -> list[Command]:
        """There is a fork server."""
        self._ready = True
        return list(self._fill(now))

    def unready(self) -> None:
        """There is none any more. `ended` is to follow for each process it had started."""
        self._ready = False

    def fail(self, failure: str, now: float) -> list[Command]:
        """No fork server can be had: what waits for it ends."""
        return [command for entry in self._waiting() for command in self._end(entry, None, failure, now)]

    def launched(self, key: Key, pid: int, now: float) -> list[Command]:
        """A process runs."""
        return [self._change(self._holding[key], now, phase=Phase.RUNNING, pid=pid)]

    def failed(self, key: Key, failure: str, now: float) -> list[Command]:
        """A process could not be launched."""
        return [*self._end(self._holding[key], None, failure, now), *self._fill(now)]

    def ended(self, key: Key, exit_code: int, now: float) -> list[Command]:
        """A launched process has ended."""
        return [*self._end(self._holding[key], exit_code, None, now), *self._fill(now)]

    def terminate(self, key: Key, grace: float, now: float) -> list[Command]:
        """Somebody wants a process to end."""
        entry = self._entries.get(key)
        if entry is None or entry.status.phase is Phase.ENDED:
            return []
        if not entry.holds:
            return [*self._end(entry, KILLED, None, now), *self._fill(now)]
        entry.ending = True
        return [Terminate(key, grace)]

    def kill(self, key: Key, now: float) -> list[Command]:
        """Somebody wants a process to end at once."""
        entry = self._entries.get(key)
        if entry is None or not entry.holds:
            return self.terminate(key, 0, now)
        return self._kill(entry)

    def out_of_memory(self, key: Key, now: float) -> list[Command]:
        """A process takes more memory than it may."""
        entry = self._entries.get(key)
        if entry is None or not entry.holds or entry.killed:
            return []
        return [self._change(entry, now, out_of_memory=True), *self._kill(entry)]

    def forget(self, job: str, now: float) -> list[Command]:
        """A job is over."""
        self._forgotten.add(job)
        commands: list[Command] = []
        for entry in [self._entries[key] for key in self._jobs.get(job, ())]:
            if entry.holds:
                commands += self._kill(entry)
            elif entry.status.phase is Phase.ENDED:
                self._drop(entry)
            else:
                commands += self._end(entry, KILLED, None, now)
        if job not in self._jobs and Forgotten(job) not in commands:
            commands.append(Forgotten(job))
        return [*commands, *self._fill(now)]

    def close(self, now: float) -> list[Command]:
        """The cluster ends: no process is launched any more, and none is left."""
        self._ready = False
        left = [*self._waiting(), *self._holding.values()]
        return [command for entry in left for command in self._end(entry, KILLED, None, now)]

    def _turn(self) -> int:
        self._turns += 1
        return self._turns

    def _waiting(self) -> list[_Entry]:
        return [*self._uncounted, *self._queue]

    def _fill(self, now: float) -> Iterator[Command]:
        """Launch what fits, in order; make room for what does not."""
        if not self._ready:
            return
        for entry in self._uncounted:
            yield self._launch(entry)
        self._uncounted.clear()
        fitting = 0
        while fitting < len(self._queue) and self._queue[fitting].slots <= self.free:
            yield self._launch(self._queue[fitting])
            fitting += 1
        del self._queue[:fitting]
        for victim in self._victims():
            victim.ending = True
            yield self._change(victim, now, preempted=True)
            yield Terminate(victim.key, self._grace)

    def _victims(self) -> list[_Entry]:
        """Who has to make room, so that as much of the queue as possible can follow, in order."""
        holding = self._holding.values()
        candidates = sorted(
            (entry for entry in holding if entry.slots and not entry.ending and entry.status.role is not Role.MASTER),
            key=lambda entry: (entry.priority, -entry.turn),
        )
        victims: list[_Entry] = []
        left = self.free + sum(entry.slots for entry in holding if entry.ending)
        for entry in self._queue:
            taken: list[_Entry] = []
            room = left
            for candidate in candidates[len(victims) :]:
                if room >= entry.slots or candidate.priority >= entry.priority:
                    break
                taken.append(candidate)
                room += candidate.slots
            if room < entry.slots:
                break
            victims += taken
            left = room - entry.slots
        needed = []
        for victim in reversed(victims):  # a large one, taken late, may have made smaller ones needless
            if victim.slots <= left:
                left -= victim.slots
            else:
                needed.append(victim)
        return needed[::-1]

    def _launch(self, entry: _Entry) -> Launch:
        entry.holds = True
        entry.turn = self._turn()
        self._holding[entry.key] = entry
        self._taken += entry.slots
        return Launch(entry.key)

    def _kill(self, entry: _Entry) -> list[Command]:
        if entry.killed:
            return []
        entry.ending = entry.killed = True
        return [Kill(entry.key)]

    def _change(self, entry: _Entry, now: float, **changes: object) -> Changed:
        entry.status = replace(entry.status, since=now, **changes)  # type: ignore[arg-type]  # ours, a few lines up
        return Changed(entry.status)

    def _end(self, entry: _Entry, exit_code: int | None, failure: str | None, now: float) -> list[Command]:
        if entry.holds:
            entry.holds = False
            del self._holding[entry.key]
            self._taken -= entry.slots
        else:
            (self._queue if entry.slots else self._uncounted).remove(entry)
        commands: list[Command] = [self._change(entry, now, phase=Phase.ENDED, exit_code=exit_code, failure=failure)]
        job = entry.status.job
        if not job or job in self._forgotten:
            self._drop(entry)
            if job and job not in self._jobs:
                commands.append(Forgotten(job))
        return commands

    def _drop(self, entry: _Entry) -> None:
        job = entry.status.job
        del self._entries[entry.key]
        del self._jobs[job][entry.key]
        if not self._jobs[job]:
            del self._jobs[job]
