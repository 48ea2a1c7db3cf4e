"""The statements of statements.sql by the name in the comment above each."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent


def statements() -> dict[str, str]:
    """Each statement's text, without the ``;``."""
    text = (FOLDER / "statements.sql").read_text(encoding="utf-8")
    found = re.findall(r"^-- (\w+)\n(.*?);$", text, re.MULTILINE | re.DOTALL)
    return dict(found)
