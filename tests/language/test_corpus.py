"""Every program of the corpora does in every dialect what its block says."""

from __future__ import annotations

import pytest

from sqlflow_elastic.errors import ParseError
from sqlflow_elastic.language import format_program, format_statement, parse
from tests.language.corpus import Example, accepted, rejected
from tests.language.nodes import kinds, same

ACCEPTED = accepted()
REJECTED = rejected()


def test_the_corpora_are_large_enough() -> None:
    assert sum(len(example.title.split()) for example in ACCEPTED) >= 150
    assert len(REJECTED) >= 60


@pytest.mark.parametrize("example", ACCEPTED, ids=lambda example: example.place)
def test_accepted_programs_survive_printing(example: Example) -> None:
    for dialect in example.dialects:
        statements = parse(example.program, dialect)
        assert kinds(statements) == example.title
        printed = format_program(statements, dialect)
        again = parse(printed, dialect)
        assert same(again, statements), f"{dialect}:\n{printed}"
        assert format_program(again, dialect) == printed


@pytest.mark.parametrize("example", ACCEPTED, ids=lambda example: example.place)
def test_statements_stand_for_themselves(example: Example) -> None:
    for dialect in example.dialects:
        for statement in parse(example.program, dialect):
            source = example.program[statement.span.start : statement.span.end]
            assert same(parse(source, dialect), (statement,))
            assert same(parse(format_statement(statement, dialect), dialect), (statement,))


@pytest.mark.parametrize("example", REJECTED, ids=lambda example: example.place)
def test_rejected_programs_say_why(example: Example) -> None:
    for dialect in example.dialects:
        with pytest.raises(ParseError) as caught:
            parse(example.program, dialect)
        assert str(caught.value) == example.message, dialect
