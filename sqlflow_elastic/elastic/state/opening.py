"""From a URL to a state store."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from sqlflow_elastic.elastic.state.base import StateStore
from sqlflow_elastic.errors import StoreUnavailable


def open_store(url: str) -> StateStore:
    """The store behind a URL. Blocks until it answered, at most `CALL_SECONDS`.

    Args:
        url: a path or ``file:///path/state.db`` for the embedded store, which is made if it does not exist (its folder
            must); ``etcd://[user:password@]host[:port][,host[:port]…][/prefix]`` for etcd, ``etcds://`` for etcd over
            TLS, where ``?ca=FILE``, ``&cert=FILE&key=FILE`` name PEM files.

    Raises:
        StoreUnavailable: it cannot be opened, or the URL names none. The message holds no password.
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        return _embedded(url)
    if scheme == "file":
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = None
        if parts is None or parts.netloc or parts.query or parts.fragment or not parts.path.strip("/"):
            raise StoreUnavailable("a state store in a file is named file:///path/state.db")
        return _embedded(unquote(parts.path))
    if scheme in ("etcd", "etcds"):
        # Its client takes a while to import.
        from sqlflow_elastic.elastic.state.etcd import EtcdStore

        return EtcdStore(url)
    raise StoreUnavailable("a state store is a path, file:///path/state.db or etcd://host:port/prefix")


def _embedded(path: str) -> StateStore:
    from sqlflow_elastic.elastic.state.embedded import EmbeddedStore

    return EmbeddedStore(path)
