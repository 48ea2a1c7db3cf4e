"""The language: the text of a program to typed statements and back.

    parse(text, dialect)               the statements of a program, or a ParseError that shows the place
    parse_query(text, dialect)         the query that a text is
    format_statement, format_program   the way back
    is_complete(text, dialect)         whether a text ends with a finished statement, for a REPL
    select_tables(text, dialect)       the tables that a query reads
    KEYWORDS                           the words of the language, for completion

The nodes are in `sqlflow_elastic.language.ast`; the clauses' grammar is ``grammar/extended_sql.lark``.
"""

from sqlflow_elastic.language.parser import is_complete, parse, parse_query
from sqlflow_elastic.language.printer import format_program, format_statement
from sqlflow_elastic.language.tables import select_tables
from sqlflow_elastic.language.words import KEYWORDS

__all__ = ["KEYWORDS", "format_program", "format_statement", "is_complete", "parse", "parse_query", "select_tables"]
