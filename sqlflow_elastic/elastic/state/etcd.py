"""The state store of a cluster: etcd 3.4 or newer.

All keys of the store begin with the URL's prefix. A write is one transaction of etcd, its revision etcd's own (so that
revisions grow by more than one when others use the same etcd). etcd forgets old changes when it is told to compact.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from typing import Any

import grpc
from pyetcd import etcdrpc

from sqlflow_elastic.elastic.state.base import (
    NOTHING_EXPECTED,
    Conflict,
    Entry,
    Lease,
    LeaseLost,
    StateStore,
    Watch,
    check_seconds,
    check_write,
    encoded_key,
    encoded_prefix,
    prefix_end,
)
from sqlflow_elastic.elastic.state.etcd_address import EtcdAddress
from sqlflow_elastic.elastic.state.etcd_client import EtcdClient, EtcdMember
from sqlflow_elastic.elastic.state.etcd_watch import EtcdWatch


class EtcdStore(StateStore):
    """A state store in etcd.

    Args:
        url: ``etcd://[user:password@]host[:port][,host[:port]…][/prefix]``, or ``etcds://`` with TLS.
    """

    def __init__(self, url: str) -> None:
        address = EtcdAddress.parse(url)
        self._prefix = address.prefix.encode()
        self._client = EtcdClient(address)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._watches: list[EtcdWatch] = []
        try:
            self._range(self._prefix, limit=1)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"EtcdStore({self._client.name!r}, prefix={self._prefix.decode()!r})"

    def get(self, key: str) -> Entry | None:
        """See `StateStore.get`."""
        found = self._range(self._prefix + encoded_key(key)).kvs
        return self._entry(found[0]) if found else None

    def list(self, prefix: str) -> list[Entry]:
        """See `StateStore.list`."""
        begin = self._prefix + encoded_prefix(prefix)
        # etcd gives ranges in the order of keys.
        return [self._entry(one) for one in self._range(begin, range_end=prefix_end(begin)).kvs]

    def write(
        self,
        changes: Mapping[str, bytes | None],
        expect: Mapping[str, int] = NOTHING_EXPECTED,
        lease: Lease | None = None,
    ) -> int:
        """See `StateStore.write`."""
        check_write(changes, expect, lease)
        number = 0
        if lease is not None:
            if not isinstance(lease, EtcdLease) or lease.client is not self._client:
                raise ValueError("the lease is one of another store")
            number = lease.number
        request = etcdrpc.TxnRequest(
            compare=[
                etcdrpc.Compare(
                    result=etcdrpc.Compare.EQUAL,
                    target=etcdrpc.Compare.MOD,
                    key=self._prefix + encoded_key(key),
                    mod_revision=revision,
                )
                for key, revision in expect.items()
            ],
            success=[_operation(self._prefix + encoded_key(key), value, number) for key, value in changes.items()],
            failure=[
                etcdrpc.RequestOp(
                    request_range=etcdrpc.RangeRequest(key=self._prefix + encoded_key(key), keys_only=True)
                )
                for key in expect
            ],
        )
        self._check_process()
        try:
            answer = self._client.tell(lambda member: member.kv.Txn, request)
        except grpc.RpcError as error:
            raise _lost(error) from error
        if not answer.succeeded:
            for (key, revision), response in zip(expect.items(), answer.responses, strict=True):
                found = response.response_range.kvs
                if revision != (found[0].mod_revision if found else 0):
                    raise Conflict(f"{key!r} has the revision {found[0].mod_revision if found else 0}, not {revision}")
        written: int = answer.header.revision
        return written

    def watch(self, prefix: str, after: int | None = None) -> Watch:
        """See `StateStore.watch`."""
        self._check_process()
        watch = EtcdWatch(self._client, self._prefix, encoded_prefix(prefix), after)
        with self._lock:
            self._watches = [*(one for one in self._watches if not one.closed), watch]
        return watch

    def lease(self, seconds: float) -> Lease:
        """See `StateStore.lease`."""
        check_seconds(seconds)
        self._check_process()
        return EtcdLease(self._client, seconds)

    def close(self) -> None:
        """See `StateStore.close`."""
        with self._lock:
            watches, self._watches = self._watches, []
        for watch in watches:
            watch.close()
        self._client.close()

    def _range(self, begin: bytes, **options: object) -> Any:
        self._check_process()
        return self._client.ask(lambda member: member.kv.Range, etcdrpc.RangeRequest(key=begin, **options))

    def _entry(self, found: Any) -> Entry:
        return Entry(found.key[len(self._prefix) :].decode(), found.value, found.mod_revision)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise ValueError("a state store is not for forked children: open one there")


class EtcdLease(Lease):
    """A lease of etcd."""

    def __init__(self, client: EtcdClient, seconds: float) -> None:
        self.client = client
        request = etcdrpc.LeaseGrantRequest(TTL=math.ceil(seconds))
        granted = client.ask(lambda member: member.leases.LeaseGrant, request)
        self.number: int = granted.ID
        self.seconds = float(granted.TTL)

    def refresh(self) -> None:
        """See `Lease.refresh`."""
        if not self.client.ask(_keep_alive, etcdrpc.LeaseKeepAliveRequest(ID=self.number)).TTL:
            raise LeaseLost("the lease has ended")

    def revoke(self) -> None:
        """See `Lease.revoke`."""
        try:
            self.client.ask(lambda member: member.leases.LeaseRevoke, etcdrpc.LeaseRevokeRequest(ID=self.number))
        except grpc.RpcError as error:
            _lost(error)


def _operation(key: bytes, value: bytes | None, lease: int) -> Any:
    if value is None:
        return etcdrpc.RequestOp(request_delete_range=etcdrpc.DeleteRangeRequest(key=key))
    return etcdrpc.RequestOp(request_put=etcdrpc.PutRequest(key=key, value=value, lease=lease))


def _keep_alive(member: EtcdMember) -> Any:
    """One refresh, of what etcd offers as a stream of them."""

    def call(request: object, timeout: float, metadata: tuple[tuple[str, str], ...]) -> Any:
        stream = member.leases.LeaseKeepAlive(iter([request]), timeout=timeout, metadata=metadata)
        try:
            return next(stream)
        finally:
            stream.cancel()

    return call


def _lost(error: grpc.RpcError) -> LeaseLost:
    """What etcd means by NOT_FOUND; it answers so to nothing else that is asked here."""
    if error.code() is not grpc.StatusCode.NOT_FOUND:
        raise error
    return LeaseLost("the lease has ended")
