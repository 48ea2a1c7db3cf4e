"""A job's master with 1,000 workers: what heartbeats cost it, and how soon it decides when ten workers die at once.

    python -m benchmarks.scale [--workers N] [--rounds N]

The master is the real one, in a process of its own: streams, machine, timeline, embedded store. Its workers are stubs
in this process, each with a stream of its own and the real worker's machine (`membership.worker.WorkerMachine`), which
take no steps, and whose rings are a word: what is to be connected is connected, what is to stop has stopped. Its
cluster is a list.

First all workers join, and the master's CPU time is measured while they do nothing but show that they live. Then, in
each round, ten workers die: their streams end, the cluster says so, and the ring breaks at all others. The time counts
until the last of these is told to run in a world without the dead. Ten others are started, and join before the next
round. Exit code 1 if heartbeats cost more than half a core, or if the median round takes more than a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import psutil

from sqlflow_elastic.cluster import Cluster, Phase, Process, ProcessSpec, Role, Status, Watch
from sqlflow_elastic.elastic.folder import JobFolder, write_text
from sqlflow_elastic.elastic.membership import worker_protocol as protocol
from sqlflow_elastic.elastic.membership.messages import NO_STATE, Progress
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.elastic.membership.worker import WorkerMachine
from sqlflow_elastic.elastic.proto import TOKEN_KEY, master_pb2, master_pb2_grpc, wire
from sqlflow_elastic.elastic.timeline import Spans
from sqlflow_elastic.jobs.master.process import Master
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.jobs.state import JobState

CORE_BOUND = 0.5
DECISION_BOUND = 1.0
DEATHS = 10
HEARTBEAT_SECONDS = 10.0
STEP_SECONDS = 0.5
SECONDS = 120.0
TOKEN = "of no secret"
_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]


# The master's process.


class ListedWatch(Watch):
    """See `Cluster.watch`."""

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._changed: list[Status] = []

    def fileno(self) -> int:
        return self._event

    def next(self, seconds: float) -> list[Status]:
        with self._lock:
            changed, self._changed = self._changed, []
            if changed:
                os.eventfd_read(self._event)
        return changed

    def add(self, *statuses: Status) -> None:
        with self._lock:
            if not self._changed:
                os.eventfd_write(self._event, 1)
            self._changed += statuses

    def close(self) -> None:
        os.close(self._event)


class Listed(Cluster):
    """A cluster that is a list: what is started runs, and is told to the other process, which says what has ended."""

    def __init__(self) -> None:
        self.slots, self.address = 1_000_000, ""
        self._watch = ListedWatch()

    def serve(self) -> None:
        """Hear what has ended."""
        for line in sys.stdin:
            self._watch.add(*(self._status(name, Phase.ENDED) for name in json.loads(line)))

    def start(self, spec: ProcessSpec) -> Process:
        self._watch.add(self._status(spec.name, Phase.RUNNING))
        print(json.dumps(spec.name), flush=True)
        return None  # type: ignore[return-value]  # a master has no use for it

    def list(self, job: str | None = None) -> list[Status]:
        return []

    def watch(self, job: str | None = None) -> Watch:
        return self._watch

    def kill(self, job: str, name: str) -> None:
        self._watch.add(self._status(name, Phase.ENDED))

    def terminate(self, job: str, name: str, grace: float = 0.0) -> None:
        self.kill(job, name)

    def warm_up(self) -> None: ...

    def forget(self, job: str) -> None: ...

    def free(self) -> int:
        return self.slots

    def close(self) -> None: ...

    def _status(self, name: str, phase: Phase) -> Status:
        code = -9 if phase is Phase.ENDED else None
        return Status("", name, Role.WORKER, phase, 1, code, False, time.time(), None)


async def serve(folder: JobFolder) -> None:
    """Be the master."""
    cluster = Listed()
    threading.Thread(target=cluster.serve, daemon=True).start()
    with JobState(str(folder.state)) as state:
        await Master(folder, state, cluster, None).run()


# The stubs.


class Stub:
    """One worker.

    Attributes:
        machine: what decides.
        told: version and size of the world it was last told to prepare for, and when it was told to run in it; None
            before.
    """

    def __init__(self, name: str, crew: Crew) -> None:
        self.machine = WorkerMachine(name, "127.0.0.1:1")
        self.told: tuple[int, int, float | None] = (0, 0, None)
        self._crew = crew
        self._training = 0
        self._spans = Spans()
        self._channel = grpc.aio.insecure_channel(crew.address, options=_OPTIONS)
        self._call = master_pb2_grpc.MasterStub(self._channel).Join(metadata=((TOKEN_KEY, TOKEN),))
        self._outgoing: asyncio.Queue[Any] = asyncio.Queue()
        self._tasks = [asyncio.create_task(task()) for task in (self._write, self._read, self._beat)]

    def handle(self, event: protocol.WorkerEvent) -> None:
        """What happens to it."""
        for command in self.machine.handle(event, time.monotonic()):
            match command:
                case protocol.Say(message):
                    self._outgoing.put_nowait(wire.from_worker(message))
                case protocol.Connect(prepare):
                    self.told = (prepare.version, prepare.size, None)
                    self._soon(protocol.Connected(prepare.version, self._step))
                case protocol.Take(commit):
                    self.told = (*self.told[:2], time.monotonic())
                    self._training = commit.version
                    self._soon(protocol.StateTaken(commit.version, self._crew.step))
                case protocol.WantBoundary(version) if version == self._training:
                    self._soon(protocol.BoundaryReached(version, self._step))
                case protocol.AbortRing(version, reason) if version == self._training:
                    self.breaks(reason)

    def breaks(self, reason: str) -> None:
        """Its ring breaks, if it is in one."""
        if self._training:
            version, self._training = self._training, 0
            self._soon(protocol.RingBroke(version, self._step, None, reason))

    async def end(self) -> None:
        """Its process is killed."""
        for task in self._tasks:
            task.cancel()
        self._call.cancel()
        await self._channel.close()

    @property
    def _step(self) -> int:
        return NO_STATE if self.machine.step == NO_STATE else self._crew.step

    def _soon(self, event: protocol.WorkerEvent) -> None:
        asyncio.get_running_loop().call_soon(self.handle, event)

    async def _read(self) -> None:
        self.handle(protocol.StreamUp())
        self.handle(protocol.WarmedUp())
        async for packed in self._call:
            self.handle(protocol.Received(wire.master_message(packed)))

    async def _write(self) -> None:
        while True:
            await self._call.write(await self._outgoing.get())

    async def _beat(self) -> None:
        """As `Member` does, at the interval that the master has set."""
        await asyncio.sleep(random.uniform(0, 1))
        while True:
            version = self.machine.running
            speed = 1000.0 if version else 0.0
            progress = Progress(version, self._step, speed, 1 / 1000 if version else 0.0, 60.0, True, 3600.0)
            self._outgoing.put_nowait(wire.from_worker(progress))
            if version:
                self._spans.progress(self._step, speed)
            if spans := self._spans.drain():
                self._outgoing.put_nowait(master_pb2.FromWorker(spans=master_pb2.Spans(json=json.dumps(spans))))
            await asyncio.sleep(self.machine.heartbeat or 1.0)


@dataclass
class Crew:
    """The stubs, and their master's process."""

    process: asyncio.subprocess.Process
    address: str

    def __post_init__(self) -> None:
        #: Of all that are in a world.
        self.step = 0
        self.stubs: dict[str, Stub] = {}
        #: Asked for by the master and not started.
        self.wanted: list[str] = []
        self._tasks = [asyncio.create_task(task()) for task in (self._hear, self._take_steps)]

    async def whole(self, workers: int) -> float:
        """Start what is wanted, and wait until all run in one world. Returns when that was, by `time.monotonic`."""

        def started() -> bool:
            for name in self.wanted:
                self.stubs[name] = Stub(name, self)
            self.wanted.clear()
            return len(self.stubs) == workers and self._together(workers) is not None

        await self._wait(started, f"{workers} workers are in no world together")
        return time.monotonic()

    async def deaths(self, count: int) -> float:
        """So many die at once. Returns the seconds until all others are told to run in a world of theirs."""
        victims = random.sample(sorted(self.stubs), count)
        dead = [self.stubs.pop(name) for name in victims]
        begun = time.monotonic()
        ends = asyncio.gather(*(stub.end() for stub in dead))
        if self.process.stdin is not None:
            self.process.stdin.write(json.dumps(victims).encode() + b"\n")
        for stub in self.stubs.values():
            stub.breaks("a neighbour is gone")
        await ends
        await self._wait(lambda: self._together(len(self.stubs)) is not None, "the world was not changed")
        return (self._together(len(self.stubs)) or begun) - begun

    async def close(self) -> None:
        """End all stubs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(stub.end() for stub in self.stubs.values()))

    def _together(self, size: int) -> float | None:
        """When the last one was told to run in the one world that all are in; None if there is none of that size."""
        told = {stub.told[:2] for stub in self.stubs.values()}
        times = [stub.told[2] for stub in self.stubs.values()]
        if len(told) != 1 or next(iter(told))[1] != size:
            return None
        return max((at for at in times if at is not None), default=None) if None not in times else None

    async def _hear(self) -> None:
        if self.process.stdout is not None:
            async for line in self.process.stdout:
                self.wanted.append(json.loads(line))

    async def _take_steps(self) -> None:
        while True:
            await asyncio.sleep(STEP_SECONDS)
            self.step += 1

    async def _wait(self, condition: Callable[[], bool], missing: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > deadline or self.process.returncode is not None:
                raise RuntimeError(missing)
            await asyncio.sleep(0.02)


async def measure(workers: int, rounds: int) -> bool:
    """Start a master, and print what it does. Returns whether the bounds hold."""
    with tempfile.TemporaryDirectory() as path:
        folder = JobFolder(Path(path))
        write_text(folder.token, TOKEN)
        with JobState(str(folder.state)) as state:
            state.begin(JobRequest(JobKind.TRAIN, "many", "", workers, 64 * workers, Scaling.ALL))
        master = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.scale", "--master", path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            crew = await _crew(master, folder)
            held = await _measured(crew, workers, rounds)
            await crew.close()
        finally:
            master.kill()
            await master.wait()
    return held


async def _crew(master: asyncio.subprocess.Process, folder: JobFolder) -> Crew:
    deadline = time.monotonic() + SECONDS
    while not folder.master.exists():
        if time.monotonic() > deadline or master.returncode is not None:
            raise RuntimeError("the master does not listen")
        await asyncio.sleep(0.02)
    return Crew(master, json.loads(folder.master.read_text())["address"])


async def _measured(crew: Crew, workers: int, rounds: int) -> bool:
    master = psutil.Process(crew.process.pid)
    begun = time.monotonic()
    together = await crew.whole(workers)
    print(f"{workers} workers are in one world after {together - begun:.1f} s", flush=True)
    await asyncio.sleep(HEARTBEAT_SECONDS / 2)
    at, cpu = time.monotonic(), _cpu(master)
    await asyncio.sleep(HEARTBEAT_SECONDS)
    cores = (_cpu(master) - cpu) / (time.monotonic() - at)
    print(f"their heartbeats take {cores:.2f} cores of the master, at most {CORE_BOUND} is wanted", flush=True)
    decisions = []
    for _ in range(rounds):
        cpu = _cpu(master)
        decisions.append(await crew.deaths(DEATHS))
        spent = _cpu(master) - cpu
        print(f"  {DEATHS} deaths are decided in {decisions[-1]:.3f} s ({spent:.2f} s of CPU time)", flush=True)
        await crew.whole(workers)
    decision = statistics.median(decisions)
    print(f"{DEATHS} deaths are decided in {decision:.3f} s (median), at most {DECISION_BOUND:.0f} s is wanted")
    return cores <= CORE_BOUND and decision <= DECISION_BOUND


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--master", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if arguments.master:
        asyncio.run(serve(JobFolder(arguments.master)))
        return 0
    return 0 if asyncio.run(measure(arguments.workers, arguments.rounds)) else 1


if __name__ == "__main__":
    sys.exit(main())
