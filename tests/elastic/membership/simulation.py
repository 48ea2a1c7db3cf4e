"""A whole simulated job: the master's machine, the workers' machines, a cluster, a store, streams and rings.

Everything is fixed by a seed. Whatever must never happen raises `BrokenRuleError` when it does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlflow_elastic.elastic.membership.master import (
    Cancelled,
    CountTasks,
    Disconnected,
    EndJob,
    EndWorker,
    MasterEvent,
    MasterMachine,
    Outcome,
    Persist,
    Phase,
    ProcessChanged,
    Received,
    Send,
    StartServer,
    StartWorker,
    Tell,
    Tick,
)
from sqlflow_elastic.elastic.membership.messages import (
    NO_STATE,
    Commit,
    Finished,
    FromWorker,
    Hello,
    Needs,
    Prepare,
    Prepared,
    Progress,
    Release,
    Servers,
    Standing,
)
from sqlflow_elastic.elastic.membership.spec import JobSpec, Scaling
from tests.elastic.membership.clockwork import BrokenRuleError, Clockwork
from tests.elastic.membership.rings import Rings
from tests.elastic.membership.simulated_process import SimulatedProcess, Stream
from tests.elastic.membership.simulated_server import Rows, SimulatedServer
from tests.elastic.membership.simulated_worker import ALONE, SimulatedWorker

#: A program's stages: queues of tasks, None for training, ("", 0) for its end.
Program = list[tuple[str, int] | None]

PROGRAMS: list[Program] = [
    [("prepare", 1), None, ("save", 1), ("", 0)],
    [None, ("evaluate", 3), ("save", 1), ("", 0)],
    [("prepare", 2), None, ("", 0)],
    [("predict", 6), ("", 0)],
    [("prepare", 1), (ALONE, 12), ("save", 1), ("", 0)],
]
#: A job that has not ended after so many events, or seconds without failures, never will.
MOST_EVENTS = 6_000
MOST_SECONDS = 400.0


class Simulation:
    """One job, from its start to its end.

    Attributes:
        needs: what the strategy needs.
        rows: the tables, and the servers that have them.
        master: None while there is none.
        term: counts masters.
        store: what is stored, as the next master sees it.
        crash_at: the next master's command, from now on, that is its last; None for none.
        gentle: nothing is done to this job that should cost it anything.
        excused: outcomes that are no surprise, by what was done to the job.
    """

    def __init__(self, seed: int) -> None:
        self.clock = clock = Clockwork(seed)
        random = clock.random
        self.program = PROGRAMS[random.choice((0, 0, 0, 1, 1, 2, 3, 4))]
        self.spec = JobSpec(
            "job",
            workers=random.choice((1, 2, 2, 3, 3, 3, 4, 5)),
            batch_size=random.choice((2, 64, 64)) if None in self.program else None,
            scaling=random.choice((Scaling.ALL, Scaling.ALL, Scaling.ALL, Scaling.FASTEST)),
            heartbeat=2.0,
            step=60.0,
        )
        self.slots = random.choice(
            (self.spec.workers, self.spec.workers, self.spec.workers, self.spec.workers + 2, 1, 2)
        )
        self.speed_per_worker = random.choice((0.3, 1.0))
        self.gentle = random.random() < 0.4
        self.needs = Needs(0, 0, "")
        if None in self.program:
            servers = random.choice((0, 0, 0, 1, 1, 2, 3))
            self.choose(servers, "servers" if servers else "workers")
        elif (ALONE, 12) in self.program:
            servers = random.choice((1, 1, 2, 3))
            self.needs = Needs(servers, 100, f'{{"servers": {servers}}}', synchronous=False)
        self.rows = Rows()
        self.rings = Rings(
            clock, self.rows, last=random.choice((3, 10, 30, 60)), pace=random.choice((0.2, 0.4, 0.4, 3.0))
        )
        self.rings.kill_at_end = not self.gentle and random.random() < 0.2
        self.rings.lost_steps = lambda: self.only_if_hard("steps are lost")
        self.workers: dict[str, SimulatedWorker] = {}
        self.exit_code: dict[str, int] = {}
        self.failures: dict[str, str] = {}
        self.done: set[tuple[str, int]] = set()
        self.store: dict[str, Any] = {}
        self.term = 0
        self.master: MasterMachine | None = MasterMachine(self.spec, 0.0)
        self.end: EndJob | None = None
        self.crash_at: int | None = None
        self.excused = {Outcome.SUCCEEDED}
        self._streams: dict[str, Stream] = {}
        self._prepared: dict[int, set[str]] = {}
        self._excluded: set[str] = set()
        #: How many servers a world has to have, by what was stored when it was decided.
        self._wanted_servers: dict[int, int] = {}
        #: Servers that the present master has heard, and those of whose end it was told.
        self._heard: set[str] = set()
        self._known_dead: set[str] = set()
        #: Who has trained to the end, as the present master knows.
        self._finished: set[str] = set()
        #: By version, what workers that take steps alone were told.
        self._listed: dict[int, Servers] = {}
        self._wake = float("inf")
        clock.soon(self.tell, Tick(), self.term)

    @property
    def processes(self) -> list[SimulatedProcess]:
        return [*self.workers.values(), *self.rows.servers.values()]

    def choose(self, servers: int, placement: str) -> None:
        """The strategy needs so many servers from now on, with the tables there."""
        plan = json.dumps({"servers": servers, "placement": placement})
        self.needs = Needs(servers, 100, plan, placement=placement)

    # The master.

    def tell(self, event: MasterEvent, term: int) -> None:
        """Hand an event to the master of a term, if it is still there, and carry out what it says."""
        if self.master is None or term != self.term or self.end is not None:
            return
        for command in self.master.handle(event, self.clock.now):
            if self.crash_at is not None:
                if self.crash_at == 0:
                    self.clock.seen["master died before " + type(command).__name__] += 1
                    self.crash()
                    return
                self.crash_at -= 1
            self._execute(command)
        wake = self.master.next_wake
        if wake < self._wake:
            self._wake = wake
            self.clock.at(wake, self._tick, self.term)

    def _tick(self, term: int) -> None:
        if term == self.term:
            self._wake = float("inf")
            self.tell(Tick(), term)

    def crash(self) -> None:
        """Kill -9 of the master; the next one comes in a while."""
        self.crash_at = None
        if self.master is None:
            return
        self.master = None
        self.term += 1
        self._wake = float("inf")
        for process in self.processes:
            if process.stream is not None:
                process.stream.cut()
        self._streams = {}
        self._finished, self._heard, self._known_dead = set(), set(), set()
        self.clock.soon(self._succeed, most=4.0)

    def _succeed(self) -> None:
        if self.end is not None:
            return
        self.clock.seen["master adopted"] += 1
        processes = [self._status(process) for process in self.processes]
        self.master = MasterMachine.adopt(self.spec, dict(self.store), processes, self.clock.now)
        self.tell(Tick(), self.term)

    def hear(self, stream: Stream, name: str, message: FromWorker) -> None:
        """A message arrives at the master."""
        if self.master is None or stream.term != self.term:
            return
        self._streams[name] = stream
        self._heard.add(name)
        standing = message.standing if isinstance(message, Hello) else None
        if isinstance(message, Prepared) or (isinstance(message, Hello) and standing is Standing.PREPARED):
            self._prepared.setdefault(message.version, set()).add(name)
        if isinstance(message, Finished) or standing is Standing.FINISHED:
            self._finished.add(name)
        self.clock.seen[type(message).__name__] += 1
        self.tell(Received(name, message), self.term)

    def stream_lost(self, stream: Stream, name: str) -> None:
        """The master notices, unless there is a newer stream."""
        if self._streams.get(name) is stream:
            del self._streams[name]
            self.tell(Disconnected(name), stream.term)

    def progress(self, worker: SimulatedWorker) -> Progress:
        """A worker's heartbeat. Speeds follow the size of the world as the scenario says."""
        version = worker.machine.running
        size = worker.machine._size
        speed = 1000.0 * (1 + (size - 1) * self.speed_per_worker)
        return Progress(version, worker.state.step, speed, 0.001, 1.5, True, 1000.0)

    # What it does.

    def _execute(self, command: object) -> None:
        match command:
            case Persist(changes):
                self._persist(changes)
            case Send(name, message):
                self._check(name, message)
                stream = self._streams.get(name)
                if stream is not None and stream.whole:
                    stream.send(message)
            case StartWorker(name):
                self._start(name)
            case StartServer(name, memory):
                self._start_server(name, memory)
            case EndWorker(name, kill):
                worker = self.rows.servers.get(name) or self.workers[name]
                worker.asked = True
                self.clock.seen["killed by the master" if kill else "ended by the master"] += 1
                if kill and not worker.ended and "status" not in self.store:
                    self.only_if_hard(f"{name} is killed for nothing")
                if kill and isinstance(worker, SimulatedServer):
                    self.rows.lost = True
                if kill:
                    self.clock.soon(worker.end, -9, most=0.3)
                else:
                    self.clock.soon(worker.terminate, most=0.3)
            case Tell(event):
                if "WorldChanged" in event:
                    self.clock.seen["WorldChanged"] += 1
            case CountTasks(queue, done, total):
                self.clock.seen["CountTasks"] += 1
                if (done, total) != (self._stored_as_done(queue), self.store[f"tasks/{queue}"]):
                    raise BrokenRuleError(f"{done} of {total} tasks of {queue} are not what is stored")
            case EndJob():
                self._over(command)
            case _:
                raise BrokenRuleError(f"{command} is no command")

    def _stored_as_done(self, queue: str) -> int:
        return sum(key.startswith(f"tasks/{queue}/") for key in self.store)

    def _persist(self, changes: Mapping[str, Any]) -> None:
        for key, value in changes.items():
            if key == "version" and value <= self.store.get("version", 0):
                raise BrokenRuleError(f"version {value} comes after {self.store['version']}")
            if key.startswith("tasks/") and key in self.store:
                raise BrokenRuleError(f"{key} is accepted twice")
            if key.count("/") == 2 and (key.split("/")[1], int(key.split("/")[2])) not in self.done:
                raise BrokenRuleError(f"{key} is accepted, and nobody has done it")
            self.store[key] = value
            if key == "version":
                self._check_unfinished()
                self._wanted_servers[value] = self.store.get("servers", {"count": 0})["count"]

    def _check_unfinished(self) -> None:
        finished = (self.workers[name] for name in self._finished & self._streams.keys())
        if any(worker.alive and not worker.asked for worker in finished):
            raise BrokenRuleError("the world changes though somebody has trained to the end")

    def _check(self, name: str, message: object) -> None:
        if isinstance(message, Release):
            self._excluded.add(name)
        elif isinstance(message, Servers):
            self._check_list(message)
        elif isinstance(message, Prepare):
            self._check_servers(message)
            if message.version != self.store.get("version"):
                raise BrokenRuleError(f"version {message.version} is used before it is stored")
        elif isinstance(message, Commit):
            world = self.store.get("world", {})
            if world.get("version") != message.version:
                raise BrokenRuleError(f"world {message.version} runs before it is stored")
            if not set(world["members"]) <= self._prepared.get(message.version, set()):
                raise BrokenRuleError(f"world {message.version} runs, and not all are prepared")
            servers = {server for server, _ in world["servers"]}
            if servers & self._known_dead:
                raise BrokenRuleError(f"world {message.version} runs without {servers & self._known_dead}")
            states = [worker.state.step for member in world["members"] if (worker := self.workers[member]).alive]
            if message.step == NO_STATE and max(states, default=NO_STATE) > self.rings.checkpoint.step:
                if not self.rows.lost:
                    raise BrokenRuleError(f"world {message.version} begins anew, and a member has a state")
                self.clock.seen["went back"] += 1

    def _check_servers(self, prepare: Prepare) -> None:
        servers = {server.name for server in prepare.servers}
        if len(servers) != self._wanted_servers[prepare.version]:
            raise BrokenRuleError(f"world {prepare.version} has {len(servers)} servers, not what the strategy needs")
        if not servers <= self._heard - self._known_dead:
            raise BrokenRuleError(f"world {prepare.version} is to have servers that are not there")

    def _check_list(self, listed: Servers) -> None:
        if self._listed.setdefault(listed.version, listed) != listed:
            raise BrokenRuleError(f"list {listed.version} of servers is told in two ways")
        if listed.version != self.store["listed"]["version"]:
            raise BrokenRuleError(f"list {listed.version} of servers is used before it is stored")
        before = self._listed.get(listed.version - 1)
        if before is not None:
            stayed = set(before.servers) & set(listed.servers)
            if any(before.servers.index(each) != listed.servers.index(each) for each in stayed):
                raise BrokenRuleError(f"servers have other places in list {listed.version}")
            self.clock.seen["a successor"] += 1

    def _start(self, name: str) -> None:
        if name in self.workers:
            raise BrokenRuleError(f"{name} is used twice")
        if self.store.get("names", 0) <= int(name.removeprefix("worker-")):
            raise BrokenRuleError(f"{name} is used before it is stored")
        self.workers[name] = SimulatedWorker(self, name)
        target = self.master._sizing.target if self.master is not None else 0
        working = [
            worker
            for worker in self.workers.values()
            if not (worker.ended or worker.asked or worker.machine._leaving or worker.name in self._excluded)
        ]
        if len(working) > target:
            raise BrokenRuleError(f"{len(working)} workers where {target} are wanted")
        self.clock.soon(self._schedule)

    def _start_server(self, name: str, memory: int) -> None:
        if name in self.rows.servers:
            raise BrokenRuleError(f"{name} is used twice")
        needs = self.store["servers"]
        if needs["named"] <= int(name.removeprefix("ps-")) or memory != needs["memory"] or memory < self.needs.memory:
            raise BrokenRuleError(f"{name} is started with {memory} MiB, and {needs} is stored")
        server = self.rows.servers[name] = SimulatedServer(self, name, memory)
        serving = [
            each
            for each in self.rows.servers.values()
            if not (each.ended or each.asked or each.leaving or each.name in self._excluded)
        ]
        if len(serving) > needs["count"]:
            raise BrokenRuleError(f"{len(serving)} servers where {needs['count']} are wanted")
        self.clock.soon(server.run, most=1.0)

    # The cluster.

    def _schedule(self) -> None:
        running = sum(worker.alive for worker in self.workers.values())
        for worker in self.workers.values():
            if running < self.slots and not worker.alive and not worker.ended and not worker.launched:
                worker.launched = True
                running += 1
                self.clock.soon(worker.run, most=1.0)

    def process_changed(self, process: SimulatedProcess) -> None:
        """The cluster tells the master, if there is one."""
        self.clock.soon(self._tell_change, self._status(process), self.term)
        if process.ended:
            self.clock.soon(self._schedule)

    def _tell_change(self, change: ProcessChanged, term: int) -> None:
        if term == self.term and change.phase is Phase.ENDED:
            self._known_dead.add(change.name)
        self.tell(change, term)

    def _status(self, process: SimulatedProcess) -> ProcessChanged:
        name, server = process.name, isinstance(process, SimulatedServer)
        if process.ended:
            preempted, failure = process.preempted, self.failures.get(name)
            full = isinstance(process, SimulatedServer) and process.full
            code = self.exit_code[name]
            return ProcessChanged(name, Phase.ENDED, code, preempted, failure, server=server, out_of_memory=full)
        return ProcessChanged(name, Phase.RUNNING if process.alive else Phase.PENDING, server=server)

    def serve(self, listed: Servers) -> bool:
        """Whether a worker that knows of these servers can take a step alone."""
        servers = [self.rows.servers[server.name] for server in listed.servers]
        return bool(servers) and all(server.alive and not server.stopped for server in servers)

    def only_if_hard(self, what: str) -> None:
        """This may happen to jobs whose processes are killed or hang, and to no others."""
        if self.gentle:
            raise BrokenRuleError(what)

    # The end.

    def cancel(self) -> None:
        self.excused.add(Outcome.CANCELLED)
        self.tell(Cancelled("enough"), self.term)

    def _over(self, end: EndJob) -> None:
        self.end = end
        self.clock.seen[f"job {end.outcome}"] += 1
        left = [process.name for process in self.processes if not process.ended]
        if left:
            raise BrokenRuleError(f"the job is over, and {left} are left")
        if end.outcome not in self.excused:
            raise BrokenRuleError(f"the job {end.outcome}: {end.text}")
        if self.store["status"]["outcome"] != end.outcome:
            raise BrokenRuleError("the outcome is not stored")
        if end.outcome is Outcome.SUCCEEDED:
            for stage in self.program[:-1]:
                if stage is not None and not all(
                    f"tasks/{stage[0]}/{index}" in self.store for index in range(stage[1])
                ):
                    raise BrokenRuleError(f"the job has succeeded without all tasks of {stage[0]}")
