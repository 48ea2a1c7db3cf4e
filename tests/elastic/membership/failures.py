"""What is done to simulated jobs, at any event of theirs."""

from __future__ import annotations

from collections import Counter

from sqlflow_elastic.elastic.membership.master import Outcome
from tests.elastic.membership.clockwork import Broken
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
}
#: What costs a job nothing: no worker is killed for it, and no step is lost.
GENTLE = {"terminate": 4, "preempt": 4, "cut": 8, "master": 6, "master in a command": 8, "more slots": 1}


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
    elif not alive:
        return
    elif kind == "all killed":
        for worker in alive:
            _kill(worker)
    elif kind in ("kill at work", "stuck"):
        at_work = [worker for worker in alive if worker.at_work]
        if not at_work:
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


def run(seed: int) -> Counter[str]:
    """One history. Returns what happened. Raises: Broken, with the seed."""
    simulation = Simulation(seed)
    clock = simulation.clock
    try:
        kinds = GENTLE if simulation.gentle else HARD
        names, weights = list(kinds), list(kinds.values())
        left = clock.random.choice((0, 1, 2, 3, 4, 6))
        # From the start, or from the first step on; spread, or close together.
        due = clock.random.randrange(1, 60) if clock.random.random() < 0.4 else MOST_EVENTS
        calm = 0.0
        while simulation.end is None:
            if due == MOST_EVENTS and clock.seen["steps"]:
                due = clock.count + clock.random.randrange(60)
            if left and clock.count >= due:
                left -= 1
                due = clock.count + clock.random.randrange(clock.random.choice((4, 20, 60)))
                inject(simulation, clock.random.choices(names, weights)[0])
                calm = clock.now
            if not clock.step():
                raise Broken("nothing happens any more")
            if clock.count > MOST_EVENTS or clock.now > calm + MOST_SECONDS:
                raise Broken(f"no end after {clock.count} events and {clock.now:.0f} s")
    except Exception as error:
        raise Broken(f"seed {seed}, after {clock.count} events and {clock.now:.3f} s: {error}") from error
    clock.seen["events"] += clock.count
    return clock.seen
