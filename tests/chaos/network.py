"""A network of this machine and one more, which is a network namespace, with a cable that can be cut."""

from __future__ import annotations

import ctypes
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlflow_elastic.elastic.member import HOST_VARIABLE

_NAMESPACES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000


class NoNetwork(Exception):  # noqa: N818 - a reason to skip
    """This machine lets us make none."""


@dataclass(frozen=True)
class Network:
    """
    Attributes:
        namespace: the name of the other machine.
        host: the address of this one.
    """

    namespace: str
    host: str
    _cable: str

    def cut(self) -> None:
        """What is sent is lost; nobody is told."""
        _ip("link", "set", self._cable, "down")

    def mend(self) -> None:
        _ip("link", "set", self._cable, "up")


@contextmanager
def network() -> Iterator[Network]:
    """Raises: NoNetwork."""
    if os.geteuid():
        raise NoNetwork("only root makes network namespaces")
    name = f"sfe{secrets.token_hex(3)}"
    one, other = f"{name}a", f"{name}b"
    # Of the block for tests of network devices.
    host = f"198.18.{secrets.randbelow(256)}.{4 * secrets.randbelow(64) + 1}"
    guest = f"{host.rpartition('.')[0]}.{int(host.rpartition('.')[2]) + 1}"
    with ExitStack() as undo:
        try:
            _ip("netns", "add", name)
            undo.callback(_ip, "netns", "delete", name)
            _ip("link", "add", one, "type", "veth", "peer", "name", other, "netns", name)
            _ip("address", "add", f"{host}/30", "dev", one)
            _ip("link", "set", one, "up")
            _ip("-n", name, "address", "add", f"{guest}/30", "dev", other)
            _ip("-n", name, "link", "set", other, "up")
            _ip("-n", name, "link", "set", "lo", "up")
            (_NAMESPACES / f"{name}.address").write_text(guest)
            undo.callback((_NAMESPACES / f"{name}.address").unlink)
        except (OSError, subprocess.CalledProcessError) as error:
            raise NoNetwork(f"no network namespace can be made here: {error}") from error
        yield Network(name, host, one)


def enter(namespace: str) -> None:
    """Be on the other machine from now on. To be called before there is a second thread."""
    with (_NAMESPACES / namespace).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "the network namespace cannot be entered")
    os.environ[HOST_VARIABLE] = (_NAMESPACES / f"{namespace}.address").read_text()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
