"""Looks at syntax trees more closely than ``==`` does: ``1``, ``1.0`` and ``True`` are equal to Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from sqlflow_elastic.language import ast


def kinds(statements: Sequence[ast.Statement]) -> str:
    """The statements' classes, as the markers of the corpora name them."""
    return " ".join(type(statement).__name__ for statement in statements)


def same(left: object, right: object) -> bool:
    """Whether two trees are equal, values' types too; spans do not count."""
    return left == right and _without_spans(left) == _without_spans(right)


def walk(node: object) -> Iterator[ast.Node]:
    """The node and all in it."""
    if isinstance(node, tuple):
        for item in node:
            yield from walk(item)
    elif isinstance(node, ast.Node):
        yield node
        for field in dataclasses.fields(node):
            yield from walk(getattr(node, field.name))


def children(node: ast.Node) -> Iterator[ast.Node]:
    """The nodes directly in a node."""
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        yield from (item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, ast.Node))


def _without_spans(node: object) -> object:
    if isinstance(node, tuple):
        return [_without_spans(item) for item in node]
    if isinstance(node, ast.Node):
        names = [field.name for field in dataclasses.fields(node) if not field.name.endswith("span")]
        return type(node).__name__, [_without_spans(getattr(node, name)) for name in names]
    return repr(node)
