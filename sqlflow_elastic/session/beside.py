"""A folder's new contents: all of them, or none."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlflow_elastic.errors import StorageError, why


@contextmanager
def beside(directory: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """An empty folder to write in. When the block ends well, what is there of these names takes the place of what the
    directory has of them; else the directory stays as it is, missing if it was. Its other contents stay.

    The folder is within the directory: that may be the only place of its disk that can be written.

    Raises: StorageError: the directory cannot be written to.
    """
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    try:
        with _refusals(directory):
            directory.mkdir(parents=True, exist_ok=True)
            aside = Path(tempfile.mkdtemp(dir=directory, prefix=".new-"))
        try:
            yield aside
            with _refusals(directory):
                for name in names:
                    _move(aside / name, directory / name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def _refusals(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{directory} cannot be written to: {why(error)}") from error


def _move(new: Path, old: Path) -> None:
    if old.is_dir() and not old.is_symlink():
        shutil.rmtree(old)
    else:
        old.unlink(missing_ok=True)
    if new.exists():
        new.rename(old)
