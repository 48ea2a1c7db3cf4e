"""Numbers as people read them."""

from __future__ import annotations


def count(number: int, what: str) -> str:
    """``1 row``, ``1,000 rows``."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def bytes_text(size: float) -> str:
    """``1.05 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
