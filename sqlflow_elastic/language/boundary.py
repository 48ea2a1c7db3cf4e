"""Where the database's SQL ends and our clauses begin.

Nothing is reserved, so a ``to`` may also be a column, a table or an alias, and a ``train`` its alias. What stands
before and behind decides.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from sqlflow_elastic.language.mistake import Mistake
from sqlflow_elastic.language.scanner import Kind, Scanner, Token
from sqlflow_elastic.language.words import (
    CHANGE_HEADS,
    INTERVAL_UNITS,
    OPERAND_FOLLOWS,
    QUERY_GOES_ON,
    QUERY_HEADS,
    VERBS,
)

_OPERATORS = frozenset("+-*/%<>=!|&^~,.:@")
_MODIFIERS = frozenset({"DISTINCT", "ALL", "NOT"})
_NAMES = (Kind.WORD, Kind.BACKTICKED, Kind.DOUBLE_QUOTED, Kind.SINGLE_QUOTED, Kind.IMAGE, Kind.DIGITS_NAME, Kind.NUMBER)
_EXPECTED_VERB = f"expected {', '.join(VERBS[:-1])} or {VERBS[-1]}"


def is_command(scanner: Scanner, offset: int) -> bool:
    """Whether a statement of ours without a query begins here: SHOW TRAIN m, DROP MODEL m, KILL JOB 3, …

    ``DESCRIBE model``, ``SHOW train`` and ``SHOW job`` alone ask the database about a table of that name.
    """
    first = scanner.token(offset)
    if first.upper not in {"SHOW", "DESCRIBE", "DESC", "DROP", "KILL"}:
        return False
    second = scanner.token(first.end)
    match first.upper, second.upper:
        case ("SHOW", "MODELS" | "JOBS") | ("DROP", "MODEL") | ("KILL", "JOB"):
            return True
        case ("SHOW", "TRAIN" | "JOB") | ("DESCRIBE" | "DESC", "MODEL"):
            return scanner.token(second.end, clauses=True).kind in _NAMES
        case _:
            return False


def begins_clauses(scanner: Scanner, before: Sequence[Token], head: str, to: Token) -> bool:
    """Whether a ``TO`` outside of brackets begins our clauses, given the statement's tokens before it and its head.

    Raises:
        Mistake: the TO can only be meant to, but no verb of ours follows.
    """
    verb = scanner.token(to.end)
    known = verb.upper in VERBS
    if not before:
        return known or _mistaken_verb(to, verb)
    after = scanner.token(verb.end, clauses=True) if known else verb
    names_something = after.kind in _NAMES and after.upper not in QUERY_GOES_ON
    if head not in QUERY_HEADS:
        return known and head in CHANGE_HEADS and names_something
    if not is_complete_operand(before):
        return known and (names_something or verb.upper in ("MAXIMIZE", "MINIMIZE"))
    if known:
        return True
    if verb.upper in INTERVAL_UNITS or not (names_something or verb.kind in (Kind.END, Kind.SEMICOLON)):
        return False
    return _mistaken_verb(to, verb)


def is_complete_operand(tokens: Sequence[Token]) -> bool:
    """Whether a query may end behind these tokens: not behind ``FROM``, ``,`` or ``=``.

    A word or ``*`` that itself stands where an operand is wanted is one: ``GROUP BY by``, ``SELECT *``.
    """
    first = len(tokens)
    while first > 0 and _wants_operand(tokens[first - 1]):
        first -= 1
    wants = False
    for token in tokens[first:]:
        wants = not wants if token is tokens[-1] or token.upper not in _MODIFIERS else wants
    return not wants


def _wants_operand(token: Token) -> bool:
    if token.kind is Kind.WORD:
        return token.upper in OPERAND_FOLLOWS
    return token.kind is Kind.OTHER and token.text in _OPERATORS


def _mistaken_verb(to: Token, verb: Token) -> bool:
    if verb.kind in (Kind.END, Kind.SEMICOLON):
        raise Mistake("TO needs a verb", to.span, _EXPECTED_VERB, unfinished=verb.kind is Kind.END)
    close = difflib.get_close_matches(verb.upper, VERBS, n=1, cutoff=0.6)
    raise Mistake(f"TO has no verb '{verb.text}'", verb.span, f"did you mean {close[0]}?" if close else _EXPECTED_VERB)
