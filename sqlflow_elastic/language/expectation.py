"""What was expected at a place, in the words of somebody who writes SQL."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from sqlflow_elastic.errors import Span
from sqlflow_elastic.language.mistake import Mistake
from sqlflow_elastic.language.scanner import Kind, Token
from sqlflow_elastic.language.words import KEYWORDS

#: Terminals of the grammar in words; several may have the same.
_WORDS = {
    "NAME": "a name",
    "BACKTICKED": "a name",
    "DOUBLE_QUOTED": "a name",
    "DIGITS_NAME": "a name",
    "IMAGE": "a name",
    "SINGLE_QUOTED": "a string",
    "NUMBER": "a number",
    "OPERATOR": "an expression",
    "STAR": "'*'",
    "EQUAL": "'='",
    "COMMA": "','",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "$END": "the end of the statement",
}

#: Without these a statement means nothing: where one may stand and the statement ends, it is what is missing.
_NEEDED = {"INTO": "a name for the result", "USING": "the name of a trained model", "LABEL": "the name of a field"}


def unexpected(tokens: Sequence[Token], found: Span | None, end: Span, accepted: Collection[str]) -> Mistake:
    """The mistake of a statement that the grammar does not take.

    Args:
        tokens: the statement's.
        found: the place of the token that was not expected; None for the statement's end.
        end: the place of the statement's end.
        accepted: the terminals that the grammar takes there.
    """
    if found is None:
        for keyword, meaning in _NEEDED.items():
            if keyword in accepted:
                return Mistake(f"{keyword} is missing", end, f"add {keyword} and {meaning}")
        return Mistake(f"the statement ends after '{tokens[-1].text}'", end, _expected(accepted))
    index = next(i for i, token in enumerate(tokens) if token.start == found.start)
    token = tokens[index]
    if token.kind is Kind.DIGITS_NAME and "NUMBER" in accepted:
        return Mistake(f"'{token.text}' is not a number", token.span)
    if token.kind is Kind.IMAGE and "NAME" in accepted:
        return Mistake(f"'{token.text}' is not a name", token.span, f"write `{token.text}` if it is one")
    return Mistake(f"unexpected '{_short(token.text)}'", token.span, _suggestion(tokens, index, accepted))


def _suggestion(tokens: Sequence[Token], index: int, accepted: Collection[str]) -> str:
    before = tokens[index - 1]
    name_only = not set(accepted) - {"DOT", "EQUAL", "LPAR"}
    if name_only and before.upper in KEYWORDS and tokens[index - 2].text == ",":
        return f"remove the ',' before {before.upper}"
    keywords = sorted(name for name in accepted if name in KEYWORDS)
    close = difflib.get_close_matches(tokens[index].upper, keywords, n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else _expected(accepted)


def _expected(accepted: Collection[str]) -> str:
    keywords = [name for name in KEYWORDS if name in accepted]
    others = {word for name, word in _WORDS.items() if name in accepted}
    if "OPERATOR" in accepted:
        others -= {"a name", "a string", "a number", "'*'", "'='"}
    if {"a name", "a string", "a number"} <= others:
        others = (others - {"a name", "a string", "a number", "'['"}) | {"a value"}
    words = [*sorted(others, key=lambda word: (not word.startswith("a"), word)), *keywords]
    words.sort(key="the end of the statement".__eq__)
    return "expected " + (f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0])


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "…"
