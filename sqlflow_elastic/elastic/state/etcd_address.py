"""The URL of an etcd: its parts, checked. No message holds a part of it that could be a password."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from sqlflow_elastic.errors import StoreUnavailable

_PORT = 2379
_PREFIX = "sqlflow-elastic"
_FORM = "an etcd is named etcd://[user:password@]host[:port][,host[:port]…][/prefix]"


@dataclass(frozen=True)
class EtcdAddress:
    """Where an etcd is and who asks.

    Attributes:
        hosts: "host:port" of each member that may be asked.
        prefix: what all keys begin with; not empty, with a slash at its end.
        secure: whether TLS is spoken; `ca`, `certificate` and `key` are PEM files, or None.
    """

    hosts: tuple[str, ...]
    prefix: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    secure: bool = False
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    @classmethod
    def parse(cls, url: str) -> EtcdAddress:
        """The parts of a URL, or StoreUnavailable with what is wrong."""
        try:
            parts = urlsplit(url)
            options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        except ValueError:
            # Its text may quote the URL, and with it the password.
            raise StoreUnavailable(_FORM) from None
        if parts.fragment or "@" in parts.path + parts.query:
            raise StoreUnavailable(f"{_FORM}; in a password / ? # @ : % are written %2F %3F %23 %40 %3A %25")
        account, separator, hosts = parts.netloc.rpartition("@")
        user, colon, password = account.partition(":")
        if separator and not (user and colon):
            raise StoreUnavailable(f"{_FORM}; a user has a password")
        secure = parts.scheme == "etcds"
        if options.keys() - ({"ca", "cert", "key"} if secure else set()):
            raise StoreUnavailable(f"{_FORM}; etcds:// has the options ca, cert and key, etcd:// none")
        if ("cert" in options) != ("key" in options):
            raise StoreUnavailable("the options cert and key of an etcds:// URL go together")
        return cls(
            tuple(_host(host) for host in hosts.split(",")),
            (unquote(parts.path).strip("/") or _PREFIX) + "/",
            unquote(user) if separator else None,
            unquote(password) if separator else None,
            secure,
            options.get("ca"),
            options.get("cert"),
            options.get("key"),
        )


def _host(text: str) -> str:
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port or _PORT
    except ValueError:
        raise StoreUnavailable(f"{_FORM}; a port is a number up to 65535") from None
    if not parts.hostname or parts.username is not None:
        raise StoreUnavailable(f"{_FORM}; a host is missing")
    return f"[{parts.hostname}]:{port}" if ":" in parts.hostname else f"{parts.hostname}:{port}"
