"""A watch of etcd: a thread that follows etcd's stream, and takes it up again after the last change it got."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import grpc
from pyetcd import etcdrpc
from pyetcd.etcdrpc import kv_pb2

from sqlflow_elastic.elastic.state.base import CALL_SECONDS, Change, HistoryLost, Watch, prefix_end
from sqlflow_elastic.elastic.state.etcd_client import EtcdClient
from sqlflow_elastic.errors import StoreUnavailable

_PAUSE_SECONDS = 0.1
#: So many changes are fetched before somebody asks for them; the rest stays in etcd.
_MOST_FETCHED = 1_000


class EtcdWatch(Watch):
    """The changes of the keys that begin with ``root + prefix``; `root` is not a part of what is given."""

    def __init__(self, client: EtcdClient, root: bytes, prefix: bytes, after: int | None) -> None:
        self._client = client
        self._root = len(root)
        self._begin = root + prefix
        self._end = prefix_end(self._begin)
        #: Guards what follows, and is notified when it changes.
        self._turn = threading.Condition()
        self._fetched: list[Change] = []
        self._trouble: str | None = None
        self._stream: Any = None
        self._closed = False
        try:
            found = self._range(keys_only=True, revision=after or 0)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.OUT_OF_RANGE:
                raise
            raise HistoryLost(f"{client.name} does not know the changes after {after}") from error
        self._revision: int = found.header.revision if after is None else after
        #: The keys that were there as far as the watch has got, so that it can tell that they are gone even where their
        #: deletion is forgotten.
        self._known: set[bytes] = {one.key for one in found.kvs}
        self._thread = threading.Thread(target=self._run, name="etcd-watch", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def next(self, seconds: float) -> list[Change]:
        """See `Watch.next`."""
        deadline = time.monotonic() + seconds
        with self._turn:
            if self._closed:
                raise ValueError("the watch is closed")
            while not self._fetched and not self._closed:
                patience = deadline - time.monotonic()
                if patience <= 0:
                    if self._trouble is not None:
                        raise StoreUnavailable(self._trouble)
                    return []
                self._turn.wait(patience)
            changes, self._fetched = self._fetched, []
            self._turn.notify_all()
            return changes

    def close(self) -> None:
        """See `Watch.close`."""
        with self._turn:
            self._closed = True
            if self._stream is not None:
                self._stream.cancel()
            self._turn.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(CALL_SECONDS + 1)

    def _run(self) -> None:
        while not self._closed:
            try:
                self._follow()
            except grpc.RpcError as error:
                self._tell(str(self._client.unavailable(error)))
            except StoreUnavailable as error:
                self._tell(str(error))
            except ValueError:
                # The store was closed.
                return
            with self._turn:
                self._turn.wait_for(lambda: self._closed, _PAUSE_SECONDS)

    def _follow(self) -> None:
        """Take what etcd sends until it ends or the watch is closed."""
        member = self._client.member()
        over = threading.Event()
        try:
            metadata = self._client.metadata(member, CALL_SECONDS)
            stream = member.watches.Watch(self._requests(over), metadata=metadata)
            with self._turn:
                self._stream = stream
                if self._closed:
                    stream.cancel()
            for response in stream:
                if response.compact_revision:
                    self._catch_up()
                    return
                if response.canceled:
                    # Perhaps for a token that etcd does not know any more.
                    self._client.forget_token()
                    raise StoreUnavailable(f"{self._client.name}: {response.cancel_reason}")
                self._tell(None)
                self._give(
                    (one.kv.key, None if one.type == kv_pb2.Event.DELETE else one.kv.value, one.kv.mod_revision)
                    for one in response.events
                )
        except grpc.RpcError as error:
            if not self._client.renew(error):
                self._client.failed(member)
            raise
        finally:
            over.set()
            if self._stream is not None:
                self._stream.cancel()

    def _requests(self, over: threading.Event) -> Iterator[Any]:
        create = etcdrpc.WatchCreateRequest(key=self._begin, range_end=self._end, start_revision=self._revision + 1)
        yield etcdrpc.WatchRequest(create_request=create)
        # etcd may take the end of the requests for the end of the watch.
        over.wait()

    def _catch_up(self) -> None:
        """Etcd has forgotten changes that were not fetched: find the last of each key."""
        found = self._range()
        written = sorted(
            ((one.key, one.value, one.mod_revision) for one in found.kvs if one.mod_revision > self._revision),
            key=lambda change: change[2],
        )
        gone = sorted(self._known - {one.key for one in found.kvs})
        self._give([*written, *((key, None, found.header.revision) for key in gone)])
        self._revision = found.header.revision

    def _give(self, changes: Iterable[tuple[bytes, bytes | None, int]]) -> None:
        """Hand changes to `next`; waits while enough of them lie there."""
        found = list(changes)
        with self._turn:
            self._turn.wait_for(lambda: self._closed or len(self._fetched) < _MOST_FETCHED)
            for key, value, revision in found:
                (self._known.discard if value is None else self._known.add)(key)
                self._fetched.append(Change(key[self._root :].decode(), value, revision))
                self._revision = revision
            self._turn.notify_all()

    def _range(self, **options: object) -> Any:
        request = etcdrpc.RangeRequest(key=self._begin, range_end=self._end, **options)
        return self._client.ask(lambda member: member.kv.Range, request)

    def _tell(self, trouble: str | None) -> None:
        with self._turn:
            self._trouble = trouble
