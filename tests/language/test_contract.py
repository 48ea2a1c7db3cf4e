"""What the language promises to the rest of the house, and what it takes from others for granted."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sqlglot.dialects import Dialect

from sqlflow_elastic.language import KEYWORDS
from sqlflow_elastic.language.grammar import keywords
from sqlflow_elastic.language.lexis import LEXIS
from sqlflow_elastic.language.words import CLAUSES, VERBS


def test_completion_knows_the_words_of_the_grammar() -> None:
    assert set(KEYWORDS) - {"SELECT", "FROM", "WHERE", "LIMIT"} == keywords()
    assert len(set(KEYWORDS)) == len(KEYWORDS)
    assert {*VERBS, *CLAUSES} <= keywords()


@pytest.mark.parametrize("dialect", LEXIS)
def test_our_lexical_rules_are_those_of_sqlglot(dialect: str) -> None:
    rules, tokenizer = LEXIS[dialect], Dialect.get_or_raise(dialect).tokenizer_class
    names = {name if isinstance(name, str) else name[0] for name in tokenizer.IDENTIFIERS}
    assert set(rules.strings) == set(tokenizer.QUOTES)
    assert set(rules.names) == names
    assert rules.backslash is ("\\" in tokenizer.STRING_ESCAPES)
    assert rules.hash_comments is ("#" in tokenizer.COMMENTS)
    assert rules.spaced_dashes is tokenizer.DASH_COMMENT_REQUIRES_BOUNDARY
    assert rules.nested_comments is (tokenizer.NESTED_COMMENTS and dialect != "hive")  # Hive has none, sqlglot says yes
    assert rules.dollar_strings is bool(tokenizer.HEREDOC_STRINGS)


def test_importing_it_loads_no_database_and_no_tensorflow() -> None:
    program = (
        "import sys, sqlflow_elastic.language\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('tensorflow', 'keras', 'duckdb', 'sqlalchemy', 'pyarrow')"
        " or (n.startswith('sqlflow_elastic.') and n.split('.')[1] not in ('language', 'errors', 'grammar'))])"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
