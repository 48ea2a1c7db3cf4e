"""Members come, go and break, and the model does not notice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from sqlflow_elastic.elastic.comm import WorldBroken
from sqlflow_elastic.elastic.membership.messages import NO_STATE
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.elastic.trainer import Trainer
from sqlflow_elastic.errors import JobError
from sqlflow_elastic.events import Metrics, Progress
from tests.elastic import models
from tests.elastic.crews import Crew
from tests.elastic.worlds import Break, equal
from tests.waiting import wait_until

SHARES = (0.5, 0.2, 0.3)
#: In the undisturbed run: one to agree, two a step (sums, rows of tables), one a validation.
CALLS = 1 + 6 * 2 + 2


@cache
def full_crew() -> Crew:
    """Three members of a training with every kind of state there is."""
    return Crew(
        3,
        lambda: models.classifier(dropout=0.3, normalized=True, l2=0.01),
        models.classifier_rows(25),
        TrainSettings(epochs=2, batch_size=10, patience=5),
        sample_losses=models.sample_losses,
        metrics=["auc"],
        validation=models.classifier_rows(20, 1),
    )


@cache
def undisturbed() -> list[Any]:
    crew = full_crew()
    crew.rewind()
    assert crew.run(range(3), SHARES) == [True] * 3
    assert crew.world.calls == CALLS
    return crew.state(0)


@pytest.mark.parametrize("call", range(CALLS))
@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("given", [False, True])
def test_a_world_that_breaks_anywhere_and_goes_on_ends_with_the_same_bits(call: int, rank: int, given: bool) -> None:
    expected, crew = undisturbed(), full_crew()
    crew.rewind()
    results = crew.run(range(3), SHARES, broken=Break(rank, call, given))
    assert isinstance(results[rank], WorldBroken)
    steps = [trainer.step for trainer in crew.trainers]
    assert max(steps) - min(steps) <= 1
    states = [crew.state(member) for member in range(3)]
    crew.align(range(3))
    for member, (step, state) in enumerate(zip(steps, states, strict=True)):
        if step == max(steps):
            assert equal(crew.state(member), state)
    assert crew.run(range(3), SHARES) == [True] * 3
    for member in range(3):
        assert equal(crew.state(member), expected)


@pytest.mark.parametrize("call", range(1, CALLS))
def test_a_step_that_breaks_changes_nothing(call: int) -> None:
    crew = full_crew()
    crew.rewind()
    boundaries: dict[int, list[Any]] = {}

    def stops(member: int) -> Callable[[], bool]:
        def stop() -> bool:
            if member == 1:
                boundaries[crew.trainers[1].step] = crew.state(1)[1:]
            return False

        return stop

    crew.run(range(3), SHARES, stops, Break(1, call, given=True))
    # The header tells epochs, which validations end; the variables are those that the last step began with.
    if crew.trainers[1].step in boundaries:
        assert equal(crew.state(1)[1:], boundaries[crew.trainers[1].step])
    else:
        assert crew.trainers[1].step in (3, 6)


def test_every_sample_counts_once_whoever_comes_goes_and_breaks() -> None:
    rows, epochs = 103, 4
    settings = TrainSettings(epochs=epochs, batch_size=10, way="fused-4")
    _, dataset, _ = models.counter(rows)
    crew = Crew(3, lambda: models.counter(rows)[::2], dataset, settings, gradients=models.count_gradients)
    for seed in range(25):
        history = random.Random(seed)
        crew.rewind()
        holders = {0}
        while not all(crew.trainers[member].finished for member in holders):
            joiners = [member for member in range(3) if member not in holders and history.random() < 0.7]
            members = [*holders, *joiners]
            history.shuffle(members)
            furthest = max(holders, key=lambda member: crew.trainers[member].step)
            for member in members:
                if member not in holders or crew.trainers[member].step < crew.trainers[furthest].step:
                    crew.trainers[member].take_state(crew.trainers[furthest].state())
            asked = history.randint(0, 12)
            stopper = history.choice(members)

            def stops(member: int, stopper: int = stopper, asked: int = asked) -> Callable[[], bool]:
                answers: Iterator[bool] = iter([False] * asked)
                return lambda: member == stopper and next(answers, True)

            broken = Break(history.randrange(len(members)), history.randint(1, 24), history.random() < 0.5)
            breaks = len(members) > 1 and history.random() < 0.5
            shares = tuple(history.random() + 0.01 for _ in members)
            results = crew.run(members, shares, stops, broken if breaks else None)
            dead = {members[broken.rank]} if any(isinstance(result, WorldBroken) for result in results) else set()
            leavers = {member for member in members if history.random() < 0.3} if not dead else set()
            holders = (set(members) - dead - leavers) or set(members) - dead
        for member in holders:
            total, each = crew.models[member].seen()
            assert total == epochs * rows, seed
            assert (each == epochs).all(), seed
            assert crew.trainers[member].step == epochs * 11


def test_members_stop_together_when_any_of_them_is_to_stop() -> None:
    crew = full_crew()
    for stopper in range(3):
        crew.rewind()

        def stops(member: int, stopper: int = stopper) -> Callable[[], bool]:
            return lambda: member == stopper and crew.trainers[member].step == 1

        assert crew.run(range(3), SHARES, stops) == [False] * 3
        assert [trainer.step for trainer in crew.trainers] == [2, 2, 2]
        assert not any(trainer.finished for trainer in crew.trainers)
        assert equal(crew.state(0), crew.state(2))


def test_a_member_alone_stops_between_calls_and_a_finished_one_has_nothing_to_do() -> None:
    crew = full_crew()
    crew.rewind()
    trainer = crew.trainers[0]
    assert not trainer.run(None, (), lambda: True)
    assert trainer.step == 0
    assert trainer.run(None, (), lambda: False)
    assert trainer.finished
    assert trainer.run(None, (), lambda: True)


def test_only_the_first_rank_speaks() -> None:
    crew = full_crew()
    crew.rewind()
    crew.run([1, 0, 2], SHARES)
    assert not crew.events[0]
    assert not crew.events[2]
    kinds = [(event.split, event.step) for event in crew.events[1] if isinstance(event, Metrics)]
    assert kinds == [("train", 3), ("validation", 3), ("train", 6), ("validation", 6)]
    assert isinstance(crew.events[1][-1], Progress)


def test_the_first_rank_writes_checkpoints_and_the_next_first_one_goes_on_with_them(tmp_path: Path) -> None:
    settings = TrainSettings(epochs=2, batch_size=10, checkpoint_steps=2, checkpoint_secs=None)
    crew = Crew(2, models.perceptron, models.classifier_rows(50), settings, checkpoints=tmp_path)

    def written(*steps: int) -> bool:
        return sorted(path.name for path in tmp_path.iterdir()) == [f"step-{step:012d}.npz" for step in steps]

    crew.run([0, 1], (), lambda member: lambda: crew.trainers[member].step == 4)
    wait_until(lambda: written(2, 4), 20)
    crew.run([1, 0])
    wait_until(lambda: written(8, 10), 20)
    for trainer in crew.trainers:
        trainer.close()
    late, *_ = Crew(1, models.perceptron, models.classifier_rows(50), settings, checkpoints=tmp_path).trainers
    assert late.step == 10
    assert late.run(None, (), lambda: False)
    assert late.result().loss == crew.trainers[0].result().loss
    late.close()


def test_a_leaving_member_can_write_a_checkpoint_where_none_is_due(tmp_path: Path) -> None:
    settings = TrainSettings(epochs=2, batch_size=10, checkpoint_secs=None)
    crew = Crew(1, models.perceptron, models.classifier_rows(50), settings, checkpoints=tmp_path)
    crew.trainers[0].checkpoint()
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000000.npz"]
    crew.trainers[0].close()


def test_a_member_that_was_alone_before_a_larger_world_keeps_its_way_and_tells_it_to_others() -> None:
    settings = TrainSettings(epochs=40, batch_size=10, way="fused-4")
    crew = Crew(2, models.perceptron, models.classifier_rows(50), settings)

    def until(step: int) -> Callable[[int], Callable[[], bool]]:
        return lambda member: lambda: crew.trainers[member].step >= step

    crew.run([0], (), until(20))
    assert crew.trainers[0].way == "fused-4"
    traced = crew.traces
    crew.align([0, 1])
    crew.run([0, 1], (), until(40))
    traced_together = crew.traces - traced
    assert traced_together == 2
    crew.run([0], (), until(60))
    assert crew.trainers[0].way == "fused-4"
    assert crew.traces - traced == traced_together


def test_a_member_that_took_over_a_way_trains_while_it_is_compiled() -> None:
    def crew(way: str) -> Crew:
        return Crew(
            1, models.perceptron, models.classifier_rows(50), TrainSettings(epochs=10**6, batch_size=10, way=way)
        )

    (giver,), (taker,) = crew("xla-4").trainers, crew("auto").trainers
    giver.run(None, (), lambda: giver.step > 0)
    taker.take_state(giver.state())
    assert taker.way is None
    begun = taker.step
    assert not taker.run(None, (), lambda: taker.way is not None)
    assert taker.way == "xla-4"
    assert taker.step > begun + 4


def test_a_member_without_a_state_says_so() -> None:
    model, optimizers = models.perceptron()
    rows = models.classifier_rows(20)
    trainer = Trainer(model, models.class_gradients, optimizers, rows, TrainSettings(), emit=lambda event: None)
    assert trainer.step == NO_STATE
    assert not trainer.finished
    trainer.begin()
    assert trainer.step == 0


def test_speeds_are_known_after_a_worlds_first_steps() -> None:
    crew = full_crew()
    crew.rewind()
    crew.run(range(3), SHARES)
    for trainer in crew.trainers:
        speeds = trainer.speeds
        assert speeds.samples_per_second > 0
        assert speeds.sample_seconds > 0
        assert speeds.settled
        assert speeds.eta == 0


@pytest.mark.parametrize("damage", ["cut", "shape", "header", "missing", "none"])
def test_a_state_that_is_damaged_is_refused_and_changes_nothing(damage: str) -> None:
    crew = full_crew()
    crew.rewind()
    crew.run(range(3), SHARES)
    state = crew.state(0)
    wrong = {
        "cut": [state[0], state[1][:-1], *state[2:]],
        "shape": [state[0], state[2], state[1], *state[3:]],
        "header": [np.frombuffer(b"{}", np.uint8), *state[1:]],
        "missing": state[:-1],
        "none": [],
    }[damage]
    crew.trainers[1].take_state(crew._initial)
    before = crew.state(1)
    with pytest.raises(JobError, match="a state cannot be read"):
        crew.trainers[1].take_state(wrong)
    assert equal(crew.state(1), before)


def test_the_state_of_another_training_is_refused() -> None:
    rows = models.classifier_rows(25)
    others = [
        Crew(1, models.perceptron, rows, TrainSettings(batch_size=10)),
        Crew(1, models.perceptron, rows, TrainSettings(batch_size=10, seed=1)),
        Crew(1, models.classifier, rows, TrainSettings(batch_size=10)),
    ]
    for other in others[1:]:
        before = others[0].state(0)
        with pytest.raises(JobError, match="of another training"):
            others[0].trainers[0].take_state(other.trainers[0].state())
        assert equal(before, others[0].state(0))


def test_members_at_different_steps_do_not_go_on_together() -> None:
    crew = full_crew()
    crew.rewind()
    crew.run([0], (), lambda member: lambda: crew.trainers[0].step > 0)
    with pytest.raises(JobError, match="do not go on from the same step"):
        crew.run([0, 1])


def test_a_state_outlives_the_steps_after_it() -> None:
    crew = full_crew()
    crew.rewind()
    state = crew.trainers[0].state()
    copy = [buffer.copy() for buffer in state]
    crew.run(range(3), SHARES)
    assert equal(state, copy)
    crew.trainers[0].take_state(state)
    assert crew.trainers[0].step == 0


def test_a_state_that_was_taken_on_does_not_depend_on_the_buffers_it_came_in() -> None:
    crew = full_crew()
    crew.rewind()
    taker = crew.trainers[1]
    buffers = crew.state(0)
    taker.take_state(buffers)
    for buffer in buffers:
        buffer[...] = 1
    assert equal(crew.state(1), crew.state(0))


class Counting(keras.layers.Layer):  # type: ignore[misc]
    """Counts the rows it sees, in a variable of its own."""

    def build(self, shape: Any) -> None:
        self.seen = self.add_weight(name="seen", shape=(), dtype="int32", initializer="zeros", trainable=False)

    def call(self, inputs: Any) -> Any:
        self.seen.assign_add(tf.shape(inputs)[0])
        return inputs


class CountingByItself(Counting):
    """The same in a variable that Keras does not know."""

    def call(self, inputs: Any) -> Any:
        self.seen.value.assign_add(tf.shape(inputs)[0])
        return inputs


@pytest.mark.parametrize(
    ("layer", "message"),
    [(Counting, r"counts in .*seen.*train alone"), (CountingByItself, r"writes to TensorFlow variables.*train alone")],
)
def test_what_members_cannot_have_in_common_is_an_error_that_says_what_to_do(layer: Any, message: str) -> None:
    numbers = keras.Input((4,), name="numbers")
    ids = keras.Input((2,), dtype="int32", name="ids")
    model = keras.Model({"numbers": numbers, "ids": ids}, keras.layers.Dense(2)(layer()(numbers)))
    optimizers = [(keras.optimizers.SGD(), model.trainable_variables)]
    rows = models.classifier_rows(20)
    trainer = Trainer(model, models.class_gradients, optimizers, rows, TrainSettings(), emit=lambda event: None)
    with pytest.raises(JobError, match=message):
        trainer.warm_up()
