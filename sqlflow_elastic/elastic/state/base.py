"""The contract of a state store: where a job's master keeps what the next master needs.

Guarantees, the same for the embedded store and for etcd:

- **Whole or not at all.** The changes of one `StateStore.write` are seen together or not at all, by every reader and
  every watch, whoever is killed and whenever.
- **Durable.** What `write` returned from is there after a kill or a power loss.
- **One order.** Every write that changes something has a revision higher than all before it. A key's revision is that
  of the write that gave it its value; a key that does not exist has the revision 0.
- **Compare and swap.** A write states the revisions it relies on; if one differs it changes nothing and raises
  `Conflict`. Of several writers that expect the same revision exactly one succeeds.
- **Leases.** A key written with a lease lives as long as the lease is refreshed, whatever happens to the process that
  wrote it. Its end is a deletion like any other.
- **Watches miss nothing.** A watch gives each change of its keys once, in the order of revisions, those of one write in
  one list, across restarts of the store. A store forgets old changes; a watch that lay still for so long gives, of the
  changes forgotten meanwhile, the last of each key.
- **Deadlines.** No call blocks longer than `CALL_SECONDS` (`Watch.next`: than it was told, plus that); threads that
  share a store may have to wait for each other as long again. Then, and when the store is damaged, full or refuses, a
  call raises `StoreUnavailable`. After that from `write` the changes may have been made, or may be made a moment later:
  write again with the same expectations, and at a `Conflict` read what is there. Every object can be used on: it works
  again when the store does.

To keep a picture of some keys: open the watch first, then `list`, then apply the changes whose revision is higher than
that of the entry. All objects may be used from several threads, none in a forked child.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType
from typing import Self

from sqlflow_elastic.errors import StoreUnavailable

#: The longest that a call waits for the store, in seconds.
CALL_SECONDS = 5.0
#: The most changes, and the most expectations, of one write: what etcd takes unless it is told otherwise.
MOST_CHANGES = 128
#: The most bytes of keys and values in one write.
MOST_BYTES = 1 << 20
#: The longest key, in bytes of UTF-8.
MOST_KEY_BYTES = 512

NOTHING_EXPECTED: Mapping[str, int] = MappingProxyType({})


class Conflict(Exception):  # noqa: N818 - somebody else was quicker, nothing is wrong
    """A write relied on a revision that is not the key's any more. Nothing was changed."""


class LeaseLost(Conflict):
    """The lease has expired or was revoked, and the keys written with it are gone. Nothing was changed."""


class HistoryLost(Exception):  # noqa: N818 - time went by, nothing is wrong
    """The store does not know the changes after that revision any more: watch from now on, then list."""


@dataclass(frozen=True)
class Entry:
    """A key and its value; `revision` is that of the write that gave it."""

    key: str
    value: bytes = field(repr=False)
    revision: int


@dataclass(frozen=True)
class Change:
    """What one write did to one key: its new value, or None where it was deleted."""

    key: str
    value: bytes | None = field(repr=False)
    revision: int

    @property
    def deleted(self) -> bool:
        """Whether the key is gone."""
        return self.value is None


