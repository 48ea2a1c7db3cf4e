"""Where files of trained models are that are too large for a database: in a folder, or at a URL of `pyarrow.fs`.

Each model has a folder of its own there, under a name that nothing else ever has. It is complete before anybody is told
of it, and never changes.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import pyarrow as pa
from pyarrow import fs

from sqlflow_elastic.errors import ModelStoreError

_REFUSED = (OSError, pa.ArrowException)

_COPIED_BYTES = 8 << 20
#: Nothing else is removed, whatever a model's metadata say.
_NAME = re.compile(r"[0-9a-f]{16}")
_SUFFIX = ".table"


class Storage:
    """A folder, or a URL such as ``s3://bucket/folder``, which may hold credentials: they are never shown.

    Args:
        where: a local path or a URL.

    Attributes:
        shown: the same without credentials and options.

    Raises: ModelStoreError: it cannot be read as a URL.
    """

    def __init__(self, where: str | Path) -> None:
        self._url = str(where) if "://" in str(where) else None
        if self._url is None:
            self.shown = str(Path(where).expanduser().absolute())
            return
        try:
            parts = urlsplit(self._url)
        except ValueError:
            raise ModelStoreError("the setting storage is a URL that cannot be read") from None
        self.shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))

    def __repr__(self) -> str:
        return f"Storage({self.shown!r})"

    def put(self, files: Sequence[Path]) -> str:
        """Copy files into a new folder; returns where it is, for `Storage` and for people.

        Local files are linked, if they can be: they take no room twice.

        Raises: ModelStoreError: they cannot be written.
        """
        location = f"{self.shown}/{secrets.token_hex(8)}"
        with self._failing(f"the model's tables cannot be written to {self.shown}"):
            (_put if self._url is None else self._put_remote)(location, files)
        return location

    def lend(self, location: str, names: Sequence[str], folder: Path) -> str | None:
        """Let a job use stored files, even if they are removed meanwhile, where they can be linked.

        Args:
            location: as `put` said.
            names: of the files.
            folder: of the job; gets those that are local. It is made.

        Returns:
            The URL of what is not local, with credentials; else None.

        Raises: ModelStoreError: they are not there.
        """
        failed = f"the model's tables in {location} cannot be read"
        if "://" in location:
            url = self._within(location)
            with self._failing(failed):
                remote, path = fs.FileSystem.from_uri(url)
                _complain(location, [name for name in names if not remote.get_file_info(f"{path}/{name}").is_file])
            return url
        stored = Path(location)
        _complain(location, [name for name in names if not (stored / name).is_file()])
        with self._failing(failed):
            folder.mkdir(parents=True, exist_ok=True)
            for name in names:
                try:
                    (folder / name).hardlink_to((stored / name).resolve())
                except OSError:
                    (folder / name).symlink_to(stored / name)
        return None

    def remove(self, location: str) -> None:
        """Remove a folder that no model names any more.

        Raises: ModelStoreError: something is left.
        """
        name = location.rpartition("/")[2]
        if not _NAME.fullmatch(name):
            raise ModelStoreError(f"{location} is not removed: no model's tables are ever put there")
        with self._failing(f"the model's tables in {location} are left"):
            if "://" in location:
                remote, path = fs.FileSystem.from_uri(self._within(location))
                remote.delete_dir(path)
                return
            folder = Path(location)
            for file in folder.iterdir():
                if file.suffix == _SUFFIX:
                    file.unlink()
            folder.rmdir()

    def _put_remote(self, location: str, files: Sequence[Path]) -> None:
        remote, folder = fs.FileSystem.from_uri(self._within(location))
        try:
            remote.create_dir(folder, recursive=True)
            for file in files:
                _copy(file, remote, f"{folder}/{file.name}")
        except BaseException:
            with contextlib.suppress(*_REFUSED):
                remote.delete_dir(folder)
            raise

    def _within(self, location: str) -> str:
        """The URL of a folder in this storage, with what opens it."""
        if self._url is None or not location.startswith(f"{self.shown}/"):
            raise ModelStoreError(
                f"the model's tables are in {location}, which is not in the setting storage ({self.shown})"
            )
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(path=parts.path.rstrip("/") + location[len(self.shown) :]))

    @contextlib.contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """What file systems raise is told, without credentials."""
        try:
            yield
        except _REFUSED as error:
            text = (isinstance(error, OSError) and error.strerror) or str(error)
            for secret in () if self._url is None else _secrets_of(self._url):
                text = text.replace(secret, "…")
            raise ModelStoreError(f"{what}: {text.partition(chr(10))[0]}") from None


def _secrets_of(url: str) -> list[str]:
    """What of a URL nobody should see, in all ways that it may be written."""
    parts = urlsplit(url)
    texts = [text for text in (parts.password and parts.username, parts.password, parts.query) if text]
    return [*texts, *map(unquote, texts)]


def _complain(location: str, missing: Sequence[str]) -> None:
    if missing:
        raise ModelStoreError(
            f"the model's tables are missing: {location}/{missing[0]} is not there; put it back, or train the model "
            "again"
        )


def _put(location: str, files: Sequence[Path]) -> None:
    """Into a local folder that is not there, whole or not at all."""
    folder = Path(location)
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name(f".{folder.name}")
    aside.mkdir()
    try:
        for file in files:
            _link_or_copy(file, aside / file.name)
        _sync(aside)
        aside.rename(folder)
        _sync(folder.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _copy(file: Path, remote: fs.FileSystem, to: str) -> None:
    with file.open("rb") as read, remote.open_output_stream(to) as written:
        while chunk := read.read(_COPIED_BYTES):
            written.write(chunk)
    if remote.get_file_info(to).size != file.stat().st_size:
        raise OSError(f"{to} is not whole there")


def _link_or_copy(file: Path, to: Path) -> None:
    try:
        to.hardlink_to(file)
    except OSError:  # another file system, or one without links
        shutil.copyfile(file, to)
        _sync(to)


def _sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
