"""A worker of a job: its stream to the master, its ring, its tasks, and the loop that trains in changing worlds.

Two threads, which decide nothing. The main one runs the program and TensorFlow; where it trains or waits for tasks it
carries out orders, one after the other. The member thread has the stream and the clock, and can break off what the main
one waits in. What is to be done says `membership.worker.WorkerMachine`, which only the member thread calls.
"""

from __future__ import annotations

import ipaddress
import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, get_args

from sqlflow_elastic import events
from sqlflow_elastic.elastic.comm import Communicator, Endpoint, Place, WireDtype, WorldBroken
from sqlflow_elastic.elastic.cores import keep_to, kept_to, share
from sqlflow_elastic.elastic.folder import JobFolder
from sqlflow_elastic.elastic.lone_servers import LoneServers
from sqlflow_elastic.elastic.master_stream import Lost, MasterStream, Up
from sqlflow_elastic.elastic.membership import worker_protocol as protocol
from sqlflow_elastic.elastic.membership.messages import (
    NO_STATE,
    Commit,
    FromMaster,
    Prepare,
    Progress,
    Server,
    Told,
)
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.elastic.membership.staff import FIRST_WORKER
from sqlflow_elastic.elastic.membership.worker import WorkerMachine
from sqlflow_elastic.elastic.replica import Plans, Replica, Speeds
from sqlflow_elastic.elastic.strategy import Plan, most_servers
from sqlflow_elastic.elastic.tables.client import Session, enter
from sqlflow_elastic.elastic.tables.link import Link
from sqlflow_elastic.elastic.timeline import Spans
from sqlflow_elastic.errors import SQLFlowError

#: Environment variable: the name of this worker in its job.
WORKER_VARIABLE = "SQLFLOW_ELASTIC_WORKER"
#: Environment variable: how many workers the job may have.
MOST_VARIABLE = "SQLFLOW_ELASTIC_WORKERS"
#: Environment variable: how many of them it takes, a `Scaling`.
SCALING_VARIABLE = "SQLFLOW_ELASTIC_SCALING"
#: Environment variable: the numeric address at which the other workers reach this one; by default on this machine only.
HOST_VARIABLE = "SQLFLOW_ELASTIC_HOST"

_FIRST_HEARTBEAT = 0.5
#: A worker that waits so long for a task has nothing to do.
_IDLE_SECONDS = 0.05
_CLOSE_SECONDS = 5.0
#: How long servers may take to read their rows.
_ENTER_SECONDS = 1800.0

_FROM_MASTER = get_args(FromMaster)

Order: TypeAlias = protocol.Connect | protocol.Take | protocol.GiveTask | protocol.NoMoreTasks | protocol.Exit


class Exit(BaseException):
    """This worker has to end, in good order: `running` lets it."""


@dataclass(frozen=True)
class _Close:
    """The member thread ends."""