class Lease(abc.ABC):
    """A time that runs out unless it is refreshed; keys written with it vanish then.

    In a `with` statement it is revoked at the end; where the store cannot be reached then, it runs out by itself.

    Attributes:
        seconds: how long after the last refresh it lasts: what was asked for, or more where the store has a least time
            (etcd: whole seconds, 2 or more).
    """

    seconds: float

    @abc.abstractmethod
    def refresh(self) -> None:
        """Begin the time anew. Blocks for one round trip.

        Raises:
            LeaseLost: it has run out or was revoked.
            StoreUnavailable: the store was not reached; the time runs on.
        """

    @abc.abstractmethod
    def revoke(self) -> None:
        """End it now and delete its keys, in one revision. Nothing happens if it has ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.revoke()
        except StoreUnavailable:
            return


class Watch(abc.ABC):
    """The changes of the keys with a prefix, one list after the other."""

    @abc.abstractmethod
    def next(self, seconds: float) -> list[Change]:
        """The changes since the last call, in order of revisions; each revision whole.

        Blocks until there is one, at most for so many seconds; then the list is empty. It is empty too, at once, when
        another thread closes the watch. With 0 it gives what is known now.

        Raises:
            StoreUnavailable: the store cannot be reached. Call again: the watch goes on after the last change it gave.
            ValueError: the watch was closed before the call.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """End the watch; it may be closed twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class StateStore(abc.ABC):
    """Keys and values with revisions: what this module promises.

    Keys are texts of 1 to `MOST_KEY_BYTES` bytes without NUL; values are bytes. Every method raises `StoreUnavailable`
    when the store does not answer in time, `ValueError` for arguments that break these rules and for a closed store.
    """

    @abc.abstractmethod
    def get(self, key: str) -> Entry | None:
        """The entry of a key as of now, or None where there is none."""

    @abc.abstractmethod
    def list(self, prefix: str) -> list[Entry]:
        """The entries whose keys begin with the prefix ("" for all), sorted by key, as of one moment."""

    @abc.abstractmethod
    def write(
        self,
        changes: Mapping[str, bytes | None],
        expect: Mapping[str, int] = NOTHING_EXPECTED,
        lease: Lease | None = None,
    ) -> int:
        """Make all the changes, if all expectations hold; return the revision. Durable when it returns.

        Args:
            changes: new values by key, None deletes; at most `MOST_CHANGES` with `MOST_BYTES` together.
            expect: the revisions that keys (those changed or others) must have, 0: must not exist.
            lease: of this store; the keys given values (one at least) vanish with it. Without one they stay, even if
                they had one.

        Returns:
            The revision of the write; the store's last one where nothing had to be changed.

        Raises:
            Conflict: an expectation was not met; nothing was changed.
            LeaseLost: the lease has ended; nothing was changed.
            StoreUnavailable: it is unknown whether the changes are made.
        """

    @abc.abstractmethod
    def watch(self, prefix: str, after: int | None = None) -> Watch:
        """The changes of keys with the prefix ("" for all) after a revision, without one from now on.

        Raises:
            HistoryLost: changes after that revision are forgotten, or it lies in the future.
        """

    @abc.abstractmethod
    def lease(self, seconds: float) -> Lease:
        """A new lease that lasts so many seconds (more than 0) unless it is refreshed."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give everything back; watches end, leases run on. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def encoded_key(key: str) -> bytes:
    """A key as bytes, checked."""
    data = encoded_prefix(key)
    if not data:
        raise ValueError("a key has at least one character")
    return data


def encoded_prefix(prefix: str) -> bytes:
    """The beginning of keys as bytes, checked; it may be empty."""
    data = prefix.encode()
    if len(data) > MOST_KEY_BYTES or b"\0" in data:
        raise ValueError(f"a key has at most {MOST_KEY_BYTES} bytes, none of them NUL: {prefix[:80]!r}")
    return data


def prefix_end(prefix: bytes) -> bytes:
    """The least bytes above all that begin with a prefix of UTF-8; above all there are for the empty prefix."""
    # UTF-8 has no byte 0xff, so the last byte can always be one higher.
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else b"\xff"


def check_write(changes: Mapping[str, bytes | None], expect: Mapping[str, int], lease: Lease | None) -> None:
    """Raise ValueError for a write that a store need not take."""
    if lease is not None and all(value is None for value in changes.values()):
        raise ValueError("a lease is for keys that get values")
    if len(changes) > MOST_CHANGES or len(expect) > MOST_CHANGES:
        raise ValueError(f"a write has at most {MOST_CHANGES} changes and as many expectations")
    size = sum(len(encoded_key(key)) + len(value or b"") for key, value in changes.items())
    if size > MOST_BYTES:
        raise ValueError(f"a write has at most {MOST_BYTES} bytes, this one {size}")
    for key, revision in expect.items():
        encoded_key(key)
        if revision < 0:
            raise ValueError(f"a revision is 0 or more, not {revision} ({key!r})")


def check_seconds(seconds: float) -> None:
    """Raise ValueError for what is no duration of a lease."""
    if not 0 < seconds <= 86_400:
        raise ValueError(f"a lease lasts more than 0 seconds and at most a day, not {seconds}")
