"""What was expected at a place, in the words of somebody who writes SQL."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Collection, Sequence

from sqlflow_elastic.errors import Span
from sqlflow_elastic.language.mistake import Mistake
from sqlflow_elastic.language.scanner import QUOTED, Kind, Token
from sqlflow_elastic.language.words import CLAUSES, KEYWORDS

#: Terminals of the grammar in words. Several may have the same; DOUBLE_QUOTED comes with a name or a string.
_WORDS = {
    "NAME": "a name",
    "BACKTICKED": "a name",
    "DIGITS_NAME": "a name",
    "IMAGE": "a name",
    "NUMBER": "a number",
    "SINGLE_QUOTED": "a string",
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
_ANY_VALUE = {"a name", "a number", "a string", "'['"}
_ANY_OPERAND = {"a name", "a number", "a string", "'*'", "'='", "'('"}

#: Without these a statement means nothing: where one may stand and the statement ends, it is what is missing.
_NEEDED = {"INTO": "a name for the result", "USING": "the name of a trained model"}


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
    token, before = tokens[index], tokens[index - 1]
    if before.upper in CLAUSES and not {"NAME", "SINGLE_QUOTED", "BY"} & set(accepted):
        hint = f"write `{before.text}` if this is the name"
        if tokens[index - 2].text == ",":
            hint = f"remove the ',', or {hint}"
        return Mistake(f"a name is missing before {before.text}", before.span, hint)
    if token.kind is Kind.DIGITS_NAME and "NUMBER" in accepted:
        return _no_number(tokens, index)
    if token.kind is Kind.IMAGE and "NAME" in accepted:
        return Mistake(f"'{token.text}' is not a name", token.span, f"write `{token.text}` if it is one")
    if token.upper in CLAUSES and "$END" in accepted and any(earlier.upper == "INTO" for earlier in tokens[:index]):
        hint = "it is given twice" if token.upper == "INTO" else f"write {token.upper} before INTO"
        return Mistake(f"unexpected '{token.text}'", token.span, hint)
    shown = token.text if len(token.text) <= 40 else token.text[:37] + "…"
    message = f"unexpected {shown}" if token.kind in QUOTED else f"unexpected '{shown}'"
    return Mistake(message, token.span, _suggestion(token, accepted))


def _no_number(tokens: Sequence[Token], first: int) -> Mistake:
    """All that stands there without a space is what was meant as a number: ``1.2.3``."""
    last = first
    while last + 1 < len(tokens) and tokens[last].end == tokens[last + 1].start and tokens[last + 1].text not in ",])":
        last += 1
    text = "".join(token.text for token in tokens[first : last + 1])
    return Mistake(f"'{text}' is not a number", Span(tokens[first].start, tokens[last].end))


def _suggestion(token: Token, accepted: Collection[str]) -> str:
    plain = unicodedata.normalize("NFKC", token.text)
    if plain != token.text and plain.isascii():
        return f"write '{plain}' in ASCII"
    keywords = sorted(name for name in accepted if name in KEYWORDS)
    close = difflib.get_close_matches(token.upper, keywords, n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else _expected(accepted)


def _expected(accepted: Collection[str]) -> str:
    words = {word for name, word in _WORDS.items() if name in accepted}
    if "OPERATOR" in accepted:
        words -= _ANY_OPERAND
    elif words >= _ANY_VALUE:
        words = (words - _ANY_VALUE) | {"a value"}
    listed = [word for word in ("a value", *dict.fromkeys(_WORDS.values())) if word in words]
    listed += [name for name in KEYWORDS if name in accepted]
    listed.sort(key="the end of the statement".__eq__)
    return "expected " + (f"{', '.join(listed[:-1])} or {listed[-1]}" if len(listed) > 1 else listed[0])
