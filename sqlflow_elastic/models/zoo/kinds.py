"""What a value of an attribute may be: small checkers that can say in words what they accept.

The compiler, the help text and the completion read them; nothing here knows of SQL or TensorFlow. A kind takes a plain
Python value (number, string, boolean, None, list of those) and gives back the value as the program will hold it.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal


class NotAcceptedError(ValueError):
    """The value is not one of these."""


class Kind(abc.ABC):
    """A set of values, checked and described."""

    def accept(self, value: object) -> Any:
        """The value in its normal form (``2`` for ``2.0`` where an integer is meant). Raises: NotAcceptedError."""
        return self._accept(value)

    @property
    def text(self) -> str:
        """What is accepted, with an article: ``an integer of at least 1``."""
        return self._text()

    def suggestions(self) -> tuple[str, ...]:
        """The words it accepts, for completion and "did you mean"; empty where any value goes."""
        return self._suggestions()

    @abc.abstractmethod
    def _accept(self, value: object) -> Any: ...

    @abc.abstractmethod
    def _text(self) -> str: ...

    def _suggestions(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Integer(Kind):
    """A whole number within bounds, which belong to the range."""

    minimum: int | None = 0
    maximum: int | None = None

    def _accept(self, value: object) -> int:
        """Takes ``1e3`` too: it is whole."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise NotAcceptedError
        if self.minimum is not None and value < self.minimum:
            raise NotAcceptedError
        if self.maximum is not None and value > self.maximum:
            raise NotAcceptedError
        return value

    def _text(self) -> str:
        if self.minimum is None:
            return "an integer"
        if self.maximum is None:
            return f"an integer of at least {self.minimum}"
        return f"an integer from {self.minimum} to {self.maximum}"


@dataclass(frozen=True)
class Number(Kind):
    """A finite number between two bounds; ``edges`` says, as in mathematics, which of them belong to the range."""

    minimum: float = -math.inf
    maximum: float = math.inf
    edges: Literal["[]", "(]", "[)", "()"] = "[]"

    def _accept(self, value: object) -> int | float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise NotAcceptedError
        low = value >= self.minimum if self.edges[0] == "[" else value > self.minimum
        high = value <= self.maximum if self.edges[1] == "]" else value < self.maximum
        if not (low and high):
            raise NotAcceptedError
        return value

    def _text(self) -> str:
        bounds = []
        if self.minimum > -math.inf:
            bounds.append(f"{'of at least' if self.edges[0] == '[' else 'above'} {self.minimum:g}")
        if self.maximum < math.inf:
            bounds.append(f"{'of at most' if self.edges[1] == ']' else 'below'} {self.maximum:g}")
        return " ".join(["a number", " and ".join(bounds)]).rstrip()


@dataclass(frozen=True)
class Boolean(Kind):
    """True or False."""

    def _accept(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise NotAcceptedError
        return value

    def _text(self) -> str:
        return "True or False"

    def _suggestions(self) -> tuple[str, ...]:
        return ("True", "False")


@dataclass(frozen=True)
class Text(Kind):
    """A string that is not blank; ``what`` says of what ("a SELECT")."""

    what: str = "a string"

    def _accept(self, value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise NotAcceptedError
        return value

    def _text(self) -> str:
        return self.what


@dataclass(frozen=True)
class Choice(Kind):
    """One of some words, whatever its case.

    Attributes:
        choices: the words.
        prefixes: what TensorFlow programs write before them: it is left away.
        others: words that are accepted too, but not told.
    """

    choices: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def _accept(self, value: object) -> str:
        if not isinstance(value, str):
            raise NotAcceptedError
        word = value
        for prefix in self.prefixes:
            word = word.removeprefix(prefix)
        for choice in (*self.choices, *self.others):
            if choice.lower() == word.lower():
                return choice
        raise NotAcceptedError

    def _text(self) -> str:
        return "one of " + ", ".join(self.choices)

    def _suggestions(self) -> tuple[str, ...]:
        return self.choices


@dataclass(frozen=True)
class ListOf(Kind):
    """A list of at least ``shortest`` values of one kind; ``what`` names them in the plural."""

    item: Kind
    what: str
    shortest: int = 1

    def _accept(self, value: object) -> list[Any]:
        if not isinstance(value, list) or len(value) < self.shortest:
            raise NotAcceptedError
        return [self.item.accept(item) for item in value]

    def _text(self) -> str:
        return f"a list of {self.what}"


@dataclass(frozen=True)
class Optional(Kind):
    """None, or a value of another kind."""

    kind: Kind

    def _accept(self, value: object) -> Any:
        return None if value is None else self.kind.accept(value)

    def _text(self) -> str:
        return f"{self.kind.text}, or None"

    def _suggestions(self) -> tuple[str, ...]:
        return self.kind.suggestions()


@dataclass(frozen=True)
class LabelValues(Kind):
    """The classes of a label: different strings, or different integers."""

    def _accept(self, value: object) -> list[str] | list[int]:
        if not isinstance(value, list) or len(value) < 2 or len(set(map(repr, value))) < len(value):
            raise NotAcceptedError
        if not (all(type(item) is str for item in value) or all(type(item) is int for item in value)):
            raise NotAcceptedError
        return value

    def _text(self) -> str:
        return "a list of at least two different strings (or integers)"


@dataclass(frozen=True)
class MetricNames(Kind):
    """Names of metrics: a list, or one string with commas. Which ones exist depends on the model's task."""

    def _accept(self, value: object) -> list[str]:
        names = value.split(",") if isinstance(value, str) else value
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise NotAcceptedError
        return _unique(name.strip() for name in names)

    def _text(self) -> str:
        return 'metric names with commas between them, like "Accuracy,AUC"'


@dataclass(frozen=True)
class ClassWeights(Kind):
    """Weights of classes: ``"balanced"``, a list in the order of the classes, or pairs ``[[label, weight], …]``."""

    def _accept(self, value: object) -> str | list[float] | dict[str | int, float]:
        if isinstance(value, str) and value.lower() == "balanced":
            return "balanced"
        if not isinstance(value, list) or not value:
            raise NotAcceptedError
        weight = Number(0, edges="()")
        if not isinstance(value[0], list):
            return [weight.accept(item) for item in value]
        pairs: dict[str | int, float] = {}
        for item in value:
            if not isinstance(item, list) or len(item) != 2 or type(item[0]) not in (str, int) or item[0] in pairs:
                raise NotAcceptedError
            pairs[item[0]] = weight.accept(item[1])
        return pairs

    def _text(self) -> str:
        return '"balanced", a list of weights above 0 in the order of the classes, or a list of pairs [label, weight]'

    def _suggestions(self) -> tuple[str, ...]:
        return ("balanced",)


@dataclass(frozen=True)
class AnyValue(Kind):
    """Any plain value: an argument of a user's own model that carries no type hint."""

    def _accept(self, value: object) -> Any:
        return value

    def _text(self) -> str:
        return "any value"


def _unique(names: Iterable[str]) -> list[str]:
    found = list(dict.fromkeys(names))
    if "" in found:
        raise NotAcceptedError
    return found
