r"""Python values as Python text: the only way from a statement into a program.

`literal` writes values of a closed set of types, laid out as ``ruff format`` would. `comment` makes text harmless
inside a docstring. Whatever the text is, the program's syntax tree differs in literals only.
"""

from __future__ import annotations

import dataclasses
import keyword
import math
from collections.abc import Mapping, Sequence
from typing import Any

from sqlflow_elastic.models.features import ClassLabel, Column, Field, Label

LINE = 120

#: More integer classes than this are written as a range, if they are one.
_LISTED = 10


def literal(value: Any, used: int = 0, indent: int = 0) -> str:
    """A value as program text.

    Args:
        value: None, a bool, an int, a finite float, a string, a list, tuple or dict of such, a field, column or label.
        used: characters before and after it on its line.
        indent: of the line that it begins on.

    Raises: TypeError, ValueError: another type, or a number that is not finite.
    """
    return _layout(_tree(value), used, indent)


@dataclasses.dataclass(frozen=True)
class Call:
    """A call, as a value for `literal`: of a dotted name, with names and then named arguments."""

    function: str
    arguments: Mapping[str, Any]
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        names = [*self.function.split("."), *self.arguments, *self.names]
        if not all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
            raise ValueError(f"{self.function}(…) is not a call")


def line(before: str, value: Any, after: str = "") -> str:
    """A line of a program with one value in it: ``line("FIELDS = ", fields)``."""
    indent = len(before) - len(before.lstrip())
    return before + literal(value, len(before) + len(after), indent) + after


def text_block(text: str) -> str:
    """A string as a person would write it: several plain lines between triple quotes, other text as `literal`."""
    lines = text.split("\n")
    plain = all(line.isprintable() and "\\" not in line and line == line.rstrip() for line in lines)
    if len(lines) == 1 or not plain or '"""' in text or text.endswith('"'):
        return literal(text)
    return f'"""\\\n{text}"""'


def comment(text: str, indent: str = "    ") -> str:
    """Text as lines of a docstring: what could end the string, or hide in a terminal, is written as an escape."""
    shown = text.expandtabs(4).replace("\r\n", "\n").replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    lines = (
        "".join(c if c.isprintable() else repr(c)[1:-1].replace("\\", "\\\\") for c in line)
        for line in shown.split("\n")
    )
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


@dataclasses.dataclass(frozen=True)
class _Group:
    """``open items close``; an item is a tree, with a prefix (``name=``, ``key: ``)."""

    open: str
    items: Sequence[tuple[str, _Tree]]
    close: str


_Tree = str | _Group


def _tree(value: Any) -> _Tree:
    if value is None or type(value) in (bool, int):
        return repr(value)
    if type(value) is float:
        if not math.isfinite(value):
            raise ValueError(f"{value} cannot stand in a program")
        return repr(value)
    if type(value) is str:
        return _string(value)
    if type(value) is list:
        return _Group("[", [("", _tree(item)) for item in value], "]")
    if type(value) is tuple:
        return _Group("(", [("", _tree(item)) for item in value], ",)" if len(value) == 1 else ")")
    if type(value) is dict:
        return _Group("{", [(f"{literal(key)}: ", _tree(item)) for key, item in value.items()], "}")
    if isinstance(value, Field | Column | Label):
        return _node(value)
    if isinstance(value, Call):
        named = [(f"{name}=", _tree(item)) for name, item in value.arguments.items()]
        return _Group(f"{value.function}(", [*(("", name) for name in value.names), *named], ")")
    raise TypeError(f"a {type(value).__name__} cannot stand in a program")


def _node(node: Field | Column | Label) -> _Group:
    """A field, column or label: required arguments by place, others by name where they are not the default."""
    items: list[tuple[str, _Tree]] = []
    for field in dataclasses.fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        required = field.default is dataclasses.MISSING
        if not required and value == field.default:
            continue
        tree = _argument(value)
        if isinstance(node, ClassLabel) and _is_long_range(value):
            tree = f"list(range({len(value)}))"
        items.append(("" if required else f"{field.name}=", tree))
    return _Group(f"{type(node).__name__}(", items, ")")


def _argument(value: Any) -> _Tree:
    return _tree(list(value)) if type(value) is tuple else _tree(value)


def _is_long_range(value: Any) -> bool:
    return type(value) is tuple and len(value) > _LISTED and value == tuple(range(len(value))) and type(value[0]) is int


def _string(text: str) -> str:
    """`repr`, in double quotes where that costs no escape more."""
    shown = repr(text)
    if shown[0] == "'" and '"' not in text and "\\'" not in shown:
        return f'"{shown[1:-1]}"'
    return shown


def _flat(tree: _Tree) -> str:
    if isinstance(tree, str):
        return tree
    return tree.open + ", ".join(prefix + _flat(item) for prefix, item in tree.items) + tree.close


def _layout(tree: _Tree, used: int, indent: int) -> str:
    flat = _flat(tree)
    if isinstance(tree, str) or used + len(flat) <= LINE or not tree.items:
        return flat
    inner = " " * (indent + 4)
    lines = [
        f"{inner}{prefix}{_layout(item, indent + 4 + len(prefix) + 1, indent + 4)},\n" for prefix, item in tree.items
    ]
    return f"{tree.open}\n{''.join(lines)}{' ' * indent}{tree.close.lstrip(',')}"
