"""How fast this machine's sockets are is told in a moment, and never not at all."""

from __future__ import annotations

import socket

import pytest

from sqlflow_elastic.elastic import bandwidth


def test_it_is_measured() -> None:
    # No machine copies faster than its memory, nor is any socket slower than a modem.
    assert 1e4 < bandwidth.measured() < 1e11


def test_without_sockets_it_is_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> socket.socket:
        raise OSError("no sockets here")

    monkeypatch.setattr(socket, "create_server", refuse)
    assert bandwidth.measured() == bandwidth.USUAL


def test_of_a_peer_that_is_silent_it_is_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "_send", lambda far: None)
    assert bandwidth.measured() == bandwidth.USUAL


def test_of_a_stream_that_ends_early_it_is_what_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "_send", lambda far: far.sendall(bytes(1000)))
    monkeypatch.setattr(bandwidth, "USUAL", 0.0)
    assert bandwidth.measured() > 0
