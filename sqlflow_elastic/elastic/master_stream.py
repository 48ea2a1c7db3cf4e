"""A worker's stream to its master, whichever master there is: lost ones are opened again."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc

from sqlflow_elastic.elastic.membership.messages import FromMaster, FromWorker
from sqlflow_elastic.elastic.proto import TOKEN_KEY, master_pb2, master_pb2_grpc, wire

_READY_SECONDS = 2.0
_RETRY_SECONDS = 0.05
_MOST_RETRY_SECONDS = 1.0
_CLOSE_SECONDS = 2.0
_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
]

Packed: TypeAlias = master_pb2.FromWorker


@dataclass(frozen=True)
class Up:
    """There is a stream; the first message it takes has to be `Hello`."""


@dataclass(frozen=True)
class Lost:
    """There is none any more."""


class MasterStream:
    """Keeps a stream open, in a thread of its own, until it is closed.

    Args:
        address: where the master is now, host:port; None while nobody knows. Asked at each attempt.
        token: the job's.
        notify: takes `Up`, `Lost` and each message from the master, in this object's thread, in order.
    """

    def __init__(
        self, address: Callable[[], str | None], token: str, notify: Callable[[Up | Lost | FromMaster], None]
    ) -> None:
        self._address = address
        self._metadata = ((TOKEN_KEY, token),)
        self._notify = notify
        self._outgoing: queue.SimpleQueue[Packed | None] = queue.SimpleQueue()
        self._call: Any = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="master-stream", daemon=True)
        self._thread.start()

    def say(self, message: FromWorker) -> None:
        """Send a message; one that is under way when the stream is lost is lost with it."""
        self._outgoing.put(wire.from_worker(message))

    def say_spans(self, json: str) -> None:
        """Send timeline entries."""
        self._outgoing.put(master_pb2.FromWorker(spans=master_pb2.Spans(json=json)))

    def close(self) -> None:
        """Send what is waiting, then end the stream and the thread; takes two seconds at most."""
        self._closed.set()
        self._outgoing.put(None)
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive() and self._call is not None:
            self._call.cancel()
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        pause = _RETRY_SECONDS
        while not self._closed.is_set():
            address = self._address()
            if address is not None and self._stream(address):
                pause = _RETRY_SECONDS
            self._closed.wait(pause)
            pause = min(pause * 2, _MOST_RETRY_SECONDS)

    def _stream(self, address: str) -> bool:
        """One stream, from its beginning to its end. Returns whether there was one."""
        with grpc.insecure_channel(address, options=_OPTIONS) as channel:
            if not self._is_ready(channel, address):
                return False
            outgoing: queue.SimpleQueue[Packed | None] = queue.SimpleQueue()
            self._outgoing = outgoing
            if self._closed.is_set():
                outgoing.put(None)
            # No deadline: heartbeats, and keepalive below them, tell whether the other side is there.
            self._call = master_pb2_grpc.MasterStub(channel).Join(_until_none(outgoing), metadata=self._metadata)
            self._notify(Up())
            try:
                for packed in self._call:
                    self._notify(wire.master_message(packed))
            except (grpc.RpcError, ValueError):
                pass
            finally:
                self._call.cancel()
                outgoing.put(None)
                self._notify(Lost())
        return True

    def _is_ready(self, channel: grpc.Channel, address: str) -> bool:
        """Wait until the channel is connected; not longer than the master is said to be there."""
        ready = grpc.channel_ready_future(channel)
        deadline = time.monotonic() + _READY_SECONDS
        try:
            while not self._closed.is_set() and time.monotonic() < deadline and self._address() == address:
                try:
                    ready.result(_RETRY_SECONDS)
                except grpc.FutureTimeoutError:
                    continue
                return True
        finally:
            ready.cancel()
        return False


def _until_none(outgoing: queue.SimpleQueue[Packed | None]) -> Iterator[Packed]:
    while (message := outgoing.get()) is not None:
        yield message
