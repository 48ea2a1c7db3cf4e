"""What differs between databases below the level of words: strings, quoted names and comments.

Each dialect is one row of a table; from a row come two patterns, one for the SQL of the database and one for our own
clauses. They differ where our clauses are the same for every database: names may stand in backticks everywhere, and
``[`` always begins a list (in SQLite's SQL it begins a quoted name).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

# Possessive repeats are of single characters only: of groups, Python before 3.11.5 matches them wrongly or without end.
# No pattern needs more, since what follows a group never lets it give anything back.

# Letters and digits of names: ASCII, and what databases take beyond it, without the spaces and punctuation of Unicode.
_LETTER = (
    "A-Za-z_\u00aa-\u1fff\u200c\u200d\u2070-\u2fff\u3005-\u3007\u3040-\ufefe\uff21-\uff3a\uff41-\uff5a\uff66-\uffef"
    "\U00010000-\U0010ffff"
)
_WORD = rf"[{_LETTER}][{_LETTER}0-9$]*+"
_PIECE = rf"[{_LETTER}0-9][{_LETTER}0-9$]*+"
_BACKTICKED = r"(?:`[^`]*+`)+"

NAME = re.compile(_WORD)
NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
# At most so many dots before the first other joint, so that a long dotted name is not read again from each of its dots.
IMAGE = re.compile(rf"{_PIECE}(?:\.{_PIECE}){{0,9}}[/:@-]{_PIECE}(?:[./:@-]{_PIECE})*")


@dataclass(frozen=True)
class Lexis:
    """The lexical rules of one dialect.

    Attributes:
        strings: the quotes that make strings; the others of ``'``, ``"`` make names.
        names: the quotes that make names in the database's SQL (``[`` stands for ``[a b]``).
        backslash: a backslash escapes the next character of a string.
        hash_comments: ``#`` begins a comment.
        spaced_dashes: ``--`` begins a comment only before white space.
        nested_comments: ``/* /* */ */`` is one comment.
        dollar_strings: ``$$text$$``, ``$tag$text$tag$`` and ``E'text\\n'`` are strings.
    """

    strings: str
    names: str
    backslash: bool = False
    hash_comments: bool = False
    spaced_dashes: bool = False
    nested_comments: bool = False
    dollar_strings: bool = False

    @functools.cached_property
    def sql(self) -> re.Pattern[str]:
        """The next token of the database's SQL."""
        return _pattern(self, clauses=False)

    @functools.cached_property
    def clauses(self) -> re.Pattern[str]:
        """The next token of our clauses."""
        return _pattern(self, clauses=True)


LEXIS: dict[str, Lexis] = {
    "duckdb": Lexis(strings="'", names='"', nested_comments=True, dollar_strings=True),
    "postgres": Lexis(strings="'", names='"', nested_comments=True, dollar_strings=True),
    "sqlite": Lexis(strings="'", names='"`['),
    "mysql": Lexis(strings="'\"", names="`", backslash=True, hash_comments=True, spaced_dashes=True),
    "hive": Lexis(strings="'\"", names="`", backslash=True),
}


def lexis_of(dialect: str) -> Lexis:
    """The lexical rules of a dialect by its sqlglot name. Raises ValueError for one we do not know."""
    try:
        return LEXIS[dialect]
    except KeyError:
        raise ValueError(f"unknown SQL dialect {dialect!r}: one of {', '.join(sorted(LEXIS))}") from None


def _quoted(quote: str, backslash: bool) -> str:
    """A quoted text. One with doubled quotes in it is several of them without a gap, the last perhaps never closed."""
    inside = rf"(?:[^{quote}\\]++|\\[\s\S])*" if backslash else f"[^{quote}]*+"
    return f"(?:{quote}{inside}{quote})+"


def _pattern(lexis: Lexis, clauses: bool) -> re.Pattern[str]:
    """One token with the white space and comments before it; the name of the group that matched is its kind."""
    space = [r"[\s\ufeff]++", r"--(?!\S)[^\n]*+" if lexis.spaced_dashes else r"--[^\n]*+"]
    code = []
    if lexis.hash_comments:
        space.append(r"#[^\n]*+")
        code.append(r"/\*![\s\S]*?\*/")  # MySQL runs the text in these
    if not lexis.nested_comments:
        space.append(r"/\*(?!!)[\s\S]*?\*/" if lexis.hash_comments else r"/\*[\s\S]*?\*/")

    single = [_quoted("'", lexis.backslash)]
    if lexis.dollar_strings:
        single += [r"\$(?P<tag>(?:[^\W\d]\w*+)?)\$[\s\S]*?\$(?P=tag)\$", r"[eE]" + _quoted("'", backslash=True)]
    backticked = [_BACKTICKED] if clauses or "`" in lexis.names else []
    unclosed = ["['\"`]" if backticked else "['\"]", r"/\*"]
    if "[" in lexis.names and not clauses:
        backticked.append(r"\[[^\]]*+\]")
    if lexis.dollar_strings:
        unclosed += [r"\$(?:[^\W\d]\w*+)?\$", "[eE]'"]

    groups = {
        "single": single,
        "double": [_quoted('"', lexis.backslash and '"' in lexis.strings)],
        "backticked": backticked,
        "code": code,
        "unclosed": unclosed,
        "semicolon": [";"],
        "open": [r"[(\[{]"],
        "close": [r"[)\]}]"],
    }
    if clauses:
        groups["number"] = [rf"{NUMBER.pattern}(?![{_LETTER}0-9.])(?![/:@-]{_PIECE})"]
        groups["image"] = [IMAGE.pattern]
        groups["word"] = [_WORD]
        groups["digits_name"] = [rf"[0-9][{_LETTER}0-9$]*+"]
    else:
        groups["word"] = [_WORD]
        groups["number"] = [rf"\.?[0-9](?:[{_LETTER}0-9.]|(?<=[eE])[+-](?=[0-9]))*"]
    groups["other"] = [r"[\s\S]"]
    alternatives = "|".join(f"(?P<{kind}>{'|'.join(patterns)})" for kind, patterns in groups.items() if patterns)
    return re.compile(f"(?:{'|'.join(space)})*(?:{alternatives})?")
