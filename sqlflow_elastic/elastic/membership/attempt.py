"""A world from its first Prepare until the next one's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlflow_elastic.elastic.membership.messages import Commit, Server


@dataclass(eq=False)
class Attempt:
    """A world that is being made, or that runs.

    Attributes:
        version, members, shares, servers, rewind: as in `messages.Prepare`; ``members`` are names in the order of their
            ranks.
        planned: the members of the world before were asked to stop between two steps.
        old: those members of it who are members of the world before.
        commit: what was sent when all were prepared; None before.
        prepared: the steps of those who are prepared.
        broken: who said that it cannot go on in it.
        running: who takes steps in it.
        suspects: how often a member was said to be at fault.
        reason: of the first who broke, for people.
        lost: whether a member is lost for good.
        gathered: whether more losses were waited for.
        leaver: whether a member was asked to leave.
        hurried: whether a member stands still, so that the others have to.
        pause: the longest time that a member took no step, in seconds.
        placement: where the tables are in it; as in `messages.Needs`.
    """

    version: int
    members: tuple[str, ...]
    shares: tuple[float, ...] = ()
    planned: bool = False
    old: frozenset[str] = frozenset()
    commit: Commit | None = None
    prepared: dict[str, int] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    suspects: Counter[str] = field(default_factory=Counter)
    reason: str = ""
    lost: bool = False
    gathered: bool = False
    leaver: bool = False
    hurried: bool = False
    pause: float = 0.0
    servers: tuple[Server, ...] = ()
    rewind: bool = False
    placement: str = ""
    ranks: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.ranks = {name: rank for rank, name in enumerate(self.members)}

    @property
    def settled(self) -> bool:
        """Whether all members take steps in it."""
        return len(self.running) == len(self.members) and not self.broken and not self.lost

    @property
    def complete(self) -> bool:
        """Whether all members are prepared, and nothing stands against it."""
        return self.commit is None and len(self.prepared) == len(self.members) and not self.broken and not self.lost

    def breaks(self, name: str) -> None:
        """A member cannot go on in it."""
        self.prepared.pop(name, None)
        self.broken.add(name)

    def to_json(self) -> dict[str, Any]:
        """What a new master has to know of a world that was told to run."""
        if self.commit is None:
            raise ValueError(f"world {self.version} was not told to run")
        return {
            "version": self.version,
            "members": list(self.members),
            "shares": list(self.shares),
            "root": self.commit.root,
            "receivers": list(self.commit.receivers),
            "step": self.commit.step,
            "servers": [[server.name, server.address] for server in self.servers],
            "sources": [[server.name, server.address] for server in self.commit.sources],
            "placement": self.placement,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Attempt:
        """The inverse of `to_json`: nobody has said yet that it runs."""
        servers, sources = (tuple(Server(*one) for one in data.get(key, ())) for key in ("servers", "sources"))
        commit = Commit(data["version"], data["root"], tuple(data["receivers"]), data["step"], sources)
        return cls(
            data["version"],
            tuple(data["members"]),
            tuple(data["shares"]),
            commit=commit,
            servers=servers,
            placement=data["placement"],
        )
