"""The workers' streams: what comes from whom, and what goes to whom."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from sqlflow_elastic.elastic.membership.messages import FromMaster, FromWorker, Hello
from sqlflow_elastic.elastic.proto import TOKEN_KEY, master_pb2, master_pb2_grpc, wire

SERVICE = "sqlflow_elastic.Master"

_HELLO_SECONDS = 10.0
_STOP_SECONDS = 1.0
_OPTIONS = [
    ("grpc.so_reuseport", 0),
    # A connection whose other machine is gone is noticed without waiting for TCP.
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
]


class Streams(master_pb2_grpc.MasterServicer):
    """Serves the streams; lives in one event loop, and is called in it.

    Args:
        token: what a worker has to show.
        received: takes each message with the name of its worker; `Hello` is the first of a stream.
        lost: takes the name of a worker whose stream ended.
        spans: takes timeline entries, as JSON, of a worker.
    """

    def __init__(
        self,
        token: str,
        received: Callable[[str, FromWorker], None],
        lost: Callable[[str], None],
        spans: Callable[[str, str], None],
    ) -> None:
        self._token = token.encode()
        self._received = received
        self._lost = lost
        self._spans = spans
        self._outgoing: dict[str, asyncio.Queue[FromMaster | None]] = {}
        self._server: Any = None
        self._health = health.aio.HealthServicer()

    async def serve(self, host: str) -> str:
        """Begin to serve on a free port. Returns host:port."""
        self._server = grpc.aio.server(options=_OPTIONS)
        master_pb2_grpc.add_MasterServicer_to_server(self, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        port = self._server.add_insecure_port(f"{host}:0")
        await self._server.start()
        await self._health.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
        return f"{host}:{port}"

    async def close(self) -> None:
        """End all streams; takes a second at most."""
        for outgoing in self._outgoing.values():
            outgoing.put_nowait(None)
        if self._server is not None:
            await self._health.enter_graceful_shutdown()
            await self._server.stop(_STOP_SECONDS)

    def send(self, name: str, message: FromMaster) -> None:
        """Send to a worker; dropped if it has no stream, as what is under way when a stream ends is."""
        if (outgoing := self._outgoing.get(name)) is not None:
            outgoing.put_nowait(message)

    async def Join(  # noqa: N802 - the name in the proto file
        self, request_iterator: AsyncIterator[master_pb2.FromWorker], context: Any
    ) -> AsyncIterator[master_pb2.FromMaster]:
        """One worker's stream."""
        await self._check(context)
        try:
            first = wire.worker_message(await asyncio.wait_for(anext(request_iterator), _HELLO_SECONDS))
        except (TimeoutError, StopAsyncIteration, ValueError):
            first = None
        if not isinstance(first, Hello):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a stream begins with Hello")
            return
        outgoing: asyncio.Queue[FromMaster | None] = asyncio.Queue()
        if (before := self._outgoing.get(first.name)) is not None:
            before.put_nowait(None)
        self._outgoing[first.name] = outgoing
        self._received(first.name, first)
        reader = asyncio.create_task(self._read(first.name, request_iterator, outgoing))
        try:
            while (message := await outgoing.get()) is not None:
                yield wire.from_master(message)
        finally:
            reader.cancel()
            if self._outgoing.get(first.name) is outgoing:
                del self._outgoing[first.name]
                self._lost(first.name)

    async def _check(self, context: Any) -> None:
        shown = [value for key, value in context.invocation_metadata() if key == TOKEN_KEY]
        if len(shown) != 1 or not hmac.compare_digest(str(shown[0]).encode(), self._token):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "not a worker of this job")

    async def _read(
        self,
        name: str,
        requests: AsyncIterator[master_pb2.FromWorker],
        outgoing: asyncio.Queue[FromMaster | None],
    ) -> None:
        try:
            async for packed in requests:
                if packed.WhichOneof("message") == "spans":
                    self._spans(name, packed.spans.json)
                elif self._outgoing.get(name) is outgoing:
                    self._received(name, wire.worker_message(packed))
        except (grpc.aio.AioRpcError, ValueError):
            pass
        finally:
            outgoing.put_nowait(None)
