"""Frozen values that print as program text and travel as JSON: the base of fields, columns and labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar


class Node:
    """A frozen dataclass whose repr is program text and which has a JSON form; both leave out what is the default.

    Lists given to the constructor are kept as tuples, so that a value is hashable.
    """

    _types: ClassVar[dict[str, type[Node]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Node._types[cls.__name__] = cls

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))

    def _arguments(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The required arguments, and those of the optional ones that are not the default."""
        required, optional = {}, {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.default is dataclasses.MISSING:
                required[field.name] = value
            elif value != field.default:
                optional[field.name] = value
        return required, optional

    def __repr__(self) -> str:
        required, optional = self._arguments()
        arguments = [*map(literal, required.values()), *(f"{name}={literal(v)}" for name, v in optional.items())]
        return f"{type(self).__name__}({', '.join(arguments)})"

    def to_json(self) -> dict[str, Any]:
        """A dictionary of JSON values, from which `from_json` makes an equal value."""
        required, optional = self._arguments()
        return {"type": type(self).__name__} | {k: _to_json(v) for k, v in (required | optional).items()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Any:
        """The field, column or label that `to_json` described."""
        arguments = {name: _from_json(value) for name, value in data.items() if name != "type"}
        return Node._types[data["type"]](**arguments)


def literal(value: Any) -> str:
    """A value as a person would type it: tuples as lists, strings in double quotes where that needs no escapes."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(literal, value))}]"
    text = repr(value)
    if isinstance(value, str) and text[0] == "'" and '"' not in text and "'" not in text[1:-1]:
        return f'"{text[1:-1]}"'
    return text


def _to_json(value: Any) -> Any:
    if isinstance(value, Node):
        return value.to_json()
    return [_to_json(item) for item in value] if isinstance(value, tuple) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Node.from_json(value)
    return tuple(_from_json(item) for item in value) if isinstance(value, list) else value
