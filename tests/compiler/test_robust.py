"""Whatever a program says, only the project's own errors come out of the compiler."""

from __future__ import annotations

import contextlib
import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlflow_elastic.compiler import compile_statement
from sqlflow_elastic.datasource import DataSource
from sqlflow_elastic.errors import SQLFlowError
from sqlflow_elastic.language import parse
from tests.compiler.golden.statements import statements
from tests.compiler.test_errors import mistakes

TEXTS = [*statements().values(), *(re.sub("[⟦⟧]", "", mistake.statement) for mistake in mistakes())]
WORDS = re.compile(r"\w+|\"[^\"]*\"|\S")
VALUES = sorted({word for text in TEXTS for word in WORDS.findall(text)})


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A statement with up to three of its words taken away or replaced by words of other statements."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 3))):
        found = list(WORDS.finditer(text))
        after_select = [word for word in found if word.start() > text.find("TO TRAIN")]
        place = draw(st.sampled_from(after_select or found))
        text = text[: place.start()] + draw(st.sampled_from(["", *VALUES])) + text[place.end() :]
    return text


@given(mutated())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_our_errors_come_out(source: DataSource, text: str) -> None:
    with contextlib.suppress(SQLFlowError):
        for statement in parse(text, source.dialect):
            compile_statement(statement, text, source)
