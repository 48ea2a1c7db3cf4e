"""What is done to simulated jobs, at any event of theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from sqlflow_elastic.elastic.membership.master import Outcome
from tests.elastic.membership.clockwork import BrokenRuleError, Clockwork
from tests.elastic.membership.simulated_server import SimulatedServer
from tests.elastic.membership.simulated_worker import SimulatedWorker
from tests.elastic.membership.simulation import MOST_EVENTS, MOST_SECONDS, Simulation

#: How often each kind is drawn, against the others.
HARD = {
    "kill": 5,
    "kill at work": 12,
    "terminate": 3,
    "preempt": 4,
    "stop": 4,
    "stuck": 4,
    "cut": 5,
    "master": 8,
    "master in a command": 10,
    "apart": 3,
    "more slots": 1,
    "user failure": 0.25,
    "exit code": 0.25,
    "cancel": 0.5,
    "all killed": 0.5,
    "kill server": 6,
    "full server": 1,
    "terminate server": 3,
    "stop server": 2,
    "cut server": 3,
    "servers killed": 0.5,
    "other number of servers": 1.5,
    "tables move": 3,
}
#: What costs a job nothing: no worker is killed for it, and no step is lost.
GENTLE = {
    "terminate": 4,
    "preempt": 4,
    "cut": 8,
    "master": 6,
    "master in a command": 8,
    "more slots": 1,
    "terminate server": 4,
    "cut server": 3,
    "other number of servers": 3,
    "tables move": 5,
}


def _kill(worker: SimulatedWorker) -> None:
    worker.end(-9)


def inject(simulation: Simulation, kind: str) -> None:
    """Let something happen, if there is anything it can happen to."""
    clock = simulation.clock
    alive = [worker for worker in simulation.workers.values() if worker.alive]
    if kind == "master":
        simulation.crash()
    elif kind == "master in a command":
        simulation.crash_at = clock.random.choice((0, 0, 1, 2, 3))
    elif kind == "more slots":
        simulation.slots += 1
    elif kind == "cancel":
        simulation.cancel()
    elif kind == "other number of servers":
        if not (simulation.needs.servers and simulation.needs.synchronous):
            return
        simulation.choose(clock.random.choice((1, 2, 3)), simulation.needs.placement)
    elif kind == "tables move":
        if not simulation.needs.placement:
            return
        if simulation.needs.placement == "servers" and clock.random.random() < 0.7:
            simulation.choose(0, "workers")
        else:
            placement = "servers" if simulation.needs.placement == "workers" else "some on servers"
            simulation.choose(clock.random.choice((1, 2, 3)), placement)
    elif "server" in kind:
        servers = [server for server in simulation.rows.servers.values() if server.alive]
        if not servers:
            return
        _inject_into_servers(clock, servers, kind)
    elif not alive:
        return
    elif kind == "all killed":
        for worker in alive:
            _kill(worker)
    elif kind in ("kill at work", "stuck"):
        at_work = [worker for worker in alive if worker.at_work]
        # If all main threads of a world hung, nobody could tell that from long steps.
        if not at_work or (kind == "stuck" and any(worker.stuck for worker in alive)):
            return
        _inject_into(simulation, clock.random.choice(at_work), alive, kind)
    else:
        _inject_into(simulation, clock.random.choice(alive), alive, kind)
    clock.seen[kind] += 1


def _inject_into(simulation: Simulation, worker: SimulatedWorker, alive: list[SimulatedWorker], kind: str) -> None:
    clock = simulation.clock
    match kind:
        case "kill" | "kill at work":
            _kill(worker)
        case "terminate":
            worker.terminate()
        case "preempt":
            worker.preempted = True
            worker.terminate()
        case "stop":
            worker.stopped = True
            if clock.random.random() < 0.5:
                clock.at(clock.now + clock.random.random() * 20, worker.proceed)
        case "stuck":
            worker.stuck = True
        case "cut":
            if worker.stream is not None:
                worker.stream.cut()
        case "apart":
            other = clock.random.choice(alive)
            pair = frozenset((worker.name, other.name))
            if len(pair) == 2:
                simulation.rings.apart.add(pair)
                worker.cut_off(other)
        case "user failure":
            simulation.excused.add(Outcome.FAILED)
            worker.fail()
        case "exit code":
            simulation.excused.add(Outcome.FAILED)
            worker.end(3)


def _inject_into_servers(clock: Clockwork, servers: list[SimulatedServer], kind: str) -> None:
    server = clock.random.choice(servers)
    match kind:
        case "kill server":
            server.end(-9)
        case "full server":
            server.runs_out()
        case "terminate server":
            server.terminate()
        case "stop server":
            server.stopped = True
            if clock.random.random() < 0.5:
                clock.at(clock.now + clock.random.random() * 20, server.proceed)
        case "cut server":
            if server.stream is not None:
                server.stream.cut()
        case "servers killed":
            for each in servers:
                each.end(-9)


def run(seed: int, plan: Sequence[tuple[int, str]] | None = None) -> Counter[str]:
    """One history.

    Args:
        plan: what is done to the job, each so many events after the one before; None for what the seed says.

    Returns: what happened, how often. Raises: BrokenRuleError, with the seed.
    """
    simulation = Simulation(seed)
    if plan is not None:
        simulation.gentle = False
    clock = simulation.clock
    try:
        upcoming = _plan(simulation) if plan is None else iter(plan)
        # From the start, or from the first step on.
        begun = plan is not None or clock.random.random() < 0.4
        gap, kind = next(upcoming, (MOST_EVENTS, ""))
        due = gap
        calm = 0.0
        while simulation.end is None:
            if not begun and clock.seen["steps"]:
                begun, due = True, clock.count + gap
            if begun and clock.count >= due and kind:
                inject(simulation, kind)
                gap, kind = next(upcoming, (MOST_EVENTS, ""))
                due = clock.count + gap
                calm = clock.now
            _go_on(simulation, calm)
    except Exception as error:
        raise BrokenRuleError(f"seed {seed}, after {clock.count} events and {clock.now:.3f} s: {error!r}") from error
    clock.seen["events"] += clock.count
    return clock.seen


def _go_on(simulation: Simulation, calm: float) -> None:
    """Let the next thing happen, if there is still hope."""
    clock = simulation.clock
    if not clock.step():
        raise BrokenRuleError("nothing happens any more")
    if clock.count > MOST_EVENTS or clock.now > calm + MOST_SECONDS:
        raise BrokenRuleError(f"no end after {clock.count} events and {clock.now:.0f} s")


def _plan(simulation: Simulation) -> Iterator[tuple[int, str]]:
    """Some failures, spread or close together."""
    random = simulation.clock.random
    kinds = GENTLE if simulation.gentle else HARD
    names, weights = list(kinds), list(kinds.values())
    for _ in range(random.choice((0, 1, 2, 3, 4, 6))):
        yield random.randrange(random.choice((4, 20, 60))), random.choices(names, weights)[0]