class Member:
    """This process as a worker of its job. All methods are for the main thread.

    Args:
        folder: the job's.
        name: as the master named it.

    Attributes:
        servers: for steps that wait for nobody.
        most: so many workers the job may have.
    """

    def __init__(self, folder: JobFolder, name: str) -> None:
        token = folder.token.read_text(encoding="utf-8")
        self.name = name
        self.spans = Spans()
        host = os.environ.get(HOST_VARIABLE, "127.0.0.1")
        self._one_machine = ipaddress.ip_address(host).is_loopback
        self._endpoint = Endpoint(token.encode(), host)
        self._machine = WorkerMachine(name, self._endpoint.address)
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._ring: Communicator | None = None
        self._aborted: tuple[int, str] = (0, "")
        self._token = token.encode()
        self.servers = LoneServers(self._token, name)
        self._links: list[Link] = []
        self._tables: Session | None = None
        #: Of the world that comes.
        self._servers: tuple[Server, ...] = ()
        self._boundary_of = 0
        self._replica: Replica | None = None
        self._plans: Plans | None = None
        self._warming: threading.Thread | None = None
        self.most = int(os.environ.get(MOST_VARIABLE, "1"))
        #: Whether worlds of several may come that the replica is not warm for.
        self._company = self.most > 1
        self._up = False
        self._stream = MasterStream(lambda: master_address(folder.master), token, self._inbox.put)
        self._cores = os.sched_getaffinity(0)
        #: Whether it has threads for cores that others may come to share: one that begins alone may stay alone.
        self.takes_all_cores = self._one_machine and self._company and name == FIRST_WORKER and not _takes_all()
        if self._one_machine and self._company and not self.takes_all_cores:
            # Before TensorFlow counts them.
            keep_to(share(sorted(self._cores), os.getpid() % self.most, self.most))
        # The last, as it uses all the others.
        self._thread = threading.Thread(target=self._serve, name="member", daemon=True)
        self._thread.start()

    @property
    def most_servers(self) -> int:
        """Of a job that nobody has told how many; as many as workers where they are on machines of their own."""
        return most_servers(len(self._cores), self.most) if self._one_machine else self.most

    def tell(self, event: events.Event) -> None:
        """An event for the session."""
        self._inbox.put(protocol.Say(Told(events.to_json(event))))

    @property
    def number(self) -> int:
        """From 0 on, another one at each worker that the job has ever had."""
        return int(self.name.rpartition("-")[2])

    def tasks(self, name: str, total: int, idles: Callable[[], None] = lambda: None) -> Iterator[int]:
        """The tasks of a queue that fall to this worker; see `running.Run.tasks`."""
        while True:
            self._inbox.put(protocol.WantsTask(name, total))
            order = self._next_order(idles=idles)
            if not isinstance(order, protocol.GiveTask):
                return
            with self.spans.span("tasks", f"{name} {order.index}"):
                yield order.index
            self._inbox.put(protocol.DidTask(name, order.index))

    def train(self, replica: Replica, wire: WireDtype | None = None, plans: Plans | None = None) -> None:
        """Train to the end, in whatever worlds there are.

        Args:
            replica: what is trained.
            wire: what gradients travel in.
            plans: who makes it anew where tables move; None for a training whose tables stay where they are.

        Raises: what `Replica.run` raises, but `WorldBroken`.
        """
        self._replica, self._plans = replica, plans
        del replica  # there may be another one later, and no room for both
        keep_to(self._cores)
        # The first one has nobody to keep waiting: it begins, and warms up for company aside.
        if self._company and self.name != FIRST_WORKER:
            self._warm_up(self._trained)
        self._inbox.put(protocol.WarmedUp())
        shares: tuple[float, ...] = ()
        try:
            while True:
                match self._next_order(trains=True):
                    case protocol.Connect(prepare):
                        shares = prepare.shares
                        if plans is not None and plans.differs(prepare.plan):
                            self._move(prepare, plans)
                        self._connect(prepare, wire, self._trained)
                    case protocol.Take(commit):
                        if self._take(commit, shares, self._trained):
                            return
        finally:
            self._close()

    def chosen(self, plan: Plan) -> None:
        """The strategy of the training is chosen; before `train`."""
        self._inbox.put(protocol.Chosen(plan.needs))

    def completed(self) -> NoReturn:
        """The job has its result: waits until the master knows, then the process ends."""
        self._inbox.put(protocol.AllDone())
        self._await_end()

    def failed(self, error: SQLFlowError) -> NoReturn:
        """An error that every worker would meet: waits until the master knows, then the process ends."""
        self._inbox.put(protocol.UserFailed(events.to_json(events.Failed(error))))
        self._await_end()

    def terminate(self) -> None:
        """SIGTERM. In training it leaves when all members stand between two steps, else it ends at once.

        For signal handlers.
        """
        self._inbox.put(protocol.Terminated())

    def close(self) -> None:
        """Say what is to be said, then end threads and sockets; takes seconds at most."""
        self._inbox.put(_Close())
        self._thread.join(_CLOSE_SECONDS)
        self._stream.close()
        self._endpoint.close()

    @property
    def _trained(self) -> Replica:
        """What is trained."""
        assert self._replica is not None  # noqa: S101 - it is called in training
        return self._replica

    def _move(self, prepare: Prepare, plans: Plans) -> None:
        """Make the replica of another plan. Its state will come from a checkpoint."""
        with self.spans.span("work", "move tables"):
            if prepare.rank == 0 and self._trained.step != NO_STATE:
                self._trained.checkpoint()
            if self._warming is not None:
                self._warming.join()  # it builds graphs, as what follows does
                self._warming = None
            self._close()
            self._replica = None
            self._replica = plans.take(prepare.plan, leads=prepare.rank == 0)
            self._company = self.most > 1
        if prepare.size > 1:
            self._warm_up(self._trained)

    def _close(self) -> None:
        """End what the replica that is trained uses."""
        self._close_ring()
        self._close_tables()
        if self._replica is not None:
            self._replica.close()

    def _next_order(self, *, trains: bool = False, idles: Callable[[], None] = lambda: None) -> Order:
        """Wait for an order; ``idles`` is called if that takes time. Who ``trains`` has a state to write at its end.

        No deadline: the machine sees to it that one comes. Raises: Exit.
        """
        try:
            order = self._orders.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            idles()
            order = self._orders.get()
        if isinstance(order, protocol.Exit):
            if order.checkpoint and trains:
                self._trained.checkpoint()
            raise Exit
        return order

    def _warm_up(self, replica: Replica) -> None:
        self._company = False
        with self.spans.span("warming", "warm up"):
            replica.warm_up()

    def _await_end(self) -> NoReturn:
        while True:
            self._next_order()

    def _connect(self, prepare: Prepare, wire: WireDtype | None, replica: Replica) -> None:
        self._close_ring()
        self._servers = prepare.servers
        place = Place(prepare.version, prepare.rank, prepare.size, prepare.next)
        try:
            with self.spans.span("work", f"connect to world {prepare.version}"):
                ring = self._endpoint.connect(place, prepare.seconds, wire)
        except WorldBroken as broken:
            self._inbox.put(protocol.ConnectFailed(prepare.version, broken.suspect, broken.reason))
            return
        with self._lock:
            self._ring = ring
            aborted, reason = self._aborted
            if aborted >= prepare.version:
                ring.abort(reason)
        self._inbox.put(protocol.Connected(prepare.version, replica.step))

    def _take(self, commit: Commit, shares: tuple[float, ...], replica: Replica) -> bool:
        """Take on the root's state, then take steps. Returns whether training is at its end."""
        ring = self._ring
        if ring is None:
            raise RuntimeError(f"told to run in world {commit.version} without a ring")
        version = commit.version
        stepped = time.monotonic()

        def stop() -> bool:
            nonlocal stepped
            stepped = time.monotonic()  # it is asked before each step
            return self._boundary_of >= version

        try:
            with self.spans.span("work", f"state of world {version}"):
                self._share_state(ring, commit, replica)
                self._enter(ring.place, commit, replica)
            self._inbox.put(protocol.StateTaken(version, replica.step))
            if self._company:
                self._company = False
                self._warming = threading.Thread(target=self._warm_up, args=(replica,), name="warming", daemon=True)
                self._warming.start()
            self.spans.progress(replica.step)
            finished = self._run(ring, shares, stop, replica)
        except WorldBroken as broken:
            waited = time.monotonic() - stepped
            self._inbox.put(protocol.RingBroke(version, replica.step, broken.suspect, broken.reason, waited))
            return False
        finally:
            self.spans.pause(replica.step)
        if finished:
            self._inbox.put(protocol.TrainingDone(replica.step))
        else:
            self._inbox.put(protocol.BoundaryReached(version, replica.step))
        return finished

    def _run(self, ring: Communicator, shares: tuple[float, ...], stop: Callable[[], bool], replica: Replica) -> bool:
        place = ring.place
        if place.size == 1:
            return replica.run(None, shares, stop, self._tables)
        if not self._one_machine:
            return replica.run(ring, shares, stop, self._tables)
        with kept_to(share(sorted(self._cores), place.rank, place.size), self._cores):
            return replica.run(ring, shares, stop, self._tables)

    def _enter(self, place: Place, commit: Commit, replica: Replica) -> None:
        """Connect to the servers; the root brings them to the members' step."""
        if not replica.table_specs:
            return
        self._close_tables()
        root = place.rank == commit.root
        if root and commit.sources:
            # Rows move from servers to others by a snapshot.
            alone = Place(place.version, 0, 1, "")
            self._tables = self._opened(commit.sources, alone, replica, root=True)
            self._tables.snapshot(replica.step)
            self._close_tables()
        self._tables = self._opened(self._servers, place, replica, root=root)

    def _opened(self, servers: tuple[Server, ...], place: Place, replica: Replica, *, root: bool) -> Session:
        try:
            return enter(
                self._token,
                [(server.name, server.address) for server in servers],
                replica.table_specs,
                place,
                replica.step,
                root=root,
                new=replica.tables_are_new,
                seconds=_ENTER_SECONDS,
                opened=self._linked,
            )
        except BaseException:
            self._links = []
            raise

    def _linked(self, link: Link) -> None:
        """A connection to a server that an abort has to reach."""
        with self._lock:
            self._links = [*self._links, link]

    def _close_tables(self) -> None:
        with self._lock:
            tables, self._tables, self._links = self._tables, None, []
        if tables is not None:
            tables.close()

    def _share_state(self, ring: Communicator, commit: Commit, replica: Replica) -> None:
        is_root = ring.place.rank == commit.root
        if is_root and commit.step == NO_STATE:
            replica.begin()
        if commit.receivers:
            payload = replica.state() if is_root else None
            received = ring.broadcast(payload, commit.root, commit.receivers)
            if received is not None:
                replica.take_state(received)
        if commit.sources:
            # Servers that rows have moved to cannot go back a step: first, nobody is left who would need it.
            ring.allgather(b"")

    def _close_ring(self) -> None:
        with self._lock:
            ring, self._ring = self._ring, None
        if ring is not None:
            ring.close()

    # The member thread.

    def _serve(self) -> None:
        beat = time.monotonic()
        try:
            while True:
                now = time.monotonic()
                if now >= beat:
                    beat = now + (self._machine.heartbeat or _FIRST_HEARTBEAT)
                    self._beat()
                wake = min(beat, self._machine.next_wake)
                try:
                    event = self._inbox.get(timeout=max(0.0, wake - now))
                except queue.Empty:
                    event = protocol.Tick()
                if isinstance(event, _Close):
                    return
                for command in self._commands(event):
                    self._execute(command)
        except BaseException:  # noqa: BLE001 - a bug: without this thread the process would stand there for ever
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    def _commands(self, event: Any) -> list[protocol.WorkerCommand]:
        now = time.monotonic()
        match event:
            case protocol.Say():
                return [event]
            case Up():
                self._up = True
                return self._machine.handle(protocol.StreamUp(), now)
            case Lost():
                self._up = False
                return self._machine.handle(protocol.StreamLost(), now)
        if isinstance(event, _FROM_MASTER):
            event = protocol.Received(event)
        return self._machine.handle(event, now)

    def _beat(self) -> None:
        if not self._up:
            return
        replica, version = self._replica, self._machine.running
        speeds = Speeds() if replica is None or not version else replica.speeds
        step = NO_STATE if replica is None else replica.step
        self._stream.say(
            Progress(
                version,
                step,
                speeds.samples_per_second,
                speeds.sample_seconds,
                speeds.measured,
                speeds.settled,
                speeds.eta,
            )
        )
        if version:
            self.spans.progress(step, speeds.samples_per_second)
            self._reconsider()
        if spans := self.spans.drain():
            self._stream.say_spans(json.dumps(spans))

    def _reconsider(self) -> None:
        """Rank 0 looks whether another plan is better for the world that takes steps."""
        ring, replica, plans = self._ring, self._replica, self._plans
        if ring is None or ring.place.rank != 0 or replica is None or plans is None:
            return
        needs = plans.better(ring.place.size, replica)
        if needs is not None:
            for command in self._commands(protocol.Reconsidered(needs)):
                self._execute(command)

    def _execute(self, command: protocol.WorkerCommand) -> None:
        match command:
            case protocol.Say(message):
                if self._up:
                    self._stream.say(message)
            case protocol.CancelConnect(version):
                self._endpoint.cancel(version)
            case protocol.WantBoundary(version):
                self._boundary_of = version
            case protocol.AbortRing(version, reason):
                with self._lock:
                    self._aborted = (version, reason)
                    if self._ring is not None and self._ring.place.version <= version:
                        self._ring.abort(reason)
                        for link in self._links:
                            link.abort(reason)
            case protocol.UseServers(servers):
                self.servers.take(servers)
            case protocol.Exit(checkpoint=False):
                self._stream.close()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(0)
            case _:
                self._orders.put(command)


def _takes_all() -> bool:
    """Whether a job takes all workers that it may have."""
    return os.environ.get(SCALING_VARIABLE) == Scaling.ALL


def master_address(path: Path) -> str | None:
    """Where the master is, by the job's file for that; None while there is none."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
