"""Reads the corpora beside the grammar; `grammar/README.md` describes their format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "grammar" / "corpus"
DIALECTS = ("duckdb", "sqlite", "mysql", "postgres", "hive")


@dataclass(frozen=True)
class Example:
    """One block of a corpus: what its marker says, its program, and the error's message in the rejected ones."""

    place: str
    dialects: tuple[str, ...]
    title: str
    program: str
    message: str = ""


def accepted() -> list[Example]:
    """The programs that parse; their titles are the kinds of their statements."""
    return list(_examples(FOLDER / "accepted"))


def rejected() -> list[Example]:
    """The programs that do not, each with the message that says why."""
    return list(_examples(FOLDER / "rejected"))


def _examples(folder: Path) -> Iterator[Example]:
    for path in sorted(folder.glob("*/*.sql")):
        dialects = DIALECTS if path.parent.name == "any" else (path.parent.name,)
        line_number = 1
        for block in re.split("^--- ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            title, _, body = block.partition("\n")
            program, _, message = body.partition("\n---\n")
            place = f"{path.parent.name}/{path.name}:{line_number}"
            yield Example(place, dialects, title, program.removesuffix("\n"), message.removesuffix("\n"))
            line_number += block.count("\n")
