"""Which connections are in which world, at one server. No sockets, no clock.

A world begins when its root enters; members of it that are there before wait for that. Worlds of a lower version are
over once somebody of a higher one enters. A world that a member has left takes no more steps: its other members are
served until one of them waits for a step. A version has one world, but for a root that comes alone before it, to have
the rows of the world before saved. Workers that take steps alone have no world, but a version: of the servers that they
know of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Generic, TypeVar

from sqlflow_elastic.elastic.comm.base import Place

K = TypeVar("K")


class Entry(Enum):
    """What becomes of somebody who enters."""

    #: The world is over.
    OVER = auto()
    #: Until its root is there.
    WAITS = auto()
    #: The world is under way.
    JOINS = auto()
    #: It is the root: call `Gate.begin` when the server stands where the world begins.
    BEGINS = auto()


@dataclass
class Gate(Generic[K]):
    """See the module's page.

    Attributes:
        version: of the newest world that somebody entered; -1 before.
        members: of the world that is under way, by rank; none if none is.
        left: whether a member of that world is gone.
        lone: workers that take steps alone, by name.
    """

    version: int = -1
    members: dict[int, K] = field(default_factory=dict)
    left: bool = False
    lone: dict[str, K] = field(default_factory=dict)
    _waiting: dict[K, Place] = field(default_factory=dict)
    _size: int = 0
    _begun: set[int] = field(default_factory=set)

    def enters(self, who: K, place: Place, root: bool) -> tuple[Entry, list[K]]:
        """Somebody enters. Returns what becomes of it, and whose connections end by that."""
        if place.version < self.version:
            return Entry.OVER, []
        dropped = self._turn_to(place.version)
        for waiting in [each for each, own in self._waiting.items() if own == place]:
            # It has lost that connection.
            del self._waiting[waiting]
            dropped.append(waiting)
        if root:
            return Entry.BEGINS, [*dropped, *self._end()]
        if self.members and not self.left and place.size == self._size and place.rank not in self.members:
            self.members[place.rank] = who
            return Entry.JOINS, dropped
        if place.size in self._begun:
            return Entry.OVER, dropped
        self._waiting[who] = place
        return Entry.WAITS, dropped

    def joins(self, who: K, version: int, name: str) -> tuple[Entry, list[K]]:
        """A worker that takes steps alone enters. Returns what becomes of it, and whose connections end by that."""
        if version < self.version:
            return Entry.OVER, []
        dropped = self._turn_to(version)
        before = self.lone.pop(name, None)
        self.lone[name] = who
        return Entry.JOINS, dropped if before is None else [*dropped, before]

    def begin(self, who: K, place: Place) -> list[K]:
        """A root's world begins. Returns its members that are there."""
        same = {waiting: own.rank for waiting, own in self._waiting.items() if own.size == place.size}
        for waiting in same:
            del self._waiting[waiting]
        self._begun.add(place.size)
        self._size = place.size
        self.members = {place.rank: who} | {rank: waiting for waiting, rank in same.items()}
        return list(self.members.values())

    def leaves(self, who: K, awaited: bool) -> list[K]:
        """A connection has ended. Returns whose end by that: a member that others wait for takes its world with it."""
        self._waiting.pop(who, None)
        self.lone = {name: each for name, each in self.lone.items() if each is not who}
        if who not in self.members.values():
            return []
        self.members = {rank: each for rank, each in self.members.items() if each is not who}
        self.left = True
        return self._end() if awaited else []

    def _turn_to(self, version: int) -> list[K]:
        """Nobody of an earlier version stays."""
        if version == self.version:
            return []
        dropped = [*self._end(), *self._waiting, *self.lone.values()]
        self._waiting.clear()
        self._begun.clear()
        self.lone.clear()
        self.version = version
        return dropped

    def _end(self) -> list[K]:
        members, self.members, self.left = self.members, {}, False
        return list(members.values())
