"""The WITH clause: attributes checked against their declarations, with the place of every mistake."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlflow_elastic.compiler.program_text import ProgramText, did_you_mean
from sqlflow_elastic.errors import CompileError, Span
from sqlflow_elastic.language import ast
from sqlflow_elastic.models.zoo.attributes import Attribute
from sqlflow_elastic.models.zoo.kinds import Choice, NotAcceptedError
from sqlflow_elastic.models.zoo.optimizers import OPTIMIZER_NAMES, optimizer


@dataclass(frozen=True)
class Attributes:
    """The checked attributes of a statement.

    Attributes:
        values: what was given, by the attribute's main name.
        spans: where each of them stands.
    """

    program: ProgramText
    values: Mapping[str, Any]
    spans: Mapping[str, Span]

    def error(self, name: str, message: str, hint: str | None = None) -> CompileError:
        """An error at a given attribute."""
        return self.program.error(self.spans[name], message, hint)

    def under(self, prefix: str) -> dict[str, Any]:
        """Those of a group, without its name: ``under("optimizer")`` may be ``{"learning_rate": 0.1}``."""
        return {name.removeprefix(f"{prefix}."): v for name, v in self.values.items() if name.startswith(f"{prefix}.")}


class AttributeReader:
    """Reads a WITH clause.

    Args:
        program: the text, for errors.
        owner: what takes the attributes, for messages: ``DNNClassifier``, ``TO PREDICT``.
        declared: the attributes it takes.
        optimizers: groups whose attributes are the parameters of an optimizer, which ``model.<group>`` names.
    """

    def __init__(
        self, program: ProgramText, owner: str, declared: Iterable[Attribute], optimizers: Iterable[str] = ()
    ) -> None:
        self.program = program
        self.owner = owner
        self.declared = {attribute.name: attribute for attribute in declared}
        self.groups = {group: f"model.{group}" for group in optimizers}

    def read(self, attributes: Iterable[ast.Attribute]) -> Attributes:
        """The attributes' values. Raises: CompileError: an unknown or repeated one, or a value that does not fit."""
        values: dict[str, Any] = {}
        spans: dict[str, Span] = {}
        parameters: list[ast.Attribute] = []
        for attribute in attributes:
            if attribute.name.partition(".")[0] in self.groups:
                parameters.append(attribute)
                continue
            declared = self._declared(attribute)
            if isinstance(attribute.value, ast.Call) and declared.kind is OPTIMIZER_NAMES:
                parameters += _parameters_of_call(declared.name.removeprefix("model."), attribute.value)
                value: Any = attribute.value.function.text
            else:
                value = self._plain(attribute.value)
            name = declared.same_as or declared.name
            if name in values:
                message = f"{name} is given twice"
                raise self.program.error(attribute.name_span, message, f"{declared.name} is another name of it")
            spans[name] = attribute.span
            values[name] = self._accept(attribute, declared, value)
        for attribute in parameters:
            declared = self._parameter(attribute, values)
            if attribute.name in values:
                raise self.program.error(attribute.name_span, f"{attribute.name} is given twice")
            spans[attribute.name] = attribute.span
            values[attribute.name] = self._accept(attribute, declared, self._plain(attribute.value))
        return Attributes(self.program, values, spans)

    def _declared(self, attribute: ast.Attribute) -> Attribute:
        if attribute.name in self.declared:
            return self.declared[attribute.name]
        known = [*self.declared, *(f"{group}.learning_rate" for group in self.groups)]
        raise self._unknown(attribute, self.owner, known)

    def _unknown(self, attribute: ast.Attribute, owner: str, known: list[str]) -> CompileError:
        message = f"{owner} has no attribute '{attribute.name}'"
        return self.program.error(attribute.name_span, message, _nearest(attribute.name, known))

    def _parameter(self, attribute: ast.Attribute, values: Mapping[str, Any]) -> Attribute:
        """The declaration of an optimizer's parameter, of the optimizer that the statement or the model chose."""
        group, _, name = attribute.name.partition(".")
        chosen = self.groups[group]
        found = optimizer(values.get(chosen, self.declared[chosen].default))
        for parameter in found.parameters:
            if parameter.name == name:
                return parameter
        raise self._unknown(attribute, f"the optimizer {found.name}", [f"{group}.{p.name}" for p in found.parameters])

    def _accept(self, attribute: ast.Attribute, declared: Attribute, value: Any) -> Any:
        try:
            return declared.kind.accept(value)
        except NotAcceptedError:
            pass
        hint = None
        if isinstance(declared.kind, Choice) and isinstance(value, str):
            hint = did_you_mean(value, declared.kind.suggestions())
        message = f"{attribute.name} must be {declared.kind.text}, not {_shown(value)}"
        raise self.program.error(attribute.value.span, message, hint)

    def _plain(self, value: ast.Value) -> Any:
        """A syntax tree's value as a Python value; a bare word is a string."""
        match value:
            case ast.Literal():
                return value.value
            case ast.Name():
                return value.text
            case ast.ListValue():
                return [self._plain(item) for item in value.items]
            case ast.Call() if value.function.parts[0].lower() == "search":
                raise self.program.error(
                    value.span, "searching for the best value is not available yet", "give one value"
                )
            case ast.Call():
                raise self.program.error(value.span, f"'{value.function.text}(…)' is not a value here")
        raise self.program.error(value.span, "'*' is not a value here")


def _parameters_of_call(group: str, call: ast.Call) -> Iterable[ast.Attribute]:
    """``Adam(learning_rate=0.1)`` as ``optimizer.learning_rate = 0.1``; an argument without a name is the rate."""
    for argument in call.args:
        yield ast.Attribute(f"{group}.learning_rate", argument, span=argument.span, name_span=argument.span)
    for keyword in call.keywords:
        yield ast.Attribute(f"{group}.{keyword.name}", keyword.value, span=keyword.span, name_span=keyword.span)


def _nearest(name: str, known: list[str]) -> str:
    """A hint: the attribute that ends the same, or a similar one of the same group, or what the group has."""
    group, _, end = name.rpartition(".")
    for other in known:
        if other.rpartition(".")[2] == end:
            return f"did you mean '{other}'?"
    siblings = [other for other in known if other.rpartition(".")[0] == group]
    if not siblings:
        groups = dict.fromkeys(f"{other.partition('.')[0]}." for other in known)
        return did_you_mean(name, known) or f"its attributes begin with {', '.join(groups)}"
    close = difflib.get_close_matches(end, [other.rpartition(".")[2] for other in siblings], n=1)
    return f"did you mean '{group}.{close[0]}'?" if close else f"it has {', '.join(siblings)}"


def _shown(value: Any, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
