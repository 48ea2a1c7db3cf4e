"""Every mistake of mistakes.txt is found before anything runs, at its exact place, with its exact words."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from sqlflow_elastic.datasource import DataSource
from sqlflow_elastic.errors import CompileError, Span
from tests.compiler.database import compile_text


class Mistake(NamedTuple):
    statement: str
    message: str
    hint: str | None


def mistakes() -> list[Mistake]:
    """The blocks of the file: a statement, its message, its hint."""
    _, *blocks = (Path(__file__).with_name("mistakes.txt")).read_text(encoding="utf-8").strip().split("\n\n")
    found = []
    for block in blocks:
        statement, message, hint = block.split("\n    ")
        found.append(Mistake(statement, message, None if hint == "-" else hint))
    return found


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: mistake.statement)
def test_mistake_is_told_with_its_place(mistake: Mistake, source: DataSource) -> None:
    before, rest = mistake.statement.split("⟦")
    place, after = rest.split("⟧")
    with pytest.raises(CompileError) as caught:
        compile_text(before + place + after, source)
    assert (caught.value.message, caught.value.hint) == (mistake.message, mistake.hint)
    assert caught.value.span == Span(len(before), len(before) + len(place))


def test_place_counts_from_the_whole_program(source: DataSource) -> None:
    from sqlflow_elastic.compiler import compile_statement
    from sqlflow_elastic.language import parse

    text = "SELECT 1;\nSELECT * FROM iris.train\nTO TRAIN DNNClasifier LABEL class INTO m;"
    with pytest.raises(CompileError) as caught:
        compile_statement(parse(text, "duckdb")[1], text, source)
    assert (caught.value.line, caught.value.column) == (3, 10)
    assert str(caught.value) == (
        "line 3, column 10: there is no model 'DNNClasifier'; did you mean 'DNNClassifier'?\n"
        "  TO TRAIN DNNClasifier LABEL class INTO m;\n"
        "           ^^^^^^^^^^^^"
    )
