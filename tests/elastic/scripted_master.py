"""A master that says what a test says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlflow_elastic.elastic.folder import JobFolder, write_json
from sqlflow_elastic.elastic.membership.messages import FromMaster, FromWorker, Hello
from sqlflow_elastic.jobs.master.streams import Streams
from tests.waiting import wait_until

SECONDS = 30.0
TOKEN = "this job's token"


class Master:
    """Only its streams.

    Args:
        folder: of a job whose token is `TOKEN`; says where the master is.
        name: of the process that the test talks with.

    Attributes:
        heard: all that came.
        lost: whose stream was lost.
    """

    def __init__(self, folder: JobFolder, name: str) -> None:
        self.heard: list[FromWorker] = []
        self.lost: list[str] = []
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._streams = Streams(TOKEN, lambda _, message: self.heard.append(message), self.lost.append, lambda *_: None)
        address = asyncio.run_coroutine_threadsafe(self._streams.serve("127.0.0.1"), self._loop).result(SECONDS)
        write_json(folder.master, {"address": address})

    def says(self, *messages: FromMaster) -> None:
        for message in messages:
            self._loop.call_soon_threadsafe(self._streams.send, self._name, message)

    def hears(self, *messages: FromWorker) -> None:
        wait_until(lambda: all(message in self.heard for message in messages), SECONDS)

    @property
    def hello(self) -> Hello:
        wait_until(lambda: any(isinstance(message, Hello) for message in self.heard), SECONDS)
        return next(message for message in self.heard if isinstance(message, Hello))

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._streams.close(), self._loop).result(SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()


@contextmanager
def master(folder: JobFolder, name: str) -> Iterator[Master]:
    made = Master(folder, name)
    try:
        yield made
    finally:
        made.close()
