"""Labels: what a model learns to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlflow_elastic.models.features.columns import Kind
from sqlflow_elastic.models.features.nodes import Node

ClassValue = int | str | bool


class Label(Node):
    """What a model learns to say."""

    field: str

    def check(self, kinds: Mapping[str, Kind]) -> list[str]:
        """What is wrong with it over fields of these kinds; empty when nothing is."""
        if self.field not in kinds:
            return [f"there is no field '{self.field}'"]
        return self._problems(kinds[self.field])

    def _problems(self, kind: Kind) -> list[str]:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class ClassLabel(Label):
    """A class: integers, strings or booleans; learned from the data, in order, if ``classes`` is None."""

    field: str
    classes: Sequence[ClassValue] | None = None

    def _problems(self, kind: Kind) -> list[str]:
        problems = []
        if self.classes is not None and len(self.classes) < 2:
            problems.append(f"the label '{self.field}' needs at least two classes")
        if self.classes is not None and len(set(self.classes)) != len(self.classes):
            problems.append(f"the label '{self.field}' has a class twice")
        if kind == "time":
            problems.append(f"the label '{self.field}' is of kind time, which is not a class")
        return problems


@dataclass(frozen=True, repr=False)
class NumberLabel(Label):
    """``shape`` numbers: a number, or a text of numbers separated by commas."""

    field: str
    shape: int = 1

    def _problems(self, kind: Kind) -> list[str]:
        if self.shape < 1:
            return [f"the label '{self.field}' needs a shape of at least 1, not {self.shape}"]
        if kind not in (("float", "integer", "boolean", "text") if self.shape == 1 else ("text",)):
            numbers = "a number" if self.shape == 1 else f"a text of {self.shape} numbers"
            return [f"the label '{self.field}' is of kind {kind}, not {numbers}"]
        return []
