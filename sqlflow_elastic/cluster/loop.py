"""Waiting for many sockets at once, in one thread."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Sequence

from sqlflow_elastic.cluster.channel import Channel


class Loop:
    """Calls back when there is something to hear; sends on when there is room again."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def add(self, what: Channel | socket.socket, heard: Callable[[], None]) -> None:
        """From now on call ``heard`` while it is readable; added already: this in place of what was called so far."""
        if what in self._selector.get_map():
            self._selector.modify(what, self._selector.get_key(what).events, heard)
        else:
            self._selector.register(what, selectors.EVENT_READ, heard)

    def remove(self, what: Channel | socket.socket) -> None:
        """Call nothing any more. To be called before it is closed."""
        self._selector.unregister(what)

    def drop(self, channel: Channel) -> None:
        """Remove a channel and close it. Dropping twice is fine."""
        if channel.fileno() >= 0:
            self.remove(channel)
            channel.close()

    def send(self, channel: Channel, message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send over a channel that was added, now or as soon as there is room."""
        channel.send(message, descriptors)
        self._look_for_room(channel)

    def turn(self, seconds: float | None) -> None:
        """Wait until there is something to hear, for at most so many seconds (None: for ever), and call back."""
        for key, events in self._selector.select(seconds):
            what = key.fileobj
            if events & selectors.EVENT_WRITE and isinstance(what, Channel) and what.fileno() >= 0:
                what.flush()
                self._look_for_room(what)
            # What was called back a moment ago may have closed it.
            if events & selectors.EVENT_READ and isinstance(what, Channel | socket.socket) and what.fileno() >= 0:
                key.data()

    def close(self) -> None:
        """Close what the kernel holds for this; not what was added."""
        self._selector.close()

    def _look_for_room(self, channel: Channel) -> None:
        events = selectors.EVENT_READ if channel.is_idle else selectors.EVENT_READ | selectors.EVENT_WRITE
        key = self._selector.get_key(channel)
        if key.events != events:
            self._selector.modify(channel, events, key.data)
