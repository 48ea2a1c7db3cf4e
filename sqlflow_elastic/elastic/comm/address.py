"""Addresses as "host:port", with numbers for hosts: looking a name up could block without end."""

from __future__ import annotations

import socket


def parse(address: str) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """The family and the socket address of "127.0.0.1:80" or "[::1]:80". Raises: ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"an address is host:port, not {address!r}")
    host = host.removeprefix("[").removesuffix("]")
    return family_of(host), (host, int(port))


def family_of(host: str) -> socket.AddressFamily:
    """Of a numeric host. Raises: ValueError: it is none."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return family
    raise ValueError(f"a numeric address is wanted, not {host!r}")


def join(host: str, port: int) -> str:
    """The inverse of `parse`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
