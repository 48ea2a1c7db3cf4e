"""Who is in which world at a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlflow_elastic.elastic.comm.base import Place
from sqlflow_elastic.elastic.tables.gate import Entry, Gate


def place(version: int, rank: int, size: int) -> Place:
    return Place(version, rank, size, "")


def begin(gate: Gate[str], who: str, at: Place) -> list[str]:
    assert gate.enters(who, at, True)[0] is Entry.BEGINS
    return gate.begin(who, at)


def test_members_wait_for_their_root_and_join_afterwards() -> None:
    gate = Gate[str]()
    assert gate.enters("b", place(1, 1, 3), False) == (Entry.WAITS, [])
    assert sorted(begin(gate, "a", place(1, 0, 3))) == ["a", "b"]
    assert gate.enters("c", place(1, 2, 3), False) == (Entry.JOINS, [])
    assert gate.members == {0: "a", 1: "b", 2: "c"}


@pytest.mark.parametrize("awaited", [False, True])
def test_who_comes_to_a_world_that_a_member_has_left_is_too_late(awaited: bool) -> None:
    gate = Gate[str]()
    begin(gate, "a", place(1, 0, 3))
    gate.enters("b", place(1, 1, 3), False)
    assert gate.leaves("b", awaited) == (["a"] if awaited else [])
    assert gate.members == ({} if awaited else {0: "a"})
    assert gate.left is not awaited
    assert gate.enters("c", place(1, 2, 3), False) == (Entry.OVER, [])


def test_a_later_world_ends_all_earlier_ones() -> None:
    gate = Gate[str]()
    begin(gate, "a", place(1, 0, 2))
    gate.enters("w", place(1, 1, 3), False)
    entry, over = gate.enters("b", place(2, 1, 2), False)
    assert (entry, sorted(over)) == (Entry.WAITS, ["a", "w"])
    assert gate.enters("a", place(1, 0, 2), True) == (Entry.OVER, [])
    assert begin(gate, "c", place(2, 0, 2)) == ["c", "b"]


def test_a_root_that_comes_alone_first_neither_takes_nor_ends_those_who_wait() -> None:
    gate = Gate[str]()
    gate.enters("b", place(2, 1, 2), False)
    assert begin(gate, "a alone", place(2, 0, 1)) == ["a alone"]
    assert gate.leaves("a alone", True) == []
    assert begin(gate, "a", place(2, 0, 2)) == ["a", "b"]


def test_who_waits_may_go() -> None:
    gate = Gate[str]()
    gate.enters("b", place(1, 1, 2), False)
    assert gate.leaves("b", True) == []
    assert begin(gate, "a", place(1, 0, 2)) == ["a"]


Doings = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 3), st.booleans(), st.booleans(), st.booleans()),
    max_size=30,
)


@given(Doings)
def test_a_world_is_of_one_version_and_size_whoever_comes_and_goes(
    doings: list[tuple[int, int, int, bool, bool, bool]],
) -> None:
    gate = Gate[int]()
    places: dict[int, Place] = {}
    for who, (version, rank, size, root, leaves, awaited) in enumerate(doings):
        gone: list[int] = []
        if leaves and places:
            leaving = sorted(places)[rank % len(places)]
            gone = [leaving, *gate.leaves(leaving, awaited)]
        else:
            at = place(version, rank % size, size)
            entry, gone = gate.enters(who, at, root)
            assert who not in gone
            assert (entry is Entry.OVER) or at.version == gate.version
            if entry is not Entry.OVER:
                places[who] = at
            if entry is Entry.BEGINS:
                assert who in gate.begin(who, at)
        for each in gone:
            del places[each]  # once
        members = {each: places[each] for each in gate.members.values()}
        assert len({(at.version, at.size) for at in members.values()}) <= 1
        assert all(places[each].rank == rank for rank, each in gate.members.items())
        assert all(at.version == gate.version for at in places.values())
