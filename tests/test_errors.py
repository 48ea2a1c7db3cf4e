"""How mistakes in a program are shown."""

from __future__ import annotations

import pytest

from sqlflow_elastic.errors import CompileError, Span


def shown(text: str, start: int, end: int) -> list[str]:
    return str(CompileError("wrong", text, Span(start, end))).split("\n")


def test_the_line_and_the_place_under_it() -> None:
    assert shown("SELECT 1;\nSELECT x", 17, 18) == ["line 2, column 8: wrong", "  SELECT x", "         ^"]


@pytest.mark.parametrize("start", [0, 3, 80, 5_000, 9_990, 9_999])
def test_of_a_long_line_only_what_is_around_the_place(start: int) -> None:
    text = "".join(f"{number:4} " for number in range(2_000))
    first, line, carets = shown(text, start, start + 4)
    assert first == f"line 1, column {start + 1}: wrong"
    assert len(line) < 170
    place = carets.index("^")
    assert line[place : place + 4].rstrip("…") == text[start : start + 4]
    assert (line[2] == "…") == (start > 80)
    assert (line[-1] == "…") == (start < 9_000)
