"""Models that users bring: found, and their signature read, without importing or running anything of theirs.

A user's model is named by its path, ``my_package.my_module.my_model``, or registered in the entry point group
`ENTRY_POINTS` under a name. It is one of two things, at the top level of a module:

- a function annotated ``-> keras.Model``. Its first parameter takes the inputs (`FeatureInputs`); it returns
  ``inputs.model(outputs)``;
- a class whose base is ``keras.Model``. It is called with the features, float32 [rows, width], and returns the
  outputs. If the constructor's first parameter is named ``feature_columns``, it gets the list of feature columns.
  If it is a class as Keras asks for (it takes ``**kwargs`` for ``super().__init__``, and defines ``get_config`` if its
  arguments are not plain values), Keras builds it again for prediction, else its code does.

The outputs are what the loss takes: [rows, 1] logits for two classes, [rows, n] logits for n classes, [rows, 1] numbers
for a number. All other parameters are attributes: ``model.units = 32`` is passed as ``units=32``, checked by its
annotation (int, float, bool, str, or a list of those). A parameter ``n_classes`` that is not given gets the number of
the label's classes.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.metadata
import importlib.util
import keyword
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlflow_elastic.models.zoo.attributes import Attribute
from sqlflow_elastic.models.zoo.declarations import USER_MODEL, Family, Model, Task
from sqlflow_elastic.models.zoo.kinds import AnyValue, Boolean, Integer, Kind, ListOf, Number, Optional, Text

ENTRY_POINTS = "sqlflow_elastic.models"

_MODEL_TYPES = frozenset({"Model", "keras.Model", "keras.models.Model", "tf.keras.Model", "tensorflow.keras.Model"})
_SCALARS: dict[str, tuple[Kind, str]] = {
    "int": (Integer(None), "integers"),
    "float": (Number(), "numbers"),
    "bool": (Boolean(), "True or False"),
    "str": (Text(), "strings"),
}


class NotAModelError(Exception):
    """The path leads to something that is no model; the message says what it is and what would be one."""


@dataclass(frozen=True)
class UserModel(Model):
    """A user's model.

    Attributes:
        module, attribute: where it is defined.
        is_class: a class, and not a function.
        parameters: what it takes as arguments, but for the inputs.
        takes_columns: it is a class whose first parameter is ``feature_columns``.
    """

    module: str = ""
    attribute: str = ""
    is_class: bool = False
    parameters: tuple[str, ...] = ()
    takes_columns: bool = False


def registered() -> dict[str, str]:
    """The models that installed packages registered: ``module:attribute`` by name."""
    return {point.name: point.value for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}


def find_user_model(name: str) -> UserModel | None:
    """The model of a registered name or a path; None if there is no such module.

    Raises: NotAModelError: there is something else.
    """
    module, _, attribute = registered().get(name, "").partition(":")
    if not module:
        module, _, attribute = name.rpartition(".")
    if not module or not all(_is_name(part) for part in [*module.split("."), attribute]):
        return None
    source = _source_of(module)
    if source is None:
        return None
    try:
        tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise NotAModelError(f"the module '{module}' cannot be read: {error}") from None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == attribute:
            return _declare(name, module, node)
    raise NotAModelError(f"the module '{module}' defines no function or class '{attribute}'")


def _source_of(module: str) -> Path | None:
    """The source file of a module. Nothing is imported: packages on the way are only looked up."""
    first, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(first)
        path = first
        for part in rest:
            if spec is None or spec.submodule_search_locations is None:
                return None
            path = f"{path}.{part}"
            spec = importlib.machinery.PathFinder.find_spec(path, list(spec.submodule_search_locations))
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _declare(name: str, module: str, node: ast.FunctionDef | ast.ClassDef) -> UserModel:
    is_class = isinstance(node, ast.ClassDef)
    if isinstance(node, ast.ClassDef):
        if not any(ast.unparse(base) in _MODEL_TYPES for base in node.bases):
            raise NotAModelError(f"the class '{node.name}' of '{module}' is not derived from keras.Model")
        constructor = next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)
        parameters = list(_parameters(constructor.args))[1:] if constructor else []
    else:
        if node.returns is None or ast.unparse(node.returns).strip("'\"") not in _MODEL_TYPES:
            raise NotAModelError(f"the function '{node.name}' of '{module}' is not annotated to return keras.Model")
        parameters = list(_parameters(node.args))
        if not parameters:
            raise NotAModelError(f"the function '{node.name}' of '{module}' takes no inputs")
        parameters = parameters[1:]
    takes_columns = is_class and bool(parameters) and parameters[0][0].arg == "feature_columns"
    parameters = parameters[takes_columns:]
    own = tuple(_attribute(argument, default) for argument, default in parameters)
    taken = {attribute.name for attribute in own}
    return UserModel(
        name=name,
        help=(ast.get_docstring(node) or "A model of the user's.").split("\n")[0],
        family=Family.CUSTOM,
        task=Task.LABEL,
        attributes=(*own, *(attribute for attribute in USER_MODEL if attribute.name not in taken)),
        module=module,
        attribute=node.name,
        is_class=is_class,
        parameters=tuple(argument.arg for argument, _ in parameters),
        takes_columns=takes_columns,
    )


def _parameters(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """The parameters that can be passed, each with its default; ``*args`` and ``**kwargs`` are left out."""
    placed = [*arguments.posonlyargs, *arguments.args]
    defaults: Sequence[ast.expr | None] = [
        *[None] * (len(placed) - len(arguments.defaults)),
        *arguments.defaults,
    ]
    yield from zip(placed, defaults, strict=True)
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)


def _attribute(argument: ast.arg, default: ast.expr | None) -> Attribute:
    """A parameter as an attribute; ``n_classes`` is filled from the label, so it is never required."""
    value: Any = None
    if default is not None:
        try:
            value = ast.literal_eval(default)
        except ValueError:
            value = None
    kind = _kind(argument.annotation)
    if default is not None and value is None and not isinstance(kind, Optional):
        kind = Optional(kind)
    required = default is None and argument.arg != "n_classes"
    return Attribute(f"model.{argument.arg}", kind, value, "An argument of the model.", required=required)


def _kind(annotation: ast.expr | None) -> Kind:
    match annotation:
        case ast.Name(id=name) if name in _SCALARS:
            return _SCALARS[name][0]
        case ast.Subscript(value=ast.Name(id="list"), slice=ast.Name(id=item)) if item in _SCALARS:
            return ListOf(*_SCALARS[item], shortest=0)
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return Optional(_kind(left))
    return AnyValue()


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)
