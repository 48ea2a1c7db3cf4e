"""What the scheduler decides: examples, and random histories in which its promises must hold after every event."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlflow_elastic.cluster import AlreadyStarted, Phase, Role, Status
from sqlflow_elastic.cluster.scheduler import (
    MAX_PROCESSES,
    Changed,
    Command,
    Forgotten,
    Key,
    Kill,
    Launch,
    Scheduler,
    Terminate,
)
from sqlflow_elastic.errors import JobError

GRACE = 30.0


class House:
    """Carries out what a scheduler decides, and checks at each command that it may be."""

    def __init__(self, slots: int) -> None:
        self.scheduler = Scheduler(slots, GRACE)
        self.clock = 0.0
        self.is_ready = False
        self.size: dict[Key, int] = {}
        self.priority: dict[Key, int] = {}
        self.role: dict[Key, Role] = {}
        self.waiting: list[Key] = []
        self.launched: list[Key] = []  # and not ended
        self.status: dict[Key, Status] = {}
        self.terminated: set[Key] = set()
        self.killed: set[Key] = set()
        self.over: set[str] = set()  # jobs that were asked to be forgotten
        self.forgotten: list[str] = []  # and are

    def now(self) -> float:
        self.clock += 1
        return self.clock

    def free(self) -> int:
        return self.scheduler.slots - sum(self.size[key] for key in self.launched)

    def queue(self) -> list[Key]:
        """Those that wait for slots, in the order in which they are to get them."""
        counted = [key for key in self.waiting if self.size[key]]
        return sorted(counted, key=lambda key: -self.priority[key])  # stable: first come, first served

    def submit(self, key: Key, slots: int = 1, priority: int = 0, role: Role = Role.WORKER) -> list[Command]:
        commands = self.scheduler.submit(key, role, priority, slots, self.now())
        self.size[key], self.priority[key], self.role[key] = slots, priority, role
        self.waiting.append(key)
        return self.carry_out(commands)

    def ready(self) -> list[Command]:
        self.is_ready = True
        return self.carry_out(self.scheduler.ready(self.now()))

    def lose(self) -> None:
        """The fork server dies, and all that it started."""
        self.is_ready = False
        self.scheduler.unready()
        for key in list(self.launched):
            self.end(key, -9)

    def end(self, key: Key, exit_code: int) -> list[Command]:
        self.launched.remove(key)
        return self.carry_out(self.scheduler.ended(key, exit_code, self.now()))

    def terminate(self, key: Key) -> list[Command]:
        return self.carry_out(self.scheduler.terminate(key, 1.0, self.now()))

    def kill(self, key: Key) -> list[Command]:
        return self.carry_out(self.scheduler.kill(key, self.now()))

    def fill(self, key: Key) -> list[Command]:
        """It takes more memory than it may."""
        return self.carry_out(self.scheduler.out_of_memory(key, self.now()))

    def forget(self, job: str) -> list[Command]:
        self.over.add(job)
        return self.carry_out(self.scheduler.forget(job, self.now()))

    def fail(self, failure: str) -> list[Command]:
        return self.carry_out(self.scheduler.fail(failure, self.now()))

    def carry_out(self, commands: Sequence[Command]) -> list[Command]:
        preempted: list[Key] = []
        for command in commands:
            match command:
                case Launch(key):
                    assert self.is_ready
                    assert not self.size[key] or key == self.queue()[0]
                    self.waiting.remove(key)
                    self.launched.append(key)
                    assert self.free() >= 0
                    self.carry_out(self.scheduler.launched(key, 1, self.now()))
                case Terminate(key):
                    assert key in self.launched
                    self.terminated.add(key)
                case Kill(key):
                    assert key in self.launched
                    assert key not in self.killed
                    self.killed.add(key)
                case Changed(status):
                    self.change(status)
                    if status.preempted and status.phase is Phase.RUNNING:
                        preempted.append((status.job, status.name))
                case Forgotten(job):
                    assert not [key for key in (*self.waiting, *self.launched) if key[0] == job]
                    assert self.scheduler.statuses(job) == []
                    self.forgotten.append(job)
        left = self.free() + sum(
            self.size[key] for key in self.launched if key in self.terminated or key in self.killed
        )
        for key in self.queue():
            if self.size[key] <= left:
                left -= self.size[key]
            else:
                break
        assert all(self.size[key] > left for key in preempted), "more than needed"
        return list(commands)

    def change(self, status: Status) -> None:
        key = status.job, status.name
        order = list(Phase)
        before = self.status.get(key)
        if before is not None:
            assert before.phase is not Phase.ENDED, "ended once"
            assert order.index(before.phase) <= order.index(status.phase)
            assert before.preempted <= status.preempted
        if status.preempted and not (before and before.preempted):
            assert self.size[key]
            assert self.role[key] is not Role.MASTER
            assert any(self.priority[key] < self.priority[other] for other in self.waiting)
        self.status[key] = status
        if status.phase is Phase.ENDED and key in self.waiting:
            self.waiting.remove(key)

    def check(self) -> None:
        """What holds between events."""
        assert self.scheduler.free == self.free() >= 0
        assert self.scheduler.waits == bool(self.waiting)
        known = {(status.job, status.name): status for status in self.scheduler.statuses()}
        assert set(self.waiting) | set(self.launched) == {
            key for key, status in known.items() if status.phase is not Phase.ENDED
        }
        assert all(self.status[key] == status for key, status in known.items())
        if self.is_ready and self.waiting:
            assert all(self.size[key] for key in self.waiting), "what takes no slot does not wait"
            assert self.size[self.queue()[0]] > self.free(), "nothing waits that fits and is next"


def started(commands: Sequence[Command]) -> list[str]:
    return [command.key[1] for command in commands if isinstance(command, Launch)]


def preempted(commands: Sequence[Command]) -> list[str]:
    return [command.key[1] for command in commands if isinstance(command, Terminate)]


@pytest.fixture
def house() -> House:
    house = House(slots=4)
    house.ready()
    return house


def fill(house: House, *processes: tuple[str, int, int]) -> None:
    for name, slots, priority in processes:
        house.submit(("running", name), slots, priority)


def test_nothing_starts_without_a_fork_server() -> None:
    house = House(slots=4)
    house.submit(("job", "late"))
    house.submit(("job", "first"), priority=1)
    assert not house.launched
    assert started(house.ready()) == ["first", "late"]


def test_the_more_urgent_first_and_among_equals_the_first_that_came(house: House) -> None:
    fill(house, ("all", 4, 9))
    for name, priority in (("c", 1), ("a", 2), ("d", 1), ("b", 2)):
        assert started(house.submit(("job", name), 1, priority)) == []
    assert started(house.end(("running", "all"), 0)) == ["a", "b", "c", "d"]


def test_a_small_process_does_not_overtake_a_large_one(house: House) -> None:
    fill(house, ("half", 2, 0))
    assert started(house.submit(("job", "large"), 3)) == []
    assert started(house.submit(("job", "small"), 1)) == []
    assert started(house.end(("running", "half"), 0)) == ["large", "small"]


def test_what_takes_no_slot_does_not_wait(house: House) -> None:
    fill(house, ("all", 4, 9))
    house.submit(("job", "waits"), 1, 5)
    assert started(house.submit(("job", "master"), 0, 0, Role.MASTER)) == ["master"]


def test_equal_priority_does_not_preempt(house: House) -> None:
    fill(house, ("all", 4, 1))
    assert preempted(house.submit(("job", "equal"), 1, 1)) == []


def test_the_least_urgent_and_of_them_the_youngest_goes(house: House) -> None:
    fill(house, ("old", 1, 0), ("young", 1, 0), ("urgent", 1, 1), ("most", 1, 2))
    assert preempted(house.submit(("job", "a"), 1, 2)) == ["young"]
    assert preempted(house.submit(("job", "b"), 1, 2)) == ["old"], "not young's slot again"
    assert preempted(house.submit(("job", "c"), 1, 2)) == ["urgent"]
    assert preempted(house.submit(("job", "d"), 1, 2)) == []
    assert started(house.end(("running", "young"), 0)) == ["a"]
    assert house.status["running", "young"].preempted


def test_nobody_goes_for_what_would_not_fit_even_then(house: House) -> None:
    fill(house, ("low", 1, 0), ("high", 3, 5))
    assert preempted(house.submit(("job", "large"), 2, 1)) == []


def test_nobody_goes_for_one_that_has_to_wait_for_another(house: House) -> None:
    fill(house, ("low", 1, 0), ("high", 3, 5))
    house.submit(("job", "large"), 4, 4)
    assert preempted(house.submit(("job", "behind"), 1, 3)) == []


def test_a_small_one_is_spared_if_a_large_one_has_to_go_anyway(house: House) -> None:
    fill(house, ("large", 3, 0), ("small", 1, 0))
    assert preempted(house.submit(("job", "three"), 3, 1)) == ["large"]


def test_who_is_leaving_makes_room_without_a_second_one_going(house: House) -> None:
    fill(house, ("leaves", 2, 0), ("stays", 2, 0))
    house.terminate(("running", "leaves"))
    assert preempted(house.submit(("job", "urgent"), 2, 1)) == []


def test_masters_are_not_preempted(house: House) -> None:
    house.submit(("job", "master"), 4, 0, Role.MASTER)
    assert preempted(house.submit(("job", "urgent"), 1, 9)) == []


def test_room_is_made_for_all_that_waits_at_once(house: House) -> None:
    fill(house, ("a", 1, 0), ("b", 1, 0), ("c", 1, 0), ("d", 1, 0))
    assert preempted(house.submit(("job", "x"), 1, 1)) == ["d"]
    assert preempted(house.submit(("job", "y"), 1, 1)) == ["c"]


def test_a_preempted_process_has_the_clusters_grace(house: House) -> None:
    fill(house, ("all", 4, 0))
    assert Terminate(("running", "all"), GRACE) in house.submit(("job", "urgent"), 1, 1)


def test_a_waiting_process_that_is_terminated_was_killed(house: House) -> None:
    fill(house, ("all", 4, 0))
    house.submit(("job", "waits"))
    house.terminate(("job", "waits"))
    assert house.status["job", "waits"].exit_code == -signal.SIGKILL
    assert started(house.end(("running", "all"), 0)) == []


def test_one_that_takes_too_much_memory_is_killed_once_and_that_is_told(house: House) -> None:
    house.submit(("job", "large"))
    house.fill(("job", "large"))
    assert house.killed == {("job", "large")}
    assert house.fill(("job", "large")) == []
    house.end(("job", "large"), -9)
    assert house.status["job", "large"].out_of_memory
    assert house.fill(("job", "large")) == []


def test_one_that_was_killed_before_did_not_end_for_its_memory(house: House) -> None:
    house.submit(("job", "large"))
    house.kill(("job", "large"))
    assert house.fill(("job", "large")) == []
    house.end(("job", "large"), -9)
    assert not house.status["job", "large"].out_of_memory


def test_servers_that_take_no_slot_are_not_preempted(house: House) -> None:
    house.submit(("job", "ps-0"), 0, 0, Role.SERVER)
    fill(house, ("low", 4, 0))
    assert preempted(house.submit(("job", "urgent"), 4, 9)) == ["low"]


def test_a_name_is_used_once(house: House) -> None:
    house.submit(("job", "one"))
    house.end(("job", "one"), 0)
    with pytest.raises(AlreadyStarted, match="process one of job job was started before"):
        house.submit(("job", "one"))


def test_a_forgotten_job_starts_nothing_more(house: House) -> None:
    house.submit(("job", "runs"))
    house.forget("job")
    assert house.killed == {("job", "runs")}
    assert house.forgotten == [], "not before it has ended"
    house.end(("job", "runs"), -9)
    assert house.forgotten == ["job"]
    with pytest.raises(JobError, match="the job is over"):
        house.submit(("job", "late"))


def test_a_process_too_large_for_the_cluster_is_refused(house: House) -> None:
    with pytest.raises(JobError, match="process huge of job job needs 5 slots; there are 4 in all"):
        house.submit(("job", "huge"), 5)


def test_what_waits_for_a_fork_server_that_cannot_be_had_fails() -> None:
    house = House(slots=4)
    house.submit(("job", "waits"))
    house.fail("no module")
    assert house.status["job", "waits"].failure == "no module"
    assert house.status["job", "waits"].exit_code is None


def test_the_number_of_known_processes_is_bounded() -> None:
    scheduler = Scheduler(1, GRACE)
    for number in range(MAX_PROCESSES):
        scheduler.submit(("job", str(number)), Role.WORKER, 0, 1, 0.0)
    with pytest.raises(JobError, match="forget the jobs"):
        scheduler.submit(("job", "one more"), Role.WORKER, 0, 1, 0.0)


JOBS = ("", "a", "b", "c")
SUBMIT = st.tuples(
    st.just("submit"),
    st.sampled_from(JOBS),
    st.sampled_from([0, 1, 1, 1, 2, 3, 9]),
    st.integers(0, 3),
    st.sampled_from([Role.WORKER, Role.WORKER, Role.SERVER, Role.PROGRAM, Role.MASTER]),
)
EVENTS = st.one_of(
    *[SUBMIT] * 6,
    st.tuples(st.sampled_from(["end", "end", "terminate", "kill", "fill"]), st.integers(0, 10)),
    st.one_of(
        st.tuples(st.sampled_from(["ready", "ready", "lose", "fail"]), st.integers(0, 10)),
        st.tuples(st.just("forget"), st.sampled_from(JOBS[1:])),
    ),
)
FULL = st.lists(st.tuples(st.sampled_from([1, 1, 2, 3]), st.integers(0, 2)), min_size=1, max_size=5)


@settings(max_examples=200, deadline=None)
@given(FULL, st.lists(EVENTS, min_size=10, max_size=60))
def test_in_any_history_the_promises_hold(full: list[tuple[int, int]], events: list[tuple[str, ...]]) -> None:
    house = House(slots=sum(slots for slots, _ in full))
    house.ready()
    fill(house, *((str(number), slots, priority) for number, (slots, priority) in enumerate(full)))
    for number, (event, *values) in enumerate(events):
        play(house, number, event, values)
        house.check()
    # In the end everything ends, and ends once.
    house.ready()
    while house.launched:
        house.end(house.launched[0], 0)
        house.check()
    assert not house.waiting
    assert all(status.phase is Phase.ENDED for status in house.status.values())


def play(house: House, number: int, event: str, values: list[str]) -> None:
    alive = [*house.waiting, *house.launched]
    match event, *values:
        case "submit", job, size, priority, role:
            try:
                house.submit((str(job), str(number)), int(size), int(priority), Role(role))
            except JobError:
                assert int(size) > house.scheduler.slots or job in house.over
        case "end", which if house.launched:
            house.end(house.launched[int(which) % len(house.launched)], 0)
        case "terminate", which if alive:
            house.terminate(alive[int(which) % len(alive)])
        case "kill", which if alive:
            house.kill(alive[int(which) % len(alive)])
        case "fill", which if alive:
            house.fill(alive[int(which) % len(alive)])
        case "ready", _ if not house.is_ready:
            house.ready()
        case "lose", _ if house.is_ready:
            house.lose()
        case "fail", _ if not house.is_ready:
            house.fail("no fork server")
            assert not house.waiting
        case "forget", job:
            house.forget(str(job))
            assert not [key for key in house.waiting if key[0] == job]
