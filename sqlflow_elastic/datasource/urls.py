"""URLs of data sources: reading them, and hiding their passwords."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote

from sqlflow_elastic.errors import DataSourceError

#: Kinds of data source by the scheme of their URL, without what follows a ``+``.
_SCHEMES = {
    "duckdb": "duckdb",
    "sqlite": "sqlite",
    "mysql": "mysql",
    "mariadb": "mysql",
    "postgresql": "postgresql",
    "postgres": "postgresql",
}
_USER_AND_PASSWORD = re.compile(r"^([\w+.-]+://[^:/@]*):(.*)@", re.DOTALL)
_SECRET_OPTION = re.compile(r"([?&](?:\w*password\w*|passwd|pwd|passphrase)=)([^&#]*)", re.IGNORECASE)
_GO_ADDRESS = re.compile(r"@(?:tcp)?\(([^()]*)\)")


def mask_url(url: str) -> str:
    """The URL with ``***`` in place of every password."""
    masked = _USER_AND_PASSWORD.sub(r"\1:***@", url)
    return _SECRET_OPTION.sub(r"\1***", masked)


def secrets(url: str) -> list[str]:
    """The passwords in a URL, as they are written, as they are meant, and percent-encoded; the longest first."""
    found = [match.group(2) for match in (*_SECRET_OPTION.finditer(url), *_USER_AND_PASSWORD.finditer(url))]
    forms = {form for text in found for form in (text, unquote(text), quote(unquote(text), safe="", errors="replace"))}
    return sorted(forms - {""}, key=len, reverse=True)


def kind_of(url: str) -> str:
    """``duckdb``, ``sqlite``, ``mysql`` or ``postgresql``.

    Raises: DataSourceError: it is none of these.
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        if Path(url).suffix in {".duckdb", ".db"}:
            return "duckdb"
        raise DataSourceError(f"{mask_url(url)!r} is no data source: give a URL like duckdb:///file.db, or a .db file")
    name = scheme.partition("+")[0].lower()
    if name not in _SCHEMES:
        close = difflib.get_close_matches(name, _SCHEMES, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(set(_SCHEMES.values())))}"
        raise DataSourceError(f"no data source of kind {name!r}; {hint}")
    return _SCHEMES[name]


def file_of(url: str) -> tuple[str, dict[str, str]]:
    """The file and the options of a URL of an embedded database; the file is "" for one in memory."""
    if "://" not in url:
        return url, {}
    rest, _, options = url.partition("://")[2].partition("?")
    path = unquote(rest.removeprefix("/"))
    return "" if path == ":memory:" else path, dict(parse_qsl(options))


def server_url(url: str) -> str:
    """A database server's URL in SQLAlchemy's form, also from SQLFlow's ``user:password@tcp(host:port)/db``.

    Raises: DataSourceError: a password with an @ as it is, after which its rest would be taken for the server's name.
    """
    if url.partition("?")[0].count("@") > 1:
        hint = "in a password write %40 for @, %2F for /, %3A for :, %23 for #, %25 for %"
        raise DataSourceError(f"cannot read the URL {mask_url(url)}: it has more than one @; {hint}")
    return _GO_ADDRESS.sub(r"@\1", url)
