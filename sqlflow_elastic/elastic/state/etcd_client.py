"""Calls to etcd: a channel for each member, deadlines, the next member when one fails, tokens made anew.

The messages and stubs are those of the package pyetcd. Its client is not used: it takes a member that failed once for
dead for five minutes, keeps a token that etcd has forgotten, and its watches end without a word.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from pyetcd import etcdrpc

from sqlflow_elastic.elastic.state.base import CALL_SECONDS
from sqlflow_elastic.elastic.state.etcd_address import EtcdAddress
from sqlflow_elastic.errors import StoreUnavailable, why

_PAUSE_SECONDS = 0.05

_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A watch notices within 15 s that etcd is silent. etcd refuses to be asked more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # What was written is not too large to be read: a snapshot is as large as all its entries.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)

#: What another member, or the same one in a moment, may answer better.
_PASSING = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
#: What the callers of this module look at.
_ANSWERS = frozenset({grpc.StatusCode.NOT_FOUND, grpc.StatusCode.OUT_OF_RANGE})
#: etcd was restarted, or users were changed.
_STALE_TOKEN = ("invalid auth token", "revision of auth store is old")


class EtcdMember:
    """The stubs of one member of the etcd cluster."""

    def __init__(self, host: str, credentials: grpc.ChannelCredentials | None) -> None:
        if credentials is None:
            self.channel = grpc.insecure_channel(host, _OPTIONS)
        else:
            self.channel = grpc.secure_channel(host, credentials, _OPTIONS)
        self.kv = etcdrpc.KVStub(self.channel)
        self.leases = etcdrpc.LeaseStub(self.channel)
        self.watches = etcdrpc.WatchStub(self.channel)
        self.auth = etcdrpc.AuthStub(self.channel)


#: Picks of a member the function that is to be called: ``call(request, timeout=…, metadata=…)``.
Pick = Callable[[EtcdMember], Callable[..., Any]]


class EtcdClient:
    """Calls to one etcd, from several threads."""

    def __init__(self, address: EtcdAddress) -> None:
        self._address = address
        credentials = _credentials(address)
        self._members = [EtcdMember(host, credentials) for host in address.hosts]
        self._lock = threading.Lock()
        self._current = 0
        self._token: str | None = None
        #: Whether it is known that the current member answers.
        self._trusted = False
        self._closed = threading.Event()

    @property
    def name(self) -> str:
        """What messages call it: "etcd at host:port"."""
        return f"etcd at {', '.join(self._address.hosts)}"

    def ask(self, pick: Pick, request: object) -> Any:
        """Make a call that may be repeated, until a member answers or `CALL_SECONDS` are over.

        Raises:
            StoreUnavailable: none answered in time, or one refused.
            grpc.RpcError: etcd answered NOT_FOUND or OUT_OF_RANGE.
        """
        return self._ask(pick, request, time.monotonic() + CALL_SECONDS)

    def tell(self, pick: Pick, request: object) -> Any:
        """Make a call that must not be repeated, to a member that answers; errors as those of `ask`.

        After a failure a member that answers is looked for first, so that the call meets one.
        """
        deadline = time.monotonic() + CALL_SECONDS
        if not self._trusted:
            probe = etcdrpc.RangeRequest(key=self._address.prefix.encode())
            self._ask(lambda member: member.kv.Range, probe, deadline)
        member = self.member()
        try:
            try:
                return self._call(member, pick, request, deadline)
            except grpc.RpcError as error:
                # A stale token is refused before anything is done.
                if not self.renew(error):
                    raise
            return self._call(member, pick, request, deadline)
        except grpc.RpcError as error:
            if error.code() in _ANSWERS:
                raise
            self.failed(member)
            raise self.unavailable(error) from error

    def _ask(self, pick: Pick, request: object, deadline: float) -> Any:
        renewed = False
        while True:
            member = self.member()
            try:
                # No member may use up the time of the others.
                share = time.monotonic() + CALL_SECONDS / len(self._members)
                answer = self._call(member, pick, request, min(deadline, share))
            except grpc.RpcError as error:
                if error.code() in _ANSWERS:
                    raise
                if not renewed and self.renew(error):
                    renewed = True
                    continue
                self.failed(member)
                if error.code() not in _PASSING or time.monotonic() + _PAUSE_SECONDS >= deadline:
                    raise self.unavailable(error) from error
                self._closed.wait(_PAUSE_SECONDS)
            else:
                self._trusted = True
                return answer

    def _call(self, member: EtcdMember, pick: Pick, request: object, deadline: float) -> Any:
        metadata = self.metadata(member, deadline - time.monotonic())
        return pick(member)(request, timeout=deadline - time.monotonic(), metadata=metadata)

    def member(self) -> EtcdMember:
        """The member that is asked now."""
        if self._closed.is_set():
            raise ValueError("the state store is closed")
        return self._members[self._current]

    def failed(self, member: EtcdMember) -> None:
        """From now on ask the next one."""
        with self._lock:
            if self._members[self._current] is member:
                self._current = (self._current + 1) % len(self._members)
                self._trusted = False

    def metadata(self, member: EtcdMember, seconds: float) -> tuple[tuple[str, str], ...]:
        """What shows etcd who asks; a token is fetched where there is none."""
        if self._address.user is None:
            return ()
        with self._lock:
            token = self._token
        if token is None:
            request = etcdrpc.AuthenticateRequest(name=self._address.user, password=self._address.password)
            token = member.auth.Authenticate(request, timeout=seconds).token
            with self._lock:
                self._token = token
        return (("token", token),)

    def renew(self, error: grpc.RpcError) -> bool:
        """Whether the call failed for a token that etcd does not know (any more); it is dropped then."""
        if self._token is None or not any(text in (error.details() or "") for text in _STALE_TOKEN):
            return False
        self.forget_token()
        return True

    def forget_token(self) -> None:
        """Fetch a new token for the next call."""
        with self._lock:
            self._token = None

    def unavailable(self, error: grpc.RpcError) -> StoreUnavailable:
        """The error for people."""
        code, details = error.code(), error.details() or ""
        if code is grpc.StatusCode.DEADLINE_EXCEEDED or (
            code is grpc.StatusCode.UNAVAILABLE and "etcdserver" not in details
        ):
            return StoreUnavailable(f"{self.name} does not answer")
        return StoreUnavailable(f"{self.name}: {details}")

    def close(self) -> None:
        """End the calls that are on their way, and the connections."""
        self._closed.set()
        for member in self._members:
            member.channel.close()


def _credentials(address: EtcdAddress) -> grpc.ChannelCredentials | None:
    if not address.secure:
        return None
    try:
        ca, key, certificate = (
            Path(path).read_bytes() if path is not None else None
            for path in (address.ca, address.key, address.certificate)
        )
    except OSError as error:
        raise StoreUnavailable(f"{error.filename} cannot be read: {why(error)}") from error
    return grpc.ssl_channel_credentials(ca, key, certificate)
