"""What a database does not know in a SELECT is an error at its place in the program, in the database's own words."""

from __future__ import annotations

import pytest

from sqlflow_elastic.compiler import compile_statement
from sqlflow_elastic.datasource import DataSource
from sqlflow_elastic.errors import CompileError
from sqlflow_elastic.language import parse

SELECTS = {
    "a column": ("SELECT petal_wdth FROM flowers", "petal_wdth"),
    "a table": ("SELECT * FROM flwers", "flwers"),
    "a table elsewhere": ("SELECT * FROM nowhere.flowers", "nowhere"),
    "a word": ("SELECT petal_width FORM flowers", "flowers"),
    "a function": ("SELECT fooo(petal_width) FROM flowers", "fooo"),
}


@pytest.mark.parametrize("name", SELECTS)
def test_the_place_of_what_the_database_does_not_know(name: str, source: DataSource) -> None:
    select, wrong = SELECTS[name]
    source.execute("CREATE TABLE flowers (petal_width INT)")
    text = f"SELECT 1;\n/* 花 */ {select} TO TRAIN LinearClassifier LABEL y INTO m"
    with pytest.raises(CompileError) as caught:
        compile_statement(parse(text, source.dialect)[1], text, source)
    assert (caught.value.line, text[caught.value.span.start :].startswith(wrong)) == (2, True)
    assert caught.value.message.startswith("the database says: ")
